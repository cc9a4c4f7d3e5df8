#include <attune/nn/messages.hpp>

namespace attune::nn::detail {

std::unique_ptr<Messages> Messages::join() { return nullptr; }

}  // namespace attune::nn::detail
