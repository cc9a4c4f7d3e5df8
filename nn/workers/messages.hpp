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

  /// Says whether a message is done: ask until it is, and not again.
  using Pending = std::function<bool()>;
  /// Both return at once; the bytes must stay until the message is done. What one worker sends
  /// another under one tag arrives in the order in which it was sent.
  virtual Pending send(int to, int tag, std::span<const std::byte> bytes) = 0;
  virtual Pending receive(int from, int tag, std::span<std::byte> bytes) = 0;

  /// An exception came while messages were under way: later ones would be taken for them.
  bool broken = false;
};

/// Some messages that are waited for together.
class Exchange {
 public:
  /// `hosts` are those of all workers, for the Error that names a worker which has not responded
  /// for `patience` seconds.
  Exchange(Messages& messages, std::span<const std::string> hosts, double patience);
  ~Exchange();

  /// Nothing is sent where there are no bytes: both sides know how many.
  void send(int to, int tag, std::span<const std::byte> bytes);
  void receive(int from, int tag, std::span<std::byte> bytes);

  /// Until all are done.
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
