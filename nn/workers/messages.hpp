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

#include <attune/tensor/check.hpp>

namespace attune::nn::detail {

/// Messages between processes that were started together.
class Messages {
 public:
  /// Joins the others; null where there are none.
  static std::unique_ptr<Messages> join();
  virtual ~Messages() = default;

  virtual int rank() const = 0;
  virtual int count() const = 0;
  virtual std::string host() const = 0;
  /// Waits until all have called it.
  virtual void leave() = 0;
  /// Ends all processes, with status 1.
  virtual void abort() = 0;

  /// Whether a message is complete; must not be called again once it is.
  using Pending = std::function<bool()>;
  /// Both return at once; the bytes must stay until the message is complete. Messages between
  /// two workers with the same tag arrive in the order in which they were sent.
  virtual Pending send(int to, int tag, std::span<const std::byte> bytes) = 0;
  virtual Pending receive(int from, int tag, std::span<std::byte> bytes) = 0;

  /// An exception left messages pending, which would be taken for later ones.
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
  /// `hosts` are those of all workers, for the Error that names a worker which has not responded
  /// for `patience` seconds.
  Exchange(Messages& messages, std::span<const std::string> hosts, double patience)
      : messages_(&messages), hosts_(hosts), patience_(patience) {
    if (messages.broken)
      fail("workers", "an earlier error left messages pending: workers cannot continue");
  }
  ~Exchange() {
    if (!open_.empty()) messages_->broken = true;
  }

  /// Empty messages are not sent: both sides know the size.
  void send(int to, int tag, std::span<const std::byte> bytes) {
    if (!bytes.empty()) open_.push_back({messages_->send(to, tag, bytes), to});
  }
  void receive(int from, int tag, std::span<std::byte> bytes) {
    if (!bytes.empty()) open_.push_back({messages_->receive(from, tag, bytes), from});
  }

  /// Waits until all are complete.
  void wait() {
    using Clock = std::chrono::steady_clock;
    double silence = 0;  // seconds since the last message was complete
    for (Clock::time_point looked = Clock::now(), now;; looked = now) {
      if (std::erase_if(open_, [](const Message& m) { return m.done(); }) > 0) silence = 0;
      if (open_.empty()) return;
      std::this_thread::yield();
      now = Clock::now();
      // A long time between two polls means that this worker was suspended, as batch systems do
      // with jobs. It must not count, since the other workers were suspended, too.
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
