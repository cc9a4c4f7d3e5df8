#include "support/workers.hpp"

#include <memory>
#include <sstream>

#include "support/signals.hpp"

namespace attune {
namespace {

std::unique_ptr<nn::Workers> joined;

}  // namespace

nn::Workers& workers() {
  if (!joined) joined = std::make_unique<nn::Workers>();
  return *joined;
}

std::string worker_prefix() { return joined && joined->count() > 1 ? joined->name() + ": " : ""; }

Texts each_makes(const std::function<Texts()>& make, double patience) {
  std::string said = "made";
  try {
    for (const std::string& text : make()) said += '\0' + text;
    said += '\0';
  } catch (const Interrupted&) {
    said = "interrupted";
  }
  Texts all;
  for (const std::string& one : workers().gather(said, patience)) {
    std::istringstream texts(one);
    std::string text;
    std::getline(texts, text, '\0');
    if (text == "interrupted") throw Interrupted();
    while (std::getline(texts, text, '\0')) all.push_back(text);
  }
  return all;
}

void leave_workers() { joined.reset(); }

void abort_workers() {
  if (joined) joined->abort();
}

}  // namespace attune
