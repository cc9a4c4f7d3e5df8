#include "support/report_page.hpp"

#include <attune/tensor/file.hpp>

#include "support/output.hpp"

namespace attune {

void add_card(report::Page& page, const Metadata& metadata,
              const std::vector<std::vector<std::string>>& more) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : metadata) {
    if (!name.ends_with("vocabulary") && !name.ends_with("tokenizer"))
      rows.push_back({name, value});
  }
  rows.insert(rows.end(), more.begin(), more.end());
  page.heading("The model");
  page.table({"option", "value"}, rows);
}

void write_page(const report::Page& page, const std::filesystem::path& model,
                const std::filesystem::path& out) {
  const std::filesystem::path path = out.empty() ? model.parent_path() / "report.html" : out;
  write_file(path, page.html());
  say("{}\n", path.string());
}

}  // namespace attune
