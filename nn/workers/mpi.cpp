#include <array>
#include <climits>
#include <cstdlib>

// Skips the C++ bindings, which are a separate library.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <attune/nn/workers/messages.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::nn::detail {
namespace {

void check(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  fail("workers", "{}: {}", what, std::string_view(text.data(), length));
}

/// The number of processes that a launcher of Open MPI, MPICH or Slurm started, or 1 if it is
/// unknown. Without a launcher it is 0. MPI_Init, which takes a third of a second, is then skipped.
int launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* size = std::getenv(name)) return std::atoi(size);
  if (!std::getenv("PMIX_RANK")) return 0;
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  return tasks ? std::atoi(tasks) : 1;
}

class MpiMessages : public Messages {
 public:
  MpiMessages() {
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &count_), "MPI_Comm_size");
  }

  int rank() const override { return rank_; }
  int count() const override { return count_; }
  std::string host() const override {
    std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
    int length = 0;
    check(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
    return {name.data(), static_cast<std::size_t>(length)};
  }
  void leave() override { check(MPI_Finalize(), "MPI_Finalize"); }
  void abort() override { MPI_Abort(MPI_COMM_WORLD, 1); }

  Pending send(int to, int tag, std::span<const std::byte> bytes) override {
    return start(MPI_Isend, "MPI_Isend", bytes, to, tag);
  }
  Pending receive(int from, int tag, std::span<std::byte> bytes) override {
    return start(MPI_Irecv, "MPI_Irecv", bytes, from, tag);
  }

 private:
  template <class Call, class Byte>
  static Pending start(Call* call, const char* name, std::span<Byte> bytes, int peer, int tag) {
    if (bytes.size() > INT_MAX)
      fail("workers", "MPI cannot send a message of {} bytes", bytes.size());
    MPI_Request request;
    check(call(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
               &request),
          name);
    return [request]() mutable {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      return done != 0;
    };
  }

  int rank_ = 0, count_ = 1;
};

}  // namespace

std::unique_ptr<Messages> Messages::join() {
  const int expected = launched();
  if (expected == 0) return nullptr;
  int started = 0;
  check(MPI_Initialized(&started), "MPI_Initialized");
  if (started) fail("workers", "MPI is already initialised in this process");
  check(MPI_Init(nullptr, nullptr), "MPI_Init");
  auto messages = std::make_unique<MpiMessages>();
  if (messages->count() > 1) return messages;
  messages->leave();
  if (expected > 1)
    fail("workers",
         "{} processes were started, but MPI connects none of them: use the launcher of the MPI "
         "that attune was built with",
         expected);
  return nullptr;
}

}  // namespace attune::nn::detail
