// Messages between workers. Not installed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <attune/tensor/errors.hpp>

namespace attune::nn::detail {

/// Messages between processes that were started together.
class Messages {
 public:
  /// Joins the group of processes; null if this process runs alone.
  static std::unique_ptr<Messages> join();
  virtual ~Messages() = default;

  virtual int rank() const = 0;
  virtual int count() const = 0;
  virtual std::string host() const = 0;
  /// Waits until all processes have called it.
  virtual void leave() = 0;
  /// Ends all processes, with status 1.
  virtual void abort() = 0;

  /// Returns true once the message is complete; must not be called again after that.
  using Pending = std::function<bool()>;
  /// Both are non-blocking; `bytes` must stay valid until the message is complete. Messages
  /// between two workers with the same tag arrive in the order in which they were sent.
  virtual Pending send(int to, int tag, std::span<const std::byte> bytes) = 0;
  virtual Pending receive(int from, int tag, std::span<std::byte> bytes) = 0;

  /// True after an exception left messages pending. Later receives could match these messages.
  bool broken = false;
};

/// "worker 2 of 4 on node7"
inline std::string worker_name(int rank, std::span<const std::string> hosts) {
  return fmt::format("worker {} of {} on {}", rank, hosts.size(),
                     hosts[static_cast<std::size_t>(rank)]);
}

/// A group of messages to wait for together.
class Exchange {
 public:
  /// `hosts` of all workers, by rank, for error messages. `wait` throws if no message completes
  /// for `patience` seconds.
  Exchange(Messages& messages, std::span<const std::string> hosts, double patience)
      : messages_(&messages), hosts_(hosts), patience_(patience) {
    if (messages.broken)
      fail("workers", "an earlier error left messages pending: workers cannot continue");
  }
  ~Exchange() {
    if (!open_.empty()) messages_->broken = true;
  }

  /// Skip empty messages, on both sides, as both know the size.
  void send(int to, int tag, std::span<const std::byte> bytes) {
    if (!bytes.empty()) open_.push_back({messages_->send(to, tag, bytes), to});
  }
  void receive(int from, int tag, std::span<std::byte> bytes) {
    if (!bytes.empty()) open_.push_back({messages_->receive(from, tag, bytes), from});
  }

  /// Waits until all messages are complete. Throws as described at the constructor.
  void wait() {
    using Clock = std::chrono::steady_clock;
    double silence = 0;  // seconds since a message last completed
    for (Clock::time_point looked = Clock::now(), now;; looked = now) {
      if (std::erase_if(open_, [](const Message& m) { return m.done(); }) > 0) silence = 0;
      if (open_.empty()) return;
      std::this_thread::yield();
      now = Clock::now();
      // A long time between two polls means that a batch system suspended the job, which includes
      // the other workers, so it is not counted in full.
      silence += std::min(std::chrono::duration<double>(now - looked).count(), patience_ / 10);
      if (silence > patience_) {
        fail("workers", fmt::format("{} has not responded for {} s",
                                    worker_name(open_.front().peer, hosts_), patience_));
      }
    }
  }

 private:
  struct Message {
    Messages::Pending done;
    int peer;
  };
  Messages* messages_;
  std::span<const std::string> hosts_;
  double patience_;
  std::vector<Message> open_;
};

}  // namespace attune::nn::detail
