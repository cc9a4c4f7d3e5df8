#include "processes.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <sstream>
#include <thread>

#include <attune/autograd/anomaly.hpp>

#include "output.hpp"

namespace attune {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t signalled = 0;  // the first signal
Clock::time_point first_time;

enum { not_cancellable, cancellable, cancelled };
std::atomic<int> computation{not_cancellable};

void on_alarm(int) {
  int expected = cancellable;
  if (computation.compare_exchange_strong(expected, cancelled)) cancel(true);
}

void on_signal(int signal) {
  detail::start_alarm();
  const Clock::time_point now = Clock::now();
  if (signalled == 0) {
    signalled = signal;
    first_time = now;
  } else if (signal == SIGINT && now > first_time + std::chrono::seconds(1)) {
    // Not sooner: `timeout` sends its signal to the process and then again to its group.
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

std::unique_ptr<nn::Workers> joined;

}  // namespace

int run_workers(const char* name, const std::function<int()>& run) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // each line appears at once in a redirected log
  const auto run_worker = [&] {
    try {
      set_silent(!is_first_worker());
      const int status = run();
      if (status == 0) flush_output();
      joined.reset();
      return status;
    } catch (const Interrupted&) {
      return interrupted_status();
    } catch (const std::exception& error) {
      // An error of all workers is printed once: the first worker terminates the others meanwhile.
      if (is_silent()) {
        std::signal(SIGTERM, SIG_DFL);  // mpirun terminates them with SIGTERM
        std::this_thread::sleep_for(std::chrono::seconds(10));
      }
      const bool several = joined && joined->count() > 1;
      throw Error((several ? joined->name() + ": " : "") + message_of(error));
    }
  };
  return examples::run_program(name, run_worker, [] {
    if (joined) joined->abort();
  });
}

void catch_signals() { detail::install_handlers(on_signal, on_alarm); }

Cancellable::Cancellable() {
  computation = cancellable;
  if (interrupted()) detail::start_alarm();
}

Cancellable::~Cancellable() {
  if (computation.exchange(not_cancellable) == cancelled) cancel(false);
}

bool interrupted() { return signalled != 0; }

int interrupted_status() { return 128 + (interrupted() ? signalled : SIGTERM); }

void stop_if_interrupted() {
  if (interrupted()) throw Interrupted();
}

nn::Workers& workers() {
  if (joined) return *joined;
  joined = std::make_unique<nn::Workers>();
  if (const int started = nn::launched_processes(); started > 1 && joined->count() == 1)
    complain(
        "warning: {} processes were started, but attune was built without MPI: each runs "
        "independently\n",
        started);
  return *joined;
}

/// All-gather of the bytes that `make` returns, as described in the header.
static Texts gather_bytes(const std::function<std::string()>& make, double patience) {
  std::string own;  // empty if it was interrupted; otherwise the bytes and one more
  try {
    own = make() + '.';
  } catch (const Interrupted&) {
  } catch (const Cancelled&) {
  }
  Texts all = workers().gather(own, patience);
  for (std::string& one : all) {
    if (one.empty()) throw Interrupted();
    one.pop_back();
  }
  return all;
}

Numbers all_gather(const std::function<Numbers()>& make) {
  const auto bytes = [&] {
    const Numbers own = make();
    return std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(double));
  };
  Numbers all;
  for (const std::string& one : gather_bytes(bytes, nn::WorkersOptions().patience)) {
    const std::size_t before = all.size();
    all.resize(before + one.size() / sizeof(double));
    std::ranges::copy(one, reinterpret_cast<char*>(all.data() + before));
  }
  return all;
}

Texts all_gather(const std::function<Texts()>& make, double patience) {
  const auto bytes = [&] {
    std::string own;
    for (const std::string& text : make()) own += text + '\0';
    return own;
  };
  Texts all;
  for (const std::string& one : gather_bytes(bytes, patience)) {
    std::istringstream texts(one);
    for (std::string text; std::getline(texts, text, '\0');) all.push_back(text);
  }
  return all;
}

void require_equal(const std::string& operation, const Texts& own) {
  if (workers().count() == 1) return;
  const Texts first = all_gather([&] { return is_first_worker() ? own : Texts(); });
  const Texts differences = all_gather([&] {
    const auto [found, expected] = std::ranges::mismatch(own, first);
    if (found == own.end() && expected == first.end()) return Texts();
    const auto text = [](const Texts& all, auto at) { return at == all.end() ? "nothing" : *at; };
    return Texts{fmt::format("{} has {}, but {} has {}", workers().name(), text(own, found),
                             workers().name(0), text(first, expected))};
  });
  if (!differences.empty()) fail(operation, differences.front());
}

}  // namespace attune
