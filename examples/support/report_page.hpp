// What pages about a model have in common.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <attune/models/report/page.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune {

/// A table of what the model's checkpoint says, but for its vocabularies and tokenizers, and more.
void add_card(report::Page& page, const Metadata& metadata,
              const std::vector<std::vector<std::string>>& more = {});

/// Writes it to `out`, or to report.html beside the model, and prints where.
void write_page(const report::Page& page, const std::filesystem::path& model,
                const std::filesystem::path& out);

}  // namespace attune
