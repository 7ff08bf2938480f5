#include "launch/predict/predict.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/program_options.hpp>

#include "comm/agree.h"
#include "engine/core/byte_count.h"
#include "engine/core/duration.h"
#include "engine/io/files.h"
#include "engine/io/standard_output.h"
#include "launch/config/read.h"
#include "launch/config/saved_model.h"
#include "launch/predict/predictions.h"
#include "launch/predict/predictor.h"
#include "launch/program/task.h"
#include "launch/program/units.h"
#include "launch/ranks/inputs.h"
#include "launch/ranks/same_configuration.h"
#include "launch/ranks/world.h"

namespace recollect {

namespace {

struct PredictOptions {
  std::string output;  // a file; "": standard output
  PredictionFormat format = PredictionFormat::kJsonl;
  bool verbose = false;
  Config config;
  std::string said;  // of the choice of weights; "": they are the run's
};

bool gives(const Words& words, const std::string& key) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return word.starts_with(key + "="); });
}

// Where no word says it, by the ending of the file.
PredictionFormat format_of(const std::string& word, const std::string& output) {
  if (word.empty())
    return output.ends_with(".csv")   ? PredictionFormat::kCsv
           : output.ends_with(".tsv") ? PredictionFormat::kTsv
                                      : PredictionFormat::kJsonl;
  for (std::size_t i = 0; i < kSpellings<PredictionFormat>.size(); ++i)
    if (kSpellings<PredictionFormat>[i] == word) return static_cast<PredictionFormat>(i);
  throw UsageError(fmt::format("--as {}: it is {}", word, fmt::join(kSpellings<PredictionFormat>, ", ")));
}

void check_task(const Config& config) {
  if (config.task == Task::kCausalLm || config.task == Task::kMaskedLm)
    throw Error(ExitCode::kConfiguration,
                fmt::format("task {}: predict is for heads with few classes", name_of(config.task)),
                "'recollect generate' continues texts with causal models");
}

// Whether the file is of a training that nothing can be predicted with: said before what is missing for an evaluation. What
// the file says of these may be another on the command line.
void check_training_words(const Words& words) {
  std::optional<Config> training;
  try {
    training = read_config(words.front());
  } catch (const Error&) {
    return;
  }
  if (!gives(words, "task")) check_task(*training);
  if (training->evaluation.format == DataFormat::kRandom && !gives(words, "evaluation.format") &&
      !gives(words, "data.format"))
    throw Error(ExitCode::kConfiguration,
                "data.format random: there are no samples of which predict could say anything",
                "say what FILE of --data FILE is, such as evaluation.format=csv");
}

// A training's configuration as that of a run that looks at one set and trains nothing.
Config read_predict_config(Words words, const std::string& data, std::string& said) {
  if (words.empty()) throw UsageError("predict needs a configuration file");
  check_training_words(words);
  if (!gives(words, "evaluation.every_steps")) words.emplace_back("evaluation.every_steps=1");
  if (!data.empty()) words.push_back("evaluation.path=" + data);
  Config config = read_config_words("predict", words);
  check_task(config);
  said = choose_saved_weights({words.begin() + 1, words.end()}, config, WhichModel::kBest);
  config.training.max_steps = 0;
  config.training.epochs = 0;
  return config;
}

// As the weights' own file names them, or data.labels.
std::vector<std::string> names_of_labels(const Config& config) {
  std::vector<std::string> names = saved_label_names(config.model.pretrained);
  return names.empty() ? config.data.labels : names;
}

// Nothing that is read here may be replaced by what is written.
void check_output(const PredictOptions& options) {
  std::vector<std::string> files = files_read(options.config);
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json"})
    files.push_back(options.config.model.pretrained + "/" + name);
  for (const std::string& file : files) {
    std::error_code error;
    if (std::filesystem::equivalent(file, options.output, error))
      throw Error(ExitCode::kConfiguration,
                  fmt::format("--output {} is {}, which is read", options.output, file), "name another file");
  }
}

struct PredictWords {
  std::string data, output, as;
  bool verbose = false;

  OptionTable options();
};

