// Word alignments: what they are worth against links that people drew, and their file formats.
#pragma once

#include <compare>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace attune::metrics {

/// A word of the source and the word of the target it belongs to, both counted from 0.
struct Link {
  int source = 0, target = 0;
  auto operator<=>(const Link&) const = default;
};

/// The links of a sentence pair. As a set: the order does not matter, and a link that is there
/// twice counts once. Functions that return one sort it by source, then target.
using Alignment = std::vector<Link>;

/// What people drew: sure links S, and links P that are possible. S is a part of P by definition,
/// so a sure link may be given in `possible` too or be left out of it.
struct GoldAlignment {
  Alignment sure, possible;
};

/// All shares are between 0 and 1; published tables have per cent.
struct AlignmentScore {
  std::size_t links = 0;        ///< |A|
  std::size_t sure = 0;         ///< |S|
  std::size_t in_sure = 0;      ///< |A ∩ S|
  std::size_t in_possible = 0;  ///< |A ∩ P|

  double error_rate() const;  ///< 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|); 0 for nothing over nothing
  double precision() const;  ///< |A ∩ P| / |A|; 1 without links
  double recall() const;     ///< |A ∩ S| / |S|; 1 without sure links
};

/// Alignment error rate of a corpus (Och and Ney, 2003, "A systematic comparison of various
/// statistical alignment models", section 5). With A the links found, S the sure and P ⊇ S the
/// possible ones,
///
///     AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)
///
/// where each of the four numbers is summed over all sentences before anything is divided: it is
/// not the mean over sentences. Throws when there are not as many sentences of one as of the other
/// and when a position is negative.
AlignmentScore alignment_error_rate(std::span<const Alignment> found,
                                    std::span<const GoldAlignment> gold);

/// Words of a sentence pair.
struct SentenceLengths {
  int source = 0, target = 0;
  bool operator==(const SentenceLengths&) const = default;
};

/// How links are written in a line.
struct LinkFormat {
  int first = 0;              ///< the position of a sentence's first word
  bool target_first = false;  ///< "TARGET-SOURCE": what a model of the reverse direction writes
};

/// A line of links, as fast_align, Moses and eflomal write them (the "Pharaoh" or "TALP" form):
/// "0-0 1-2 1-3", each SOURCE-TARGET, separated by spaces or tabs; no links at all is an empty
/// line. Throws an Error with the link that is none.
Alignment parse_links(std::string_view line, const LinkFormat& format = {});
/// A line whose sentences are known: links to words that are not there are errors too. Errors begin
/// with `where`.
Alignment parse_links(std::string_view line, const SentenceLengths& lengths, std::string_view where,
                      const LinkFormat& format = {});

/// A file of such lines, one for each sentence pair. A file for which the sentences are known must
/// have as many lines, and links to words which are there; otherwise only the form is checked.
/// Throws an Error "FILE:LINE: ..." on anything else.
std::vector<Alignment> read_alignments(const std::filesystem::path& path,
                                       const LinkFormat& format = {});
std::vector<Alignment> read_alignments(const std::filesystem::path& path,
                                       std::span<const SentenceLengths> sentences,
                                       const LinkFormat& format = {});

/// How gold links are written in a line: positions from 1 on, where the files of systems have 0.
struct GoldFormat {
  int first = 1;              ///< the position of a sentence's first word
  bool target_first = false;  ///< "TARGET-SOURCE" and "TARGETpSOURCE"
};

/// A file of gold links, one line for each sentence pair: "1-1 2-3 2p4", where 2-3 is sure and 2p4
/// is only possible. In the result, `possible` has the sure links too. Checked as by
/// `read_alignments`.
std::vector<GoldAlignment> read_gold_alignments(const std::filesystem::path& path,
                                                const GoldFormat& format = {});
std::vector<GoldAlignment> read_gold_alignments(const std::filesystem::path& path,
                                                std::span<const SentenceLengths> sentences,
                                                const GoldFormat& format = {});

/// The lengths of the sentences of a parallel corpus in one file: in each line the words of the
/// source, "|||" and the words of the target, separated by spaces or tabs (what fast_align reads).
/// Throws an Error "FILE:LINE: ..." on a line without just one "|||".
std::vector<SentenceLengths> read_sentence_lengths(const std::filesystem::path& path);

}  // namespace attune::metrics
