#include "launch/predict/predictions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "engine/data/glue.h"
#include "engine/io/json.h"
#include "launch/config/data_source.h"
#include "launch/predict/input_rows.h"
#include "launch/program/task.h"
#include "parallel/tasks/answers.h"

namespace recollect {

namespace {

using Json = nlohmann::ordered_json;
using Row = std::span<const double>;

std::size_t largest(Row logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<double> softmax(Row logits) {
  const double top = logits[largest(logits)];
  std::vector<double> weights;
  double sum = 0;
  for (const double logit : logits) sum += weights.emplace_back(std::exp(logit - top));
  for (double& weight : weights) weight /= sum;
  return weights;
}

Json name_of_class(std::size_t number, const std::vector<std::string>& labels) {
  return number < labels.size() ? Json(labels[number]) : Json(number);
}

Json of_sequence(const TaskSettings& task, Row logits, const std::vector<std::string>& labels) {
  switch (task.problem) {
    case ProblemType::kRegression:
      if (logits.size() == 1) return {{"value", logits[0]}};
      return {{"values", std::vector<double>(logits.begin(), logits.end())}};
    case ProblemType::kMultiLabel: {
      Json names = Json::array();
      std::vector<double> probabilities;
      for (std::size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] > 0) names.push_back(name_of_class(i, labels));
        probabilities.push_back(1 / (1 + std::exp(-logits[i])));
      }
      return {{"labels", names}, {"probabilities", probabilities}};
    }
    default:
      return {{"label", name_of_class(largest(logits), labels)}, {"probabilities", softmax(logits)}};
  }
}

// A tag for each word, where the data has words: null where a word has no token, or was cut off. Otherwise for each token.
Json of_tokens(int64_t classes, Row logits, Fields& sample, const std::vector<std::string>& labels) {
  const auto size = static_cast<std::size_t>(classes);
  const std::vector<int32_t>&words = sample["words"], &begins = sample["word_begins"];
  Json tags = words.empty() ? Json::array() : Json(static_cast<std::size_t>(words[0]), nullptr);
  for (std::size_t token = 0; token * size < logits.size(); ++token) {
    Json tag = name_of_class(largest(logits.subspan(token * size, size)), labels);
    if (words.empty())
      tags.push_back(std::move(tag));
    else if (begins[token] > 0)
      tags[static_cast<std::size_t>(begins[token] - 1)] = std::move(tag);
  }
  return {{"tags", tags}};
}

// Of one window without texts: the likeliest start, and the likeliest end that is not before it.
Json of_window(Row logits) {
  std::size_t start = 0, end = 0;
  for (std::size_t token = 0; 2 * token < logits.size(); ++token)
    if (logits[2 * token] > logits[2 * start]) start = token;
  end = start;
  for (std::size_t token = start; 2 * token < logits.size(); ++token)
    if (logits[2 * token + 1] > logits[2 * end + 1]) end = token;
  return {{"start", start}, {"end", end}};
}

AnswerRules rules_of(const Config& config, const QuestionAnsweringSet& set) {
  const Config::Evaluation& e = config.evaluation;
  const bool absent = std::any_of(set.examples.begin(), set.examples.end(),
                                  [](const auto& example) { return example.is_impossible; });
  return {.most_spans = e.n_best,
          .most_tokens = e.max_answer_length,
          .may_be_absent = absent || e.null_threshold != 0,
          .absent_from = static_cast<float>(e.null_threshold)};
}

// f(example, its answer) for every question.
template <typename F>
void for_each_answer(const Config& config, const QuestionAnsweringSet& set, const Logits& logits, F f) {
  const AnswerRules rules = rules_of(config, set);
  std::vector<double> numbers;
  std::vector<WindowScores> scores;
  for (std::size_t first = 0, last = 0; first < set.windows.size(); first = last) {
    while (last < set.windows.size() && set.windows[last].example == set.windows[first].example) ++last;
    const std::size_t size = WindowScores::size(rules.most_spans);
    numbers.assign(size * (last - first), 0);
    scores.clear();
    for (std::size_t window = first; window < last; ++window) {
      scores.emplace_back(std::span(numbers).subspan((window - first) * size, size));
      scores.back().keep_best(logits.of(window));
    }
    f(set.example_of(first), choose_answer(set, first, scores, rules));
  }
}

// A sample's, or a question's, one after another.
using Each = std::function<void(const Json&)>;

void each_answer(const Config& config, const QuestionAnsweringSet& set, const Logits& logits,
                 const Each& each) {
  for_each_answer(config, set, logits, [&](const auto& example, const ChosenAnswer& answer) {
    Json line{{"id", example.id}, {"answer", answer.text}};
    if (!answer.spans.empty()) {
      line["probability"] = answer.spans[0].probability;
      line["score"] = answer.spans[0].score;
      line["none_above_best"] = answer.none_above_best;
    }
    each(line);
  });
}

std::string answers_squad(const Config& config, const QuestionAnsweringSet& set, const Logits& logits) {
  Json answers = Json::object();
  for_each_answer(config, set, logits, [&](const auto& example, const ChosenAnswer& answer) {
    answers[example.id] = answer.text;
  });
  return answers.dump(1) + '\n';
}

std::string glue_lines(const Config& config, const OpenedData& data, const Logits& logits) {
  const GlueTask glue = *find_glue_task(name_of(config.evaluation.format));
  const auto index = [&](std::size_t i) { return i < data.ids.size() ? data.ids[i] : std::to_string(i); };
  // What the files call their classes: MNLI, QNLI and RTE by name, the others by number.
  const bool by_name = glue.name == "mnli" || glue.name == "qnli" || glue.name == "rte";
  std::string text = "index\tprediction\n";
  for (std::size_t i = 0; i < logits.ends.size(); ++i) {
    const Row row = logits.of(i);
    const std::size_t best = largest(row);
    text += glue.labels.empty() ? fmt::format("{}\t{:.3f}\n", index(i), row[0])
            : by_name           ? fmt::format("{}\t{}\n", index(i), glue.labels[best])
                                : fmt::format("{}\t{}\n", index(i), best);
  }
  return text;
}

Json of_sample(const TaskSettings& task, const OpenedData& data, std::size_t number, Row row,
               const std::vector<std::string>& labels) {
  switch (task.task) {
    case Task::kSequenceClassification:
      return of_sequence(task, row, labels);
    case Task::kMultipleChoice:
      return {{"choice", largest(row)}, {"probabilities", softmax(row)}};
    case Task::kQuestionAnswering:
      return of_window(row);
    default: {
      Fields sample;
      data.dataset->read(static_cast<int64_t>(number), sample);
      return of_tokens(task.labels, row, sample, labels);
    }
  }
}

// The index, the row of the file, and what is predicted, whose names nothing else has.
void each_sample(const Config& config, const OpenedData& data, const Logits& logits,
                 const std::vector<std::string>& labels, const Each& each) {
  const TaskSettings task = task_settings(config);
  const InputRows rows(config, data);
  for (std::size_t i = 0; i < logits.ends.size(); ++i) {
    const Json predicted = of_sample(task, data, i, logits.of(i), labels);
    Json line{{"index", i}};
    if (i < data.ids.size()) line["id"] = data.ids[i];
    const Json row = rows.of(i);
    for (const auto& [key, value] : row.items())
      line[line.contains(key) || predicted.contains(key) ? "input_" + key : key] = value;
    line.update(predicted);
    each(line);
  }
}

// Texts as they are, nothing where there is nothing, and lists in JSON.
std::string cell_of(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string quoted_cell(std::string cell, PredictionFormat format) {
  if (format == PredictionFormat::kTsv) {  // as it is read here: without quotes
    for (char& c : cell)
      if (c == '\t' || c == '\n' || c == '\r') c = ' ';
    return cell;
  }
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  for (std::size_t at = 0; (at = cell.find('"', at)) != std::string::npos; at += 2) cell.insert(at, 1, '"');
  return '"' + cell + '"';
}

// Of objects a table, with the columns of all.
class PredictionTable {
 public:
  PredictionTable(PredictionFormat format, const std::vector<std::string>& labels)
      : format_(format), labels_(labels) {}

  void add(const Json& line) {
    std::vector<std::string>& row = rows_.emplace_back();
    for (const auto& [key, value] : line.items()) {
      if (key != "probabilities") {
        set(row, key, cell_of(value));
        continue;
      }
      for (std::size_t i = 0; i < value.size(); ++i)
        set(row, fmt::format("probability_{}", cell_of(name_of_class(i, labels_))), cell_of(value[i]));
    }
  }
  std::string text() const {
    std::string text = row_text(columns_);
    for (const std::vector<std::string>& row : rows_) text += row_text(row);
    return text;
  }

 private:
  void set(std::vector<std::string>& row, const std::string& column, std::string cell) {
    const auto [at, is_new] = places_.emplace(column, columns_.size());
    if (is_new) columns_.push_back(column);
    if (row.size() <= at->second) row.resize(at->second + 1);
    row[at->second] = std::move(cell);
  }
  std::string row_text(const std::vector<std::string>& row) const {
    std::string text;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) text += format_ == PredictionFormat::kTsv ? '\t' : ',';
      if (i < row.size()) text += quoted_cell(row[i], format_);
    }
    return text + '\n';
  }

