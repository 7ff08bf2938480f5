#include "launch/train/open_data.h"

#include <omp.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agree.h"
#include "engine/core/error.h"
#include "engine/core/freed_memory.h"
#include "engine/data/chat/prepare_chats.h"
#include "engine/data/mixture.h"
#include "engine/data/packing.h"
#include "engine/data/prepare_texts.h"
#include "launch/config/data_source.h"
#include "launch/config/epochs.h"
#include "launch/program/task.h"
#include "launch/train/label_names.h"
#include "launch/train/open_together.h"

namespace recollect {

namespace {

DatasetSpec dataset_spec(const Config& config, const TaskData& task, DataFormat format,
                         const std::vector<std::string>& paths) {
  return {.format = format,
          .paths = paths,
          .sequence_length = config.data.sequence_length,
          .vocabulary_size = config.model.facts().vocabulary.value,
          .dtype = std::string(name_of(config.data.dtype)),
          .random_low = config.data.low,
          .random_high = config.data.high,
          .random_size = config.data.samples > 0 ? config.data.samples : DatasetSpec().random_size,
          .random_lengths = random_lengths(config).value(),
          .random_label = config.data.constant_label,
          .on_bad_record = config.data.on_bad_record,
          .seed = static_cast<uint64_t>(config.data.seed),
          .fields = task.fields};
}

// Whether no target is masked, so that mask settings have no effect. Stops at the first masked sample.
bool has_all_labels(const Dataset& dataset) {
  for (int64_t i = 0; i < dataset.size(); ++i) {
    Fields sample;
    dataset.read(i, sample);
    if (sample["labels"].empty()) return false;
  }
  return true;
}

// Memory that threads have freed stays in their heaps unless it is returned to the system. After preparing
// texts this can be as much as a small model needs.
struct GivenBack {
  ~GivenBack() { give_back_freed_memory(); }
};

OpenedData packed(const Config& config, std::unique_ptr<Dataset> dataset, std::vector<std::string> remarks,
                  bool shuffled, IndexReader* index = nullptr) {
  if (config.data.packing == Packing::kNone)
    return {.dataset = std::move(dataset), .remarks = std::move(remarks)};
  const SampleOrder order(dataset->size(), static_cast<uint64_t>(config.data.seed), shuffled);
  auto samples = std::make_unique<PackedDataset>(std::move(dataset), config.data.packing, order, index);
  std::string packing = samples->description();
  return {.dataset = std::move(samples), .remarks = std::move(remarks), .packing = std::move(packing)};
}

OpenedData open_ids(const Config& config, const TaskData& task, DataFormat format,
                    const std::vector<std::string>& paths, const OpenOptions& options) {
  DatasetSpec spec = dataset_spec(config, task, format, paths);
  spec.index = options.index;
  std::unique_ptr<Dataset> dataset = open_dataset(spec);
  std::vector<std::string> remarks = dataset->remarks();
  if (!options.index && config.task == Task::kMaskedLm && config.data.mask_token >= 0 &&
      format == DataFormat::kJsonl && has_all_labels(*dataset))
    remarks.push_back(
        fmt::format("data.mask_token masks nothing of {}: every line has labels", fmt::join(paths, ", ")));
  return packed(config, std::move(dataset), std::move(remarks), options.shuffled, options.index);
}

// Texts are padded on the right here. With a tokenizer that pads on the left, positions would differ.
void check_padding_side(const Tokenizer& tokenizer, const Config& config) {
  if (tokenizer.habits().pads_left)
    throw Error(ExitCode::kInput,
                fmt::format("{}: padding_side is left, and {} pads texts on the right", config.data.tokenizer,
                            name_of(config.task)),
                "say \"padding_side\": \"right\" in tokenizer_config.json, if the model was trained so");
}

// Settings of conversations have no effect on texts: each is an error.
void check_no_chats(const Config::Data& d, const std::vector<std::string>& paths) {
  const auto refuse = [&](const std::string& key) {
    throw Error(ExitCode::kConfiguration,
                fmt::format("{} has no effect: the records of {} are texts", key, fmt::join(paths, ", ")),
                "leave it out, or name the records' keys in data.columns");
  };
  if (!d.chat_template.empty()) refuse("data.chat_template");
  if (!d.columns.tools.empty()) refuse("data.columns.tools");
  if (d.learn == Learn::kAssistant || d.learn == Learn::kCompletion)
    refuse(fmt::format("data.learn {}", name_of(d.learn)));
}

// Returns nothing if the records are texts.
std::optional<PreparedChats> open_chats(const Config& config, const Tokenizer& tokenizer,
                                        const TextsSpec& texts) {
  const Config::Data& d = config.data;
  ChatsSpec spec{.paths = texts.paths,
                 .columns = {d.columns.text, d.columns.messages, d.columns.prompt, d.columns.completion,
                             d.columns.tools},
                 .tokenizer = d.tokenizer,
                 .chat_template = d.chat_template,
                 .learn = d.learn,
                 .sequence_length = d.sequence_length,
                 .vocabulary_size = texts.vocabulary_size,
                 .truncation = d.truncation,
                 .whole = d.packing == Packing::kAcross,
                 .threads = texts.threads,
                 .on_bad_record = d.on_bad_record};
  const RecordShape shape = shape_of_files(spec.paths, spec.columns);
  if (shape != RecordShape::kText) return prepare_chats(tokenizer, spec, shape);
  check_no_chats(d, texts.paths);
  return std::nullopt;
}

// Opens texts for language models.
OpenedData open_texts(const Config& config, DataFormat format, const std::vector<std::string>& paths,
                      bool shuffled) {
  const Config::Data& d = config.data;
  const GivenBack memory;  // of the tokenizer too
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(d.tokenizer);
  TextsSpec spec{.paths = files_of_data(format, paths),
                 .sequence_length = d.sequence_length,
                 .vocabulary_size = config.model.facts().vocabulary.value,
                 .threads = omp_get_max_threads(),
                 .on_bad_record = d.on_bad_record};
  if (!d.columns.text.empty()) spec.key = d.columns.text;
  if (format == DataFormat::kText)
    return packed(config, tokenize_stream(*tokenizer, spec), tokenizer->remarks(), shuffled);
  if (format == DataFormat::kJsonl && config.task == Task::kCausalLm) {
    if (auto chats = open_chats(config, *tokenizer, spec)) {
      std::vector<std::string> remarks = tokenizer->remarks();
      remarks.insert(remarks.end(), chats->remarks.begin(), chats->remarks.end());
      return packed(config, std::move(chats->dataset), std::move(remarks), shuffled);
    }
  }
  const bool across = d.packing == Packing::kAcross;
  const LineTokens tokens =
      config.task == Task::kMaskedLm && !across ? LineTokens::kWithSpecial : LineTokens::kWithEnd;
  if (tokens == LineTokens::kWithSpecial) check_padding_side(*tokenizer, config);
  PreparedTexts texts = format == DataFormat::kSquad
                            ? tokenize_contexts(*tokenizer, spec, tokens, d.truncation, across)
                            : tokenize_lines(*tokenizer, spec, tokens, d.truncation, across);
  std::vector<std::string> remarks = tokenizer->remarks();
  remarks.insert(remarks.end(), texts.remarks.begin(), texts.remarks.end());
  return packed(config, std::move(texts.dataset), std::move(remarks), shuffled);
}

// Opens and packs each set separately.
OpenedData open_mixture(const Config& config, const TaskData& task, IndexReader* index) {
  const std::vector<double> weights = weights_of(config).value();
  std::vector<Mixture::Part> parts;
  OpenedData mixed;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::string& path = config.data.path[i];
    OpenedData one = open_data(config, task, config.data.format, {path},
                               {.index = index, .shuffled = config.data.shuffle});
    mixed.remarks.insert(mixed.remarks.end(), one.remarks.begin(), one.remarks.end());
    if (!one.packing.empty())
      mixed.packing += fmt::format("{}{}: {}", mixed.packing.empty() ? "" : "; ", path, one.packing);
    parts.push_back({std::move(one.dataset), weights[i], path});
  }
  auto mixture = std::make_unique<Mixture>(std::move(parts));
  mixed.mixture = mixture->description();
  mixed.dataset = std::move(mixture);
  return mixed;
}

}  // namespace

