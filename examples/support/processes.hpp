// Tasks in processes of their own, which cannot affect each other.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace attune {

/// Calls work(i) for i in [0, n), each in a forked process and at most `jobs` at once. The text
/// that it returns is passed to done(i, text) in this process, as the processes end. If one
/// throws or is killed, the others are killed, and this throws an Error with its text or signal.
/// After a signal to this process all get SIGTERM, and Interrupted is thrown when they have ended.
/// This process must have started no threads.
void in_processes(std::size_t n, int jobs, const std::function<std::string(std::size_t)>& work,
                  const std::function<void(std::size_t, const std::string&)>& done);

}  // namespace attune
