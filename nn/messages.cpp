#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include <attune/nn/messages.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn::detail {

void Exchange::send(int to, int tag, std::span<const std::byte> bytes) {
  if (!bytes.empty()) open_.push_back({messages_->send(to, tag, bytes), to});
}

void Exchange::receive(int from, int tag, std::span<std::byte> bytes) {
  if (!bytes.empty()) open_.push_back({messages_->receive(from, tag, bytes), from});
}

bool Exchange::done() {
  if (std::erase_if(open_, [&](const Message& m) { return messages_->done(m.number); }) > 0)
    last_ = std::chrono::steady_clock::now();
  return open_.empty();
}

void Exchange::wait() {
  last_ = std::chrono::steady_clock::now();
  while (!done()) {
    std::this_thread::yield();
    const std::chrono::duration<double> silence = std::chrono::steady_clock::now() - last_;
    if (silence.count() > patience_) {
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
