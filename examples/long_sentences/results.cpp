#include "results.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

namespace attune::long_sentences {
namespace {

using Json = nlohmann::json;

std::string accuracy_at(Index length) { return fmt::format("accuracy_{}", length); }

Record from_json(const Json& json) {
  Record record{json.at("setting"), json.at("variant"), json.at("seed"), {}};
  Result& result = record.result;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    result.accuracy[i] = json.at(accuracy_at(lengths[i]));
  }
  result.loss = json.at("loss");
  result.seconds = json.at("seconds");
  result.parameters = json.at("parameters");
  return record;
}

void check_same(const Json& json, const char* name, Index value) {
  const Index stored = json.at(name);
  if (stored == value) return;
  throw Error(
      fmt::format("a result of --{0} {1}, not {2}: another --out is needed", name, stored, value));
}

Mean mean_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  Mean result;
  for (const double value : values) result.mean += value / n;
  for (const double value : values) result.deviation += std::pow(value - result.mean, 2);
  result.deviation = values.size() < 2 ? 0 : std::sqrt(result.deviation / (n - 1));
  return result;
}

Row row_of(const std::string& variant, const std::vector<const Record*>& records) {
  Row row{.variant = variant, .seeds = records.size()};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::vector<double> values;
    for (const Record* record : records) values.push_back(record->result.accuracy[i]);
    row.accuracy[i] = mean_of(values);
  }
  for (const Record* record : records) {
    row.seconds += record->result.seconds / static_cast<double>(records.size());
    row.parameters = record->result.parameters;
  }
  return row;
}

}  // namespace

report::LogFields fields_of(const Record& record, const Budget& budget) {
  const Result& result = record.result;
  report::LogFields fields = {{"setting", record.setting},
                              {"variant", record.variant},
                              {"seed", static_cast<std::int64_t>(record.seed)},
                              {"steps", std::int64_t{budget.steps}},
                              {"hidden", std::int64_t{budget.hidden}}};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    fields.push_back({accuracy_at(lengths[i]), result.accuracy[i]});
  }
  fields.push_back({"loss", result.loss});
  fields.push_back({"parameters", std::int64_t{result.parameters}});
  fields.push_back({"seconds", std::round(10 * result.seconds) / 10});
  return fields;
}

std::vector<Record> read_records(const std::filesystem::path& file, const Budget& budget) {
  if (!std::filesystem::exists(file)) return {};
  const std::string text = read_file(file);
  std::vector<Record> records;
  std::size_t number = 1;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    try {
      const Json json = Json::parse(text.substr(begin, end - begin));
      check_same(json, "steps", budget.steps);
      check_same(json, "hidden", budget.hidden);
      records.push_back(from_json(json));
    } catch (const Json::exception&) {
      throw Error(fmt::format("{}:{}: not a result of long_sentences", file.string(), number));
    } catch (const Error& error) {
      throw Error(fmt::format("{}:{}: {}", file.string(), number, error.what()));
    }
    ++number;
  }
  return records;
}

std::vector<Row> rows_of(const std::vector<Record>& records, const std::string& setting) {
  std::vector<Row> rows;
  for (const Variant& variant : variants()) {
    std::vector<const Record*> own;
    for (const Record& record : records) {
      if (record.setting == setting && record.variant == variant.name) own.push_back(&record);
    }
    if (!own.empty()) rows.push_back(row_of(variant.name, own));
  }
  return rows;
}

double kept(const Row& row) {
  constexpr std::size_t at_20 = 2;
  static_assert(lengths[at_20] == 20);
  const double short_ones = row.accuracy[at_20].mean;
  return short_ones > 0 ? row.accuracy.back().mean / short_ones : 0;
}

}  // namespace attune::long_sentences
