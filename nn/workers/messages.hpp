// Messages between workers. Not installed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

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

/// A group of messages to wait for together.
class Exchange {
 public:
  /// `hosts` are those of all workers, for the Error that names a worker which has not responded
  /// for `patience` seconds.
  Exchange(Messages& messages, std::span<const std::string> hosts, double patience);
  ~Exchange();

  /// Empty messages are not sent: both sides know the size.
  void send(int to, int tag, std::span<const std::byte> bytes);
  void receive(int from, int tag, std::span<std::byte> bytes);

  /// Waits until all are complete.
  void wait();

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

/// "worker 2 of 4 on node7"
std::string worker_name(int rank, std::span<const std::string> hosts);

}  // namespace attune::nn::detail
