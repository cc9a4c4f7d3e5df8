// Labels and captions as they are displayed in a terminal or a drawing.
#pragma once

#include <string>
#include <vector>

namespace attune::report::detail {

/// The user-perceived characters of `text`, so that no accent is cut from its letter.
std::vector<std::string> clusters(const std::string& text);
bool single_characters(const std::vector<std::string>& labels);

/// Columns of a terminal.
int display_width(const std::string& text);
int widest(const std::vector<std::string>& labels);

/// A label of which something can be seen: spaces at its ends as ␣, a dotted circle under an accent
/// without a letter. An empty label stays empty.
std::string visible(const std::string& label);
std::vector<std::string> visible(const std::vector<std::string>& labels);

/// A caption has a line of its own, where isolates do no harm: they keep the two sides of "source →
/// target" apart when one of them runs from right to left.
std::string visible_caption(const std::string& caption);

/// Arabic digits count too: next to each other they change places.
bool runs_right_to_left(const std::string& text);

/// At most `width` columns of `text`, the cut marked with "…".
std::string cut(const std::string& text, int width);

}  // namespace attune::report::detail
