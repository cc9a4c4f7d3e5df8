// Standard input, also where somebody types it.
#pragma once

#include <istream>
#include <streambuf>
#include <string>

namespace attune {

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

 private:
  int_type underflow() override;
  bool read_more();

  std::istream stream_{this};
  std::string bytes_;
  bool ended_ = false, asked_ = false;
  int error_ = 0;
};

}  // namespace attune
