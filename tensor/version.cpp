#include <attune/version.hpp>

namespace attune {

const char* version() { return ATTUNE_VERSION; }

}  // namespace attune
