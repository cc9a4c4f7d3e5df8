// The general model with the wirings of published models.
#pragma once

#include <map>
#include <sstream>
#include <string>

#include <attune/models/seq2seq.hpp>

namespace attune::test {

/// Options by name: "attend=after score=general".
inline void change(models::Seq2SeqOptions& options, const std::string& changes) {
  std::istringstream words(changes);
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    models::set_field(models::seq2seq_fields(), options, word.substr(0, equals),
                      word.substr(equals + 1));
  }
}

/// What makes the general model the one of a paper.
inline const std::map<std::string, std::string> wirings = {
    {"bahdanau", ""},
    {"luong",
     "encoder-layers=2 decoder-layers=2 encoder-cell=lstm decoder-cell=lstm reading=forward "
     "start=last attend=after score=general input-feeding=yes readout-kind=attentional"},
    {"nematus", "start=mean attend=between readout-kind=tanh"},
    {"encoder-decoder", "reading=forward attend=last-state"},
    {"sutskever",
     "encoder-cell=lstm decoder-cell=lstm reading=backward start=last attend=never "
     "readout-kind=attentional"}};

/// Other options as they are.
inline models::Seq2SeqOptions wired(const std::string& paper, models::Seq2SeqOptions options) {
  change(options, wirings.at(paper));
  return options;
}

}  // namespace attune::test
