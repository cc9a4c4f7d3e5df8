// The dates program with other models than its first one: trained, saved, read, resumed and shown.
#include <numeric>

#include "program.hpp"

namespace attune::dates::test {
namespace {

struct Kind {
  std::string name;
  Arguments options;
  bool attends = true;
};

const std::vector<Kind> kinds = {
    {"luong",
     {"--score", "general", "--window", "local-p", "--half-width", "4", "--model", "luong"}},
    {"luong", {"--model", "luong", "--score", "multi-head", "--heads", "2"}},
    {"conditional", {"--model", "conditional", "--coverage", "summed"}},
    {"encoder-decoder", {"--model", "encoder-decoder"}, false},
    {"sutskever", {"--model", "sutskever", "--decoder-layers", "2"}, false}};

/// A directory with a run of 40 steps, made when a test first asks for it.
std::string trained(const Kind& kind) {
  static std::map<const Kind*, Directory> directories;
  const auto [at, is_new] = directories.try_emplace(&kind);
  if (is_new) output_of(train_tiny(at->second.path(), forty_steps + kind.options));
  return at->second.path();
}
std::string model_of(const Kind& kind) { return trained(kind) + "/best.safetensors"; }

TEST_CASE("dates: every kind of model learns, and is saved under its name") {
  for (const Kind& kind : kinds) {
    CAPTURE(kind.options);
    const auto metadata = load_safetensors(model_of(kind)).metadata;
    CHECK(metadata.at("model") == kind.name);
    for (std::size_t i = 0; i < kind.options.size(); i += 2)
      CHECK(metadata.at(kind.options[i].substr(2)) == kind.options[i + 1]);
    const auto log = log_of(trained(kind));
    CHECK(log.back().at("loss").get<double>() < log.at(1).at("loss").get<double>());
  }
}

TEST_CASE("dates: predict draws the attention that there is, in --json too") {
  for (const Kind& kind : kinds) {
    CAPTURE(kind.options);
    const std::string model = model_of(kind);
    const auto lines = lines_of(
        output_of({"predict", "--model", model, "--attention", "always", "--", "3 May 1979"}));
    const Json object =
        Json::parse(output_of({"predict", "--model", model, "--json", "3 May 1979"}));
    const std::string date = object.at("prediction");
    const std::size_t characters = kind.attends ? date.size() : 0;
    CHECK((lines.size() > 1) == (characters > 0));
    CHECK(object.at("rows").size() == characters);
    REQUIRE(object.at("attention").size() == characters);
    for (const std::vector<double> weights : object.at("attention")) {
      CHECK(weights.size() == 10);
      CHECK(std::accumulate(weights.begin(), weights.end(), 0.0) <= 1 + 1e-5);
    }
  }
}

TEST_CASE("dates: evaluate gives the gold attention where there is attention, and null elsewhere") {
  const Directory directory;
  write(directory / "rows.tsv", "3 May 1979\t1979-05-03\ty:6-10 m:2-5 d:0-1\n");
  for (const Kind& kind : kinds) {
    CAPTURE(kind.options);
    const Json object = Json::parse(
        output_of({"evaluate", "--model", model_of(kind), directory / "rows.tsv", "--json"}));
    CHECK(object.at("gold_attention").is_null() == !kind.attends);
  }
}

TEST_CASE("dates: every kind of model killed and resumed ends with the same weights") {
  for (const Kind& kind : kinds) {
    CAPTURE(kind.options);
    const Directory directory;
    const Arguments arguments = train_tiny(
        directory.path(), Arguments{"--steps", "40", "--validate-every", "10"} + kind.options);
    const std::string last = directory / "last.safetensors";
    run(arguments,
        {.signal_when = [&] { return std::filesystem::exists(last); }, .signal = SIGKILL});
    output_of(train(directory.path(), {"--resume"}));
    check_same_tensors(last, trained(kind) + "/last.safetensors");
  }
}

TEST_CASE("dates: the order of options on the command line does not matter") {
  const Directory directory;
  const std::string a = directory / "a", b = directory / "b";
  const Arguments model = {"--model", "luong"}, score = {"--score", "dot", "--hidden", "12"};
  const Arguments rest = {"--steps", "3", "--held-out", "20"};
  output_of(train(a, model + score + rest));
  output_of(train(b, score + rest + model));
  CHECK(load_safetensors(b + "/last.safetensors").metadata.at("score") == "dot");
  check_same_tensors(a + "/last.safetensors", b + "/last.safetensors");
}

TEST_CASE("dates: options that do not go together are refused, and nothing is trained") {
  const Directory directory;
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"--tied", "target-output"},
       "tied tables take a readout of the embedding's size 32, not 64"},
      {{"--model", "sutskever", "--coverage", "summed"}, "coverage is of attention"},
      {{"--score", "dot", "--encoder-hidden", "20"}, "dot"}};
  for (const auto& [options, message] : cases)
    CHECK(contains(error_of(train(directory / "out", options)), message));
  CHECK_FALSE(std::filesystem::exists(directory / "out/last.safetensors"));
}

TEST_CASE("dates report: of a model without attention a table of dates stands for the heat maps") {
  const Directory directory;
  const std::string page = directory / "page.html";
  output_of({"report", "--examples", "3", "--model", model_of(kinds[3]), "--out", page});
  const std::string html = read(page);
  CHECK(contains(html, "normalised without attention"));
  CHECK(contains(html, "from left to right; a decoder"));
  CHECK(contains(html, "nothing but the encoder&#39;s last state") !=
        contains(html, "nothing but the encoder's last state"));
  CHECK(contains(html, "What the model writes"));
  CHECK_FALSE(contains(html, "Where the model looks"));
  CHECK_FALSE(contains(html, "class=\"attune-heatmap\""));
}

TEST_CASE("dates report: of several heads the heat maps are of their mean, and the page says so") {
  const Directory directory;
  const std::string page = directory / "page.html";
  output_of({"report", "--examples", "3", "--model", model_of(kinds[1]), "--out", page});
  const std::string html = read(page);
  CHECK(contains(html, "the mean of 2 heads"));
  CHECK_FALSE(contains(html, "without attention"));
}

}  // namespace
}  // namespace attune::dates::test
