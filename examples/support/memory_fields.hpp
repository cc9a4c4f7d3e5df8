// What a training run takes of memory, for its log.
#pragma once

#include <attune/models/report/log.hpp>

namespace attune {

/// In MiB: the resident memory of the process; what tensors hold now, the most that they held, and
/// what is kept for the next ones.
report::LogFields memory_fields();

}  // namespace attune
