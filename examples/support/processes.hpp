// Work in processes of its own: what one does, no other can notice.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace attune {

/// Calls work(i) for i in [0, n), each in a forked process and at most `jobs` at once, and hands
/// the text that it returns to done(i, text), here and in the order in which they end. Throws what
/// a work threw, as an Error of the same text, or that one was killed; the others are then killed
/// too. Throws Interrupted after a signal, once all have been told and have ended. This process
/// must have started no threads.
void in_processes(std::size_t n, int jobs, const std::function<std::string(std::size_t)>& work,
                  const std::function<void(std::size_t, const std::string&)>& done);

}  // namespace attune