OpenedData open_data(const Config& config, const TaskData& task, DataFormat format,
                     const std::vector<std::string>& paths, const OpenOptions& options) {
  if (!holds_texts(config, format)) return open_ids(config, task, format, paths, options);
  if (is_language_model(config.task)) return open_texts(config, format, paths, options.shuffled);
  const Config::Data& d = config.data;
  const ModelFacts model = config.model.facts();
  PreparationSpec spec{.format = format,
                       .task = *data_task(config.task),
                       .paths = files_of_data(format, paths),
                       .text = d.columns.text,
                       .pair = d.columns.pair,
                       .label = d.columns.label,
                       .has_header = d.header,
                       .labels = d.labels.empty() ? options.labels : d.labels,
                       .problem = model.problem,
                       .labelled = options.labelled,
                       .sequence_length = d.sequence_length,
                       .stride = d.stride,
                       .truncation = d.truncation,
                       .vocabulary_size = model.vocabulary.value,
                       .token_types = model.token_types > 1,
                       .on_bad_record = d.on_bad_record,
                       .threads = omp_get_max_threads()};
  const GivenBack memory;  // of the tokenizer too
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(d.tokenizer);
  check_padding_side(*tokenizer, config);
  Prepared prepared = prepare(spec, *tokenizer);
  std::vector<std::string> remarks = tokenizer->remarks();
  const bool classifies =
      config.task == Task::kSequenceClassification || config.task == Task::kTokenClassification;
  if (classifies && spec.labels.empty() && !prepared.labels.empty()) {
    LabelNames chosen = choose_label_names(config, prepared.labels);
    remarks.insert(remarks.end(), chosen.remarks.begin(), chosen.remarks.end());
    if (!chosen.names.empty() && chosen.names != prepared.labels) {
      spec.labels = std::move(chosen.names);
      prepared = prepare(spec, *tokenizer);
    }
  } else if (const auto reordered = reordered_labels(config);
             classifies && reordered && options.labels.empty()) {
    remarks.push_back(*reordered);
  }
  prepared.remarks.insert(prepared.remarks.begin(), remarks.begin(), remarks.end());
  if (classifies && !prepared.labels.empty() && static_cast<int64_t>(prepared.labels.size()) != model.labels)
    throw Error(
        ExitCode::kInput,
        fmt::format(
            "{}: there {}, {}; model.num_labels is {}", fmt::join(paths, ", "),
            prepared.labels.size() == 1 ? "is 1 label" : fmt::format("are {} labels", prepared.labels.size()),
            fmt::join(prepared.labels, ", "), model.labels),
        "name them all in data.labels, which sets model.num_labels");
  if (config.task == Task::kMultipleChoice && std::ssize(prepared.labels) != d.choices)
    throw Error(ExitCode::kInput,
                fmt::format("{}: a sample has {} choices; data.choices is {}", fmt::join(paths, ", "),
                            prepared.labels.size(), d.choices),
                fmt::format("say data.choices: {}", prepared.labels.size()));
  return {.dataset = std::move(prepared.samples),
          .labels = std::move(prepared.labels),
          .metrics = std::move(prepared.metrics),
          .ids = std::move(prepared.ids),
          .rows = std::move(prepared.rows),
          .questions = std::move(prepared.questions),
          .remarks = std::move(prepared.remarks)};
}