OptionTable PredictWords::options() {
  namespace po = boost::program_options;
  OptionTable table = key_options();
  table.add_options()("data", po::value(&data)->value_name("FILE"),
                      "of evaluation.format; evaluation.path where not given")(
      "output", po::value(&output)->value_name("FILE"), "standard output where not given")(
      "as", po::value(&as)->value_name(fmt::format("{}", fmt::join(kSpellings<PredictionFormat>, "|"))),
      "JSON lines, a table, or what GLUE's or SQuAD's evaluation reads; not given: by the ending of "
      "--output")("verbose", po::bool_switch(&verbose), "speed and memory, on standard error");
  return table;
}

PredictOptions read_predict_options(const Words& words) {
  PredictWords given;
  const Words rest = parse_options(words, given.options());
  PredictOptions read{given.output, format_of(given.as, given.output), given.verbose, {}, {}};
  read.config = read_predict_config(rest, given.data, read.said);
  check_format(read.config, read.format);
  if (!read.output.empty()) check_output(read);
  return read;
}

// Data ranks share the samples; a model is divided as it was in training, where there are ranks for that.
void fit_to_world(Config& config, int ranks) {
  Config::Parallelism& p = config.parallelism;
  if (ranks % p.tensor_parallel_size != 0)
    throw Error(ExitCode::kConfiguration,
                fmt::format("{} {} cannot be divided into groups of parallelism.tensor_parallel_size {}",
                            ranks, ranks == 1 ? "rank" : "ranks", p.tensor_parallel_size),
                "start more ranks, or say parallelism.tensor_parallel_size=1");
  p.data_parallel_size = ranks / p.tensor_parallel_size;
  p.sequence_parallel = false;
}

// Samples may lack their targets.
TaskData task_data_without_targets(const Config& config) {
  TaskData task = task_data(config);
  for (FieldSpec& field : task.fields)
    if (field.key == "labels" || field.key == "start_positions" || field.key == "end_positions")
      field.required = false;
  return task;
}

void predict_rank(const PredictOptions& options, Communicator& world) {
  Config config = options.config;
  fail_together(world, [&] {
    fit_to_world(config, world.size());
    check_data_files(config);
  });
  agree_on_threads(config, world);
  check_ranks_agree(config, world);
  check_inputs_agree(config, world);
  const OpenedData data = open_data(config, task_data_without_targets(config), config.evaluation.format,
                                    config.evaluation.path, {.labelled = false});
  Predictor predictor(config, world, *data.dataset);
  const bool first = world.rank() == 0;
  if (first && !options.said.empty()) warn("{}", options.said);
  if (first && !predictor.drawn().empty())
    warn("not in {}, and drawn at random: {}", config.model.pretrained, fmt::join(predictor.drawn(), ", "));
  if (first)
    for (const std::string& remark : data.remarks) warn("{}", remark);
  const Logits logits = predictor.run();
  if (first) {
    const std::string text = predictions_text(config, data, logits, names_of_labels(config), options.format);
    if (options.output.empty())
      put_text(stdout, text);
    else
      write_text_file(options.output, text);
    if (options.verbose)
      put_text(stderr,
               fmt::format("{} samples, {} tokens in {}: {:.1f} samples/s, {:.0f} tokens/s; {:.1f} % of "
                           "rows is real; arena {} predicted, {} measured\n",
                           logits.ends.size(), logits.tokens, duration_text(logits.seconds),
                           static_cast<double>(logits.ends.size()) / logits.seconds,
                           static_cast<double>(logits.tokens) / logits.seconds,
                           100 * static_cast<double>(logits.tokens) / static_cast<double>(logits.computed),
                           byte_count(predictor.predicted().arena_bytes()),
                           byte_count(predictor.measured().arena_bytes())));
  }
  world.barrier();  // no rank leaves while another may still need it
}

}  // namespace

OptionTable predict_options() { return PredictWords().options(); }

void predict_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi) {
  const PredictOptions options = read_predict_options(words);
  run_ranks(options.config, mpi, [&](Communicator& world) {
    try {
      predict_rank(options, world);
    } catch (const std::exception& error) {
      world.abort(error.what());
      throw;
    }
  });
}

}  // namespace recollect
