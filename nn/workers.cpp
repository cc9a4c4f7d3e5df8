#include <algorithm>
#include <cstring>
#include <exception>

#include <fmt/format.h>
#include <sched.h>

#include <attune/nn/gradient_sum.hpp>
#include <attune/nn/messages.hpp>
#include <attune/nn/workers.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
namespace {

/// A digit for each CPU, 1 for those that this process may use.
std::string allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::string cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) cpus += CPU_ISSET(cpu, &set) ? '1' : '0';
  return cpus;
}

/// Keeps share `index` of `count` of them: several processes would bind their threads to the same
/// ones otherwise.
void take_cpus(const std::string& allowed, Index index, Index count) {
  std::vector<int> cpus;
  for (std::size_t cpu = 0; cpu < allowed.size(); ++cpu)
    if (allowed[cpu] == '1') cpus.push_back(static_cast<int>(cpu));
  const Index n = std::ssize(cpus);
  if (count < 2 || n == 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  const Index begin = count > n ? index % n : index * n / count,
              end = count > n ? begin + 1 : (index + 1) * n / count;
  for (Index i = begin; i < end; ++i) CPU_SET(cpus[static_cast<std::size_t>(i)], &set);
  sched_setaffinity(0, sizeof set, &set);  // a hint: it may be refused
}

std::span<std::byte> writable_bytes(std::string& text) {
  return std::as_writable_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Workers::Workers(const WorkersOptions& options)
    : options_(options), messages_(detail::Messages::join()) {
  if (messages_) rank_ = messages_->rank(), count_ = messages_->count();
  hosts_.assign(static_cast<std::size_t>(count_), "a host");
  if (!messages_) return;
  hosts_ = gather(messages_->host());
  const std::string allowed = allowed_cpus();
  const std::vector<std::string> others = gather(allowed);
  Index index = 0, count = 0;
  for (std::size_t r = 0; r < others.size(); ++r) {
    if (hosts_[r] != hosts_[static_cast<std::size_t>(rank_)] || others[r] != allowed) continue;
    index += static_cast<int>(r) < rank_;
    ++count;
  }
  take_cpus(allowed, index, count);
}

Workers::~Workers() {
  if (!messages_ || messages_->broken || std::uncaught_exceptions() > 0) return;
  try {
    messages_->leave();
  } catch (const std::exception&) {  // there is nobody left to tell
  }
}

void Workers::abort() {
  if (messages_) messages_->abort();
}

std::string Workers::name(int rank) const { return detail::worker_name(rank, hosts_); }

Workers::Range Workers::shards_of(int rank, Index shards) const {
  return {rank * shards / count_, (rank + 1) * shards / count_};
}

std::vector<std::string> Workers::gather(const std::string& said, double patience) {
  const auto own = static_cast<std::size_t>(rank_);
  std::vector<std::string> all(static_cast<std::size_t>(count_));
  all[own] = said;
  std::vector<std::string> sizes(all.size(), std::string(sizeof(std::uint64_t), '\0'));
  const std::uint64_t size = said.size();
  std::memcpy(sizes[own].data(), &size, sizeof size);
  const auto exchange = [&](int tag, std::vector<std::string>& texts) {
    detail::Exchange messages(*messages_, hosts_, patience);
    for (std::size_t r = 0; r < texts.size(); ++r) {
      if (r == own) continue;
      messages.receive(static_cast<int>(r), tag, writable_bytes(texts[r]));
      messages.send(static_cast<int>(r), tag, writable_bytes(texts[own]));
    }
    messages.wait();
  };
  if (count_ == 1) return all;
  exchange(0, sizes);
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::uint64_t length = 0;
    std::memcpy(&length, sizes[r].data(), sizeof length);
    all[r].resize(length);
  }
  exchange(1, all);
  return all;
}

Workers::Sum Workers::backward(const Parameters& parameters, std::span<const double> shares,
                               const std::function<Var(Index shard)>& loss, Precision precision) {
  const Index shards = std::ssize(shares);
  if (shards < count_) {
    fail("workers", fmt::format("{} workers cannot share a batch of {} shard{}", count_, shards,
                                shards == 1 ? "" : "s"));
  }
  if (shards == 1) {
    const Var one = loss(0);
    return {shares[0] * one.item(),
            attune::backward(one, full(one.shape(), shares[0], one.dtype()))};
  }
  std::vector<std::vector<detail::Subtree>> subtrees;
  for (int r = 0; r < count_; ++r) {
    const auto [begin, end] = shards_of(r, shards);
    subtrees.push_back(detail::subtrees(begin, end));
  }
  detail::GradientSum sum(parameters, std::move(subtrees), messages_.get(), hosts_,
                          options_.patience, options_.bucket_bytes, precision);
  const auto [begin, end] = shards_of(rank_, shards);
  std::string losses;  // doubles
  for (Index shard = begin; shard < end; ++shard) {
    const double share = shares[static_cast<std::size_t>(shard)];
    const Var one = share == 0 ? Var() : loss(shard);
    const double part = one.defined() ? share * one.item() : 0;
    losses.append(reinterpret_cast<const char*>(&part), sizeof part);
    sum.add(shard, one, share, shard + 1 == end);
  }
  Gradients gradients = sum.finish();
  detail::ShardTree<double> tree;
  const auto add = [](double& left, double right) { left += right; };
  Index shard = 0;
  for (const std::string& one : gather(losses)) {
    for (std::size_t at = 0; at < one.size(); at += sizeof(double)) {
      double part = 0;
      std::memcpy(&part, one.data() + at, sizeof part);
      tree.push({0, shard++}, std::move(part), add);
    }
  }
  return {tree.finish(add), std::move(gradients)};
}

}  // namespace attune::nn
