// `dates compare`, run as a user runs it.
#include "program.hpp"

namespace attune::dates::test {
namespace {

Arguments compare(const std::string& out, const Arguments& more = {}) {
  return Arguments{"compare", "--out", out, "--variants", "bahdanau,luong-local-p,sutskever"} +
         Arguments{"--hidden", "12", "--embedding", "8", "--batch", "16", "--held-out", "40"} +
         Arguments{"--steps", "30"} + more;
}

/// The lines of the table: from its heading to the empty line before the notes.
std::vector<std::string> table_of(const std::string& output) {
  const auto lines = lines_of(output);
  const auto heading = std::ranges::find_if(lines, [](const std::string& line) {
    return contains(line, "exact match  characters  gold attention");
  });
  return {heading, std::find(heading, lines.end(), "")};
}

TEST_CASE("dates compare: a run for each variant in its directory, and an aligned table of them") {
  const Directory directory;
  const auto table = table_of(output_of(compare(directory.path())));
  REQUIRE(table.size() == 4);
  for (const std::string& line : table) CHECK(line.size() == table[0].size());
  CHECK(table[1].starts_with("bahdanau "));
  CHECK(table[2].starts_with("luong-local-p "));
  CHECK(table[3].starts_with("sutskever "));
  for (const std::string variant : {"bahdanau", "luong-local-p", "sutskever"}) {
    const auto metadata = load_safetensors(directory / variant + "/last.safetensors").metadata;
    CHECK(metadata.at("hidden") == "12");
    CHECK(metadata.at("attention") == "12");
    CHECK(metadata.at("steps") == "30");
    CHECK(std::filesystem::exists(directory / variant + "/best.safetensors"));
    CHECK(std::filesystem::exists(directory / variant + "/log.jsonl"));
  }
  CHECK(load_safetensors(directory / "luong-local-p/best.safetensors").metadata.at("window") ==
        "local-p");
}

TEST_CASE("dates compare: the exact match is that of the checkpoint") {
  const Directory directory;
  const auto table = table_of(output_of(compare(directory.path(), {"--rate", "0.01"})));
  const auto metadata = load_safetensors(directory / "bahdanau/best.safetensors").metadata;
  for (const char* share : {"exact_match", "character_accuracy"}) {
    const std::string cell = fmt::format(" {:.2f} %", 100 * std::stod(metadata.at(share)));
    CHECK_MESSAGE(contains(table.at(1), cell), table.at(1));
  }
  CHECK(contains(table.at(3), "  -  "));  // no attention
}

TEST_CASE("dates compare: finished variants are not trained again, and the table is the same") {
  const Directory directory;
  const auto table = table_of(output_of(compare(directory.path())));
  const auto before = contents_of(directory.path());
  const std::string again = output_of(compare(directory.path()));
  CHECK(again.starts_with(table.at(0) + "\n"));
  CHECK(table_of(again) == table);
  CHECK(contents_of(directory.path()) == before);
}

TEST_CASE("dates compare: --markdown has a table of Markdown") {
  const Directory directory;
  output_of(compare(directory.path()));
  auto lines = lines_of(output_of(compare(directory.path(), {"--markdown"})));
  CHECK(lines.at(5).empty());
  CHECK(contains(lines.back(), "sutskever: no attention"));
  lines.resize(5);
  for (const std::string& line : lines) CHECK(std::ranges::count(line, '|') == 7);
  CHECK(lines[1] == "|---|---:|---:|---:|---:|---:|");
}

TEST_CASE("dates compare: runs with other options are refused by path and option") {
  const Directory directory;
  output_of(compare(directory.path()));
  const std::string path = directory / "bahdanau/last.safetensors";
  CHECK(error_of(compare(directory.path(), {"--seed", "2"})) ==
        "dates: --out: " + path + " was trained with seed = '1', not '2'");
  CHECK(error_of(compare(directory.path(), {"--rate", "0.5"})) ==
        "dates: --out: " + path + " was trained with rate = '0.003', not '0.5'");
  Arguments longer = compare(directory.path());
  longer.back() = "60";
  CHECK(error_of(longer) == "dates: --out: " + path + " was trained for 30 steps, not 60");
}

TEST_CASE("dates compare: an unknown variant is refused, and nothing is made") {
  const Directory directory;
  const std::string line =
      error_of({"compare", "--out", directory / "out", "--variants", "bahdanau,loung"});
  CHECK(contains(line, "--variants: 'loung' is not one of bahdanau, conditional, luong-dot"));
  CHECK(contents_of(directory.path()).empty());
}

TEST_CASE("dates compare: interrupted, it ends with 130 and goes on where it was") {
  const Directory directory;
  const Arguments arguments = {"compare",
                               "--out",
                               directory.path(),
                               "--variants",
                               "luong-dot,sutskever",
                               "--hidden",
                               "12",
                               "--held-out",
                               "40",
                               "--steps",
                               "800",
                               "--validate-every",
                               "20"};
  const std::string last = directory / "luong-dot/last.safetensors";
  const ProcessResult result = run(
      arguments, {.signal_when = [&] { return std::filesystem::exists(last); }, .signal = SIGINT});
  CHECK(result.status == 130);
  const long step = step_of(last);
  REQUIRE(step < 800);
  CHECK_FALSE(std::filesystem::exists(directory / "sutskever"));
  CHECK(contains(output_of(arguments), fmt::format("resuming at step {} of 800", step)));
}

}  // namespace
}  // namespace attune::dates::test
