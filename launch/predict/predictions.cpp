#include "launch/predict/predictions.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/data/glue.h"
#include "engine/io/json.h"
#include "launch/config/data_source.h"
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

std::string answers_jsonl(const Config& config, const QuestionAnsweringSet& set, const Logits& logits) {
  std::string text;
  for_each_answer(config, set, logits, [&](const auto& example, const ChosenAnswer& answer) {
    Json line{{"id", example.id}, {"answer", answer.text}};
    if (!answer.spans.empty()) {
      line["probability"] = answer.spans[0].probability;
      line["score"] = answer.spans[0].score;
      line["none_above_best"] = answer.none_above_best;
    }
    text += line.dump() + '\n';
  });
  return text;
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

std::string sample_lines(const Config& config, const OpenedData& data, const Logits& logits,
                         const std::vector<std::string>& labels) {
  const TaskSettings task = task_settings(config);
  std::string text;
  Fields sample;
  for (std::size_t i = 0; i < logits.ends.size(); ++i) {
    Json line{{"index", i}};
    if (i < data.ids.size()) line["id"] = data.ids[i];
    const Row row = logits.of(i);
    switch (task.task) {
      case Task::kSequenceClassification:
        line.update(of_sequence(task, row, labels));
        break;
      case Task::kMultipleChoice:
        line.update(Json{{"choice", largest(row)}, {"probabilities", softmax(row)}});
        break;
      case Task::kQuestionAnswering:
        line.update(of_window(row));
        break;
      default: {
        sample.clear();
        data.dataset->read(static_cast<int64_t>(i), sample);
        line.update(of_tokens(task.labels, row, sample, labels));
      }
    }
    text += line.dump() + '\n';
  }
  return text;
}

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
  if (data.questions) return answers_jsonl(config, *data.questions, logits);
  return sample_lines(config, data, logits, labels);
}

}  // namespace recollect
