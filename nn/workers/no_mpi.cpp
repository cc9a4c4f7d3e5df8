#include <attune/nn/workers/messages.hpp>

namespace attune::nn::detail {

std::unique_ptr<Messages> Messages::join() { return nullptr; }

}  // namespace attune::nn::detail
