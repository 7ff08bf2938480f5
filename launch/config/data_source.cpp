#include "launch/config/data_source.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/printable.h"
#include "engine/data/glue.h"

namespace recollect {

namespace {

constexpr int64_t kByteValues = 256;

bool needs_columns(const Config& config, DataFormat format) {
  return format == DataFormat::kCsv || format == DataFormat::kTsv ||
         (format == DataFormat::kJsonl && holds_texts(config, format) &&
          config.task == Task::kSequenceClassification);
}

bool has_named_columns(const Config& config, DataFormat format) {
  return needs_columns(config, format) || (format == DataFormat::kJsonl && holds_texts(config, format));
}

bool can_read(DataFormat format, Task task) {
  if (is_language_model(task))
    return format == DataFormat::kJsonl || format == DataFormat::kText || format == DataFormat::kSquad;
  const std::optional<DataTask> prepared = data_task(task);
  return prepared && can_prepare(format, *prepared);
}

void check_source(const Config& config, const std::string& key, DataFormat format,
                  std::vector<Finding>& found) {
  if (!holds_texts(config, format)) return;
  if (!can_read(format, config.task)) {
    std::vector<std::string_view> tasks;
    for (std::size_t i = 0; i < kSpellings<DataTask>.size(); ++i)
      if (can_prepare(format, static_cast<DataTask>(i))) tasks.push_back(kSpellings<DataTask>[i]);
    found.push_back(
        {{key, "task"},
         fmt::format(
             "{} {} holds texts for task {}, not for {}{}", key, name_of(format), fmt::join(tasks, " or "),
             name_of(config.task),
             is_language_model(config.task) ? "; 'recollect tokenize' makes token files of texts" : "")});
    return;
  }
  const Config::Data& d = config.data;
  if (!needs_columns(config, format)) return;
  for (const auto& [name, value] : {std::pair("text", d.columns.text), std::pair("label", d.columns.label)})
    if (value.empty())
      found.push_back({{fmt::format("data.columns.{}", name), key},
                       fmt::format("data.columns.{} is missing: {} {} has columns of any name", name, key,
                                   name_of(format))});
}

bool has_classes(const Config& config) {
  return config.task == Task::kTokenClassification ||
         (config.task == Task::kSequenceClassification &&
          config.model.facts().problem == ProblemType::kSingleLabel);
}

}  // namespace

std::optional<DataTask> data_task(Task task) {
  for (const DataTask prepared : {DataTask::kSequenceClassification, DataTask::kMultipleChoice,
                                  DataTask::kQuestionAnswering, DataTask::kTokenClassification})
    if (name_of(prepared) == name_of(task)) return prepared;
  return std::nullopt;
}

bool is_language_model(Task task) { return task == Task::kCausalLm || task == Task::kMaskedLm; }

bool holds_texts(const Config& config, DataFormat format) {
  if (holds_texts(format)) return true;
  const bool given = config.origins.contains("data.tokenizer");
  const bool is_text = format == DataFormat::kText && is_language_model(config.task);
  return !config.data.tokenizer.empty() &&
         ((given && format == DataFormat::kJsonl) ||
          (is_text && (given || config.derived.contains("data.tokenizer"))));
}

bool reads_streams(const Config& config) {
  return is_language_model(config.task) && reads(config, DataFormat::kText);
}

std::string remark_on_bytes(const Config& config) {
  const ModelFact vocabulary = config.model.facts().vocabulary;
  if (!reads_streams(config) || vocabulary.value <= kByteValues || !config.data.tokenizer.empty() ||
      config.origins.contains("data.tokenizer"))
    return "";
  return fmt::format(
      "data.format text without data.tokenizer reads bytes (ids 0-255); model.{} is {}: write "
      "data.tokenizer=FOLDER, or data.tokenizer=bytes to mean it",
      vocabulary.key, vocabulary.value);
}

bool reads(const Config& config, DataFormat format) {
  return config.data.format == format || (config.evaluation.runs() && config.evaluation.format == format);
}

bool keeps_tokenizer(const Config& config) {
  return config.data.format == DataFormat::kTokens &&
         (config.checkpoint.save_model || config.checkpoint.save_best_model);
}

bool reads_texts(const Config& config) {
  return holds_texts(config, config.data.format) ||
         (config.evaluation.runs() && holds_texts(config, config.evaluation.format));
}

bool has_named_columns(const Config& config) {
  return has_named_columns(config, config.data.format) ||
         (config.evaluation.runs() && has_named_columns(config, config.evaluation.format));
}

bool may_hold_chats(const Config& config) {
  return config.task == Task::kCausalLm && reads(config, DataFormat::kJsonl) &&
         holds_texts(config, DataFormat::kJsonl);
}

bool lengths_change(const Config& config) {
  const auto change = [&](DataFormat format) {
    if (format == DataFormat::kRandom) return !config.data.lengths.empty();
    return format == DataFormat::kJsonl || (format != DataFormat::kText && holds_texts(config, format));
  };
  return change(config.data.format) || (config.evaluation.runs() && change(config.evaluation.format));
}

std::optional<int64_t> known_labels(const Config& config) {
  const bool trains = config.training.max_steps > 0;
  const DataFormat format = trains ? config.data.format : config.evaluation.format;
  if (!holds_texts(config, format)) return std::nullopt;
  if (!config.data.labels.empty()) return static_cast<int64_t>(config.data.labels.size());
  const std::optional<GlueTask> glue = find_glue_task(name_of(format));
  if (!glue) return std::nullopt;
  return std::max<int64_t>(1, static_cast<int64_t>(glue->labels.size()));
}

namespace {

// "64", "16-64", either with ":3" or without.
std::optional<DatasetSpec::Lengths> lengths_of(const std::string& word, int64_t most) {
  DatasetSpec::Lengths lengths;
  const char* at = word.data();
  const char* const end = word.data() + word.size();
  const auto read = [&](auto& number) {
    const auto [next, error] = std::from_chars(at, end, number);
    at = next;
    return error == std::errc();
  };
  if (!read(lengths.low)) return std::nullopt;
  lengths.high = lengths.low;
  if (at != end && *at == '-' && (++at, !read(lengths.high))) return std::nullopt;
  if (at != end && *at == ':' && (++at, !read(lengths.share))) return std::nullopt;
  const bool sound = at == end && lengths.low >= 1 && lengths.low <= lengths.high && lengths.high <= most &&
                     lengths.share > 0 && std::isfinite(lengths.share);
  return sound ? std::optional(lengths) : std::nullopt;
}

}  // namespace

std::optional<std::vector<DatasetSpec::Lengths>> random_lengths(const Config& config) {
  std::vector<DatasetSpec::Lengths> all;
  for (const std::string& word : config.data.lengths) {
    const std::optional<DatasetSpec::Lengths> one = lengths_of(word, config.data.sequence_length);
    if (!one) return std::nullopt;
    all.push_back(*one);
  }
  return all;
}

void check_random(const Config& config, std::vector<Finding>& found) {
  if (!reads(config, DataFormat::kRandom)) return;
  const Config::Data& d = config.data;
  for (const std::string& word : d.lengths)
    if (!lengths_of(word, d.sequence_length))
      found.push_back(
          {{"data.lengths", "data.sequence_length"},
           fmt::format("data.lengths: '{}' is no LENGTH or LOW-HIGH, with :SHARE or without, from 1 to "
                       "data.sequence_length {}",
                       word, d.sequence_length)});
  if (d.samples > 0 && config.training.max_steps > 0 && d.format == DataFormat::kRandom &&
      d.samples < config.training.micro_batch_size)
    found.push_back({{"data.samples", "training.micro_batch_size"},
                     fmt::format("data.samples {} are fewer than a micro-batch of {}", d.samples,
                                 config.training.micro_batch_size)});
}

std::optional<std::vector<double>> weights_of(const Config& config) {
  std::vector<double> weights;
  for (const std::string& word : config.data.weights) {
    double weight = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), weight);
    if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(weight) || weight <= 0)
      return std::nullopt;
    weights.push_back(weight);
  }
  return weights;
}