OpenedData open_training_data(const Config& config, const TaskData& task, IndexReader* index) {
  if (!config.data.weights.empty()) return open_mixture(config, task, index);
  return open_data(config, task, config.data.format, config.data.path,
                   {.index = index, .shuffled = config.data.shuffle});
}

namespace {

// Only JSONL of ids is opened once a node: other formats have no large index, or every process prepares them.
OpenedData open_by_all(const Config& config, DataFormat format, Communicator& world, const OpenIds& open) {
  return format == DataFormat::kJsonl && !holds_texts(config, format) ? open_together(world, open)
                                                                      : open(nullptr);
}

OpenedData open_training_data_by_all(const Config& config, const TaskData& task, Communicator& world) {
  return open_by_all(config, config.data.format, world,
                     [&](IndexReader* index) { return open_training_data(config, task, index); });
}

}  // namespace

RunData open_run_data(const Config& config, Communicator& world, OpenedData training) {
  const GivenBack memory;
  const TaskData task = task_data(config);
  RunData data{.training = std::move(training), .evaluation = {}};
  if (config.training.max_steps > 0 && !data.training.dataset)
    data.training = open_training_data_by_all(config, task, world);
  const Config::Evaluation& e = config.evaluation;
  if (e.runs())
    data.evaluation = open_by_all(config, e.format, world, [&](IndexReader* index) {
      return open_data(config, task, e.format, e.path, {.labels = data.training.labels, .index = index});
    });
  return data;
}

OpenedData count_epochs(Config& config, Communicator& world) {
  if (config.training.epochs == 0) return {};
  const GivenBack memory;
  OpenedData data = open_training_data_by_all(config, task_data(config), world);
  complete_steps(config, data.dataset->size());
  check_texts_agree({{"training.max_steps", fmt::format("{}", config.training.max_steps)}},
                    "lengths of the run", "their files differ: give every rank the same", world);
  return data;
}

}  // namespace recollect