  const PredictionFormat format_;
  const std::vector<std::string>& labels_;
  std::vector<std::string> columns_;
  std::map<std::string, std::size_t> places_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace

void check_format(const Config& config, PredictionFormat format) {
  const std::string_view read = name_of(config.evaluation.format);
  if (format == PredictionFormat::kGlue && !find_glue_task(read))
    throw Error(ExitCode::kConfiguration,
                fmt::format("--as glue, and data.format {} is none of GLUE's", read),
                "jsonl is for every task");
  if (format == PredictionFormat::kSquad && config.evaluation.format != DataFormat::kSquad)
    throw Error(ExitCode::kConfiguration, fmt::format("--as squad, and data.format is {}", read),
                "jsonl is for every task");
}

std::string predictions_text(const Config& config, const OpenedData& data, const Logits& logits,
                             const std::vector<std::string>& labels, PredictionFormat format) {
  if (format == PredictionFormat::kGlue) return glue_lines(config, data, logits);
  if (format == PredictionFormat::kSquad) return answers_squad(config, *data.questions, logits);
  const auto all = [&](const Each& each) {
    data.questions ? each_answer(config, *data.questions, logits, each)
                   : each_sample(config, data, logits, labels, each);
  };
  if (format == PredictionFormat::kJsonl) {
    std::string text;
    all([&](const Json& line) { text += line.dump() + '\n'; });
    return text;
  }
  PredictionTable table(format, labels);
  all([&](const Json& line) { table.add(line); });
  return table.text();
}

}  // namespace recollect