void check_weights(const Config& config, std::vector<Finding>& found) {
  const Config::Data& d = config.data;
  if (d.weights.empty() || d.format == DataFormat::kRandom) return;
  if (!weights_of(config))
    found.push_back(
        {{"data.weights"},
         fmt::format("data.weights: each of {} must be a number above 0", fmt::join(d.weights, ", "))});
  if (d.weights.size() != d.path.size())
    found.push_back({{"data.weights", "data.path"},
                     fmt::format("data.weights has {}, and data.path {}: there is one for each",
                                 d.weights.size(), d.path.size())});
  if (!is_language_model(config.task))
    found.push_back({{"data.weights", "task"},
                     fmt::format("data.weights mixes data for causal_lm and masked_lm, not for {}",
                                 name_of(config.task))});
  if (!d.shuffle)
    found.push_back({{"data.weights", "data.shuffle"},
                     "data.weights: with data.shuffle false the sets would follow each other"});
}

void check_texts(const Config& config, std::vector<Finding>& found) {
  if (!reads_texts(config)) return;
  const Config::Data& d = config.data;
  if (config.training.max_steps > 0) check_source(config, "data.format", d.format, found);
  if (config.evaluation.runs()) check_source(config, "evaluation.format", config.evaluation.format, found);
  if (d.tokenizer.empty())
    found.push_back({{"data.tokenizer", "data.format"},
                     "data.tokenizer is missing: the data is text, and no model.pretrained says how it is "
                     "read"});
  for (auto name = d.labels.begin(); name != d.labels.end(); ++name)
    if (std::find(d.labels.begin(), name, *name) != name)
      found.push_back(
          {{"data.labels"}, fmt::format("data.labels: two classes are called {}", printable(*name))});
  const bool names_prompt = !d.columns.prompt.empty() || !d.columns.completion.empty();
  if (!d.columns.text.empty() + !d.columns.messages.empty() + names_prompt > 1)
    found.push_back(
        {{"data.columns.text", "data.columns.messages", "data.columns.prompt"},
         "data.columns names more than one of text, messages, and prompt with completion: a record is "
         "one of them"});
  const std::optional<int64_t> labels = known_labels(config);
  if (labels && has_classes(config) && *labels != config.model.facts().labels)
    found.push_back({{"model.num_labels", "data.labels", "data.format"},
                     fmt::format("model.num_labels {} is not the number of classes of the data, {}",
                                 config.model.facts().labels, *labels)});
  if (config.task == Task::kQuestionAnswering && d.stride >= d.sequence_length)
    found.push_back({{"data.stride", "data.sequence_length"},
                     fmt::format("data.stride {} leaves windows of data.sequence_length {} nothing new",
                                 d.stride, d.sequence_length)});
}

}  // namespace recollect
