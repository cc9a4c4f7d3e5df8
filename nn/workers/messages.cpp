#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include <attune/nn/workers/messages.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn::detail {

Exchange::Exchange(Messages& messages, std::span<const std::string> hosts, double patience)
    : messages_(&messages), hosts_(hosts), patience_(patience) {
  if (messages.broken) fail("workers", "an error left messages under way: they cannot go on");
}

Exchange::~Exchange() {
  if (!open_.empty()) messages_->broken = true;
}

void Exchange::send(int to, int tag, std::span<const std::byte> bytes) {
  if (!bytes.empty()) open_.push_back({messages_->send(to, tag, bytes), to});
}

void Exchange::receive(int from, int tag, std::span<std::byte> bytes) {
  if (!bytes.empty()) open_.push_back({messages_->receive(from, tag, bytes), from});
}

void Exchange::wait() {
  using Clock = std::chrono::steady_clock;
  double silence = 0;  // seconds since a message was done
  for (Clock::time_point looked = Clock::now(), now;; looked = now) {
    if (std::erase_if(open_, [](const Message& m) { return m.done(); }) > 0) silence = 0;
    if (open_.empty()) return;
    std::this_thread::yield();
    now = Clock::now();
    // A long time between two looks is one in which this worker was stopped, as jobs are that make
    // room for others. It must not count: the others were stopped, too.
    silence += std::min(std::chrono::duration<double>(now - looked).count(), patience_ / 10);
    if (silence > patience_) {
      fail("workers", fmt::format("{} has not responded for {} s",
                                  worker_name(open_.front().peer, hosts_), patience_));
    }
  }
}

std::string worker_name(int rank, std::span<const std::string> hosts) {
  return fmt::format("worker {} of {} on {}", rank, hosts.size(),
                     hosts[static_cast<std::size_t>(rank)]);
}

}  // namespace attune::nn::detail
