// The processes that run a program together.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <attune/nn/workers/workers.hpp>

namespace attune {

/// Those that mpirun started, which are joined at the first call; or this one alone. Only the first
/// one prints, and writes files.
nn::Workers& workers();
inline bool is_first_worker() { return workers().rank() == 0; }
/// Of several, which one this is, for errors: "worker 2 of 4 on node7: ".
std::string worker_prefix();

using Texts = std::vector<std::string>;
/// The texts that `make` returns in each of them, those of the first one first; none may have a
/// NUL. Where it throws Interrupted in one, all do. Others wait for it `patience` seconds at most.
Texts each_makes(const std::function<Texts()>& make,
                 double patience = nn::WorkersOptions().patience);

/// When all have ended well.
void leave_workers();
/// When this one cannot go on: ends all of them.
void abort_workers();

}  // namespace attune
