// Standard input, also where somebody types it.
#pragma once

#include <filesystem>
#include <istream>
#include <streambuf>
#include <string>

#include <attune/tensor/check.hpp>

namespace attune {

/// Reads a pipe or a device as standard input from now on. Throws where it cannot be opened.
void read_as_standard_input(const std::filesystem::path& path);

/// Standard input that knows whether a line is waiting in it.
class StandardInput : private std::streambuf {
 public:
  /// It is bad() where reading fails, and errno has the reason.
  std::istream& stream() { return stream_; }
  /// Whether the next line, or the end, can be read without waiting for whoever writes it.
  bool line_waits();
  /// Asks for a line with "> " where it has to be typed: standard input and output are terminals.
  void ask();
  /// Ends the line of the last "> ", after which nothing was typed.
  void stop_asking() const;
  /// Tells what is wrong with a line that was typed: the next one may be better. False where nobody
  /// was asked, and at the end.
  bool forgives(const Error& error, const char* program) const;

 private:
  int_type underflow() override;
  bool read_more();

  std::istream stream_{this};
  std::string bytes_;
  bool ended_ = false, asked_ = false;
  int error_ = 0;
};

}  // namespace attune
