#include "launch/config/validate.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "checkpointing/switch_effects.h"
#include "comm/bootstrap.h"
#include "engine/core/error.h"
#include "engine/io/problems.h"
#include "engine/ops/cpu_level.h"
#include "launch/config/check_division.h"
#include "launch/config/check_offload.h"
#include "launch/config/check_reports.h"
#include "launch/config/check_schedule.h"
#include "launch/config/data_source.h"
#include "launch/config/epochs.h"
#include "launch/config/inert.h"
#include "launch/config/keys.h"
#include "launch/config/lora_keys.h"
#include "launch/config/masking.h"
#include "launch/config/occasions.h"
#include "launch/config/optimizer_groups.h"
#include "launch/config/padding.h"

namespace recollect {
namespace {

using Findings = std::vector<Finding>;

std::string path_of(const ModelFact& fact) { return "model." + fact.key; }

void check_model(const Config& config, Findings& found) {
  const Config::Model& m = config.model;
  for (Finding& wrong : m.family().check(m.values)) found.push_back(std::move(wrong));
  const std::vector<Task>& tasks = m.family().tasks;
  if (std::find(tasks.begin(), tasks.end(), config.task) == tasks.end()) {
    std::string names;
    for (const Task task : tasks) names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(task));
    found.push_back({{"task", "model.type"},
                     fmt::format("task {}: model.type {} has no head for it; it has one for {}",
                                 name_of(config.task), m.type, names)});
  }
  for (const auto& [name, only] : m.family().fixed) {
    const ConfigKey* key = KeyTable::of(m.family()).find("model", name);
    if (!key || m.values.at(key->name) == only) continue;
    Config possible = config;
    possible.model.values.at(key->name) = only;
    found.push_back(
        {{key->path()}, fmt::format("{}: only {} is supported", key->path(), key->print(possible))});
  }
  if (!m.config.empty() && !m.pretrained.empty()) {
    found.push_back(
        {{"model.config", "model.pretrained"},
         "model.config and model.pretrained are both given; model.pretrained brings its own config.json"});
  }
}

void check_parallelism(const Config& config, Findings& found) {
  const int64_t tensor = config.parallelism.tensor_parallel_size;
  for (const ModelFact& fact : config.model.facts().divided) {
    if (fact.value % tensor == 0) continue;
    found.push_back({{"parallelism.tensor_parallel_size", path_of(fact)},
                     fmt::format("{} {} is not a multiple of parallelism.tensor_parallel_size {}",
                                 path_of(fact), fact.value, tensor)});
  }
  for (const ModelFact& fact : config.model.facts().divided_or_repeated) {
    if (fact.value % tensor == 0 || tensor % fact.value == 0) continue;
    found.push_back(
        {{"parallelism.tensor_parallel_size", path_of(fact)},
         fmt::format("parallelism.tensor_parallel_size {} is neither a divisor nor a multiple of {} {}",
                     tensor, path_of(fact), fact.value)});
  }
  const int64_t ranks = tensor * std::max<int64_t>(1, config.parallelism.data_parallel_size);
  if (ranks > kMostRanks) {
    found.push_back(
        {{"parallelism.data_parallel_size", "parallelism.tensor_parallel_size"},
         fmt::format("parallelism.tensor_parallel_size {} x parallelism.data_parallel_size {} = {} ranks; a "
                     "world has at most {}",
                     tensor, config.parallelism.data_parallel_size, ranks, kMostRanks)});
  }
  if (config.parallelism.communicator == CommunicatorKind::kSelf && ranks > 1) {
    found.push_back(
        {{"parallelism.communicator", "parallelism.tensor_parallel_size", "parallelism.data_parallel_size"},
         fmt::format("parallelism.communicator self is a world of one rank, but {} are asked for", ranks)});
  }
}

void check_device(const Config& config, Findings& found) {
  const BackendKind backend = config.device.backend;
  const Precision precision = config.training.precision;
  const std::vector<std::string> keys = {"training.precision", "device.backend"};
  try {
    if (backend == BackendKind::kCpu) cpu_level(config.device.isa);
  } catch (const Error& error) {
    found.push_back(
        {{"device.isa"},
         fmt::format("device.isa {}: {}; {}", name_of(config.device.isa), error.what(), error.hint())});
  }
  if (precision == Precision::kFP64 && backend != BackendKind::kReference) {
    found.push_back({keys, fmt::format("training.precision fp64 needs device.backend reference, not {}",
                                       name_of(backend))});
  }
  if (precision == Precision::kBF16 && backend == BackendKind::kReference) {
    found.push_back({keys, "training.precision bf16 needs device.backend cpu or cuda, not reference"});
  }
  if (precision == Precision::kFP16 && backend != BackendKind::kCuda) {
    found.push_back(
        {keys, fmt::format("training.precision fp16 needs device.backend cuda, not {}; bf16 is as "
                           "small and needs no loss scale",
                           name_of(backend))});
  }
}

void check_numbers(const Config& config, Findings& found) {
  const double scale = config.training.loss_scale;
  if (scale < 0 && scale != -1) {
    found.push_back(
        {{"training.loss_scale"},
         fmt::format("training.loss_scale {}: below 0 there is only -1, the precision's own way", scale)});
  }
  if (!config.debug.dump_gradients.empty() && config.debug.dump_step > config.training.max_steps) {
    found.push_back({{"debug.dump_step", "training.max_steps"},
                     fmt::format("debug.dump_step {} is after the last step, training.max_steps {}",
                                 config.debug.dump_step, config.training.max_steps),
                     config.training.max_steps > 0});
  }
}

void check_checkpointing(const Config& config, Findings& found) {
  const ModelFact layers = config.model.facts().layers;
  const CheckpointedRun run{.layers = layers.value,
                            .layers_key = path_of(layers),
                            .tensor_ranks = config.parallelism.tensor_parallel_size,
                            .sequence_parallel = config.parallelism.sequence_parallel,
                            .dtype = compute_dtype(config.training.precision),
                            .memory_limit = config.device.memory_limit};
  for (Finding& finding : check_settings(config.activation_checkpointing, run))
    found.push_back(std::move(finding));
}

void check_epochs(const Config& config, Findings& found) {
  const double epochs = config.training.epochs;
  if (epochs == 0) return;
  if (config.origins.contains("training.max_steps")) {
    found.push_back({{"training.epochs", "training.max_steps"},
                     "training.epochs and training.max_steps are both given; give one"});
  }
  if (epochs < kLeastEpochs) {
    found.push_back(
        {{"training.epochs"}, fmt::format("training.epochs {}: the least is {}", epochs, kLeastEpochs)});
  }
  if (config.data.format == DataFormat::kRandom && config.data.samples == 0) {
    found.push_back({{"training.epochs", "data.samples", "data.format"},
                     "training.epochs: data.format random has no end; give data.samples, of an epoch, or "
                     "training.max_steps"});
  }
}

// A run without steps evaluates.
void check_steps(const Config& config, Findings& found) {
  if (config.training.max_steps > 0) return;
  if (!config.evaluation.runs()) {
    found.push_back(
        {{"training.max_steps", "evaluation.path", "evaluation.every_steps"},
         "training.max_steps 0 trains nothing, and nothing is evaluated either: give evaluation.path"});
  }
}

void check_random_ids(const Config& config, Findings& found) {
  const Config::Data& d = config.data;
  const ModelFact vocabulary = config.model.facts().vocabulary;
  if (d.low >= d.high) {
    found.push_back({{"data.low", "data.high", path_of(vocabulary)},
                     fmt::format("data.low {} is not below data.high {}", d.low, d.high)});
  }
  if (d.high > vocabulary.value) {
    found.push_back(
        {{"data.high", path_of(vocabulary)},
         fmt::format("data.high {} is above {} {}", d.high, path_of(vocabulary), vocabulary.value)});
  }
}

// What `section` reads: files where it must, and ids that the vocabulary has.
void check_source(const Config& config, const std::string& section, DataFormat format,
                  const std::vector<std::string>& path, Findings& found) {
  const ModelFact vocabulary = config.model.facts().vocabulary;
  const std::string format_key = section + ".format";
  if (format != DataFormat::kRandom && path.empty()) {
    found.push_back(
        {{section + ".path", format_key},
         fmt::format("{0}.path is missing; {0}.format {1} reads files", section, name_of(format))});
  }
  if (format == DataFormat::kText && vocabulary.value < 256 && !holds_texts(config, format)) {
    found.push_back({{path_of(vocabulary), format_key},
                     fmt::format("{} text has 256 token ids, {} {} is less", format_key, path_of(vocabulary),
                                 vocabulary.value)});
  }
}

void check_masking(const Config& config, const ModelFacts& model, Findings& found) {
  const Config::Data& d = config.data;
  if (config.task != Task::kMaskedLm) return;
  const auto needs_mask = [&](const char* key, DataFormat format) {
    const bool may_have_labels = format == DataFormat::kJsonl && !holds_texts(config, format);
    if (may_have_labels || d.mask_token >= 0 || !masking_tokenizer(config).empty()) return;
    found.push_back(
        {{"data.mask_token", key},
         fmt::format("data.mask_token is missing: task masked_lm masks the tokens of {} {} itself", key,
                     name_of(format))});
  };
  if (config.training.max_steps > 0) needs_mask("data.format", d.format);
  if (config.evaluation.runs()) needs_mask("evaluation.format", config.evaluation.format);
  if (d.mask_token >= model.vocabulary.value)
    found.push_back({{"data.mask_token", path_of(model.vocabulary)},
                     fmt::format("data.mask_token {} is not below {} {}", d.mask_token,
                                 path_of(model.vocabulary), model.vocabulary.value)});
}

void check_packing(const Config& config, Findings& found) {
  const Config::Data& d = config.data;
  if (d.packing == Packing::kNone) return;
  if (config.task != Task::kCausalLm && config.task != Task::kMaskedLm)
    found.push_back(
        {{"data.packing", "task"},
         fmt::format("data.packing {}: task {} looks at samples one by one; documents are packed for "
                     "causal_lm and masked_lm",
                     name_of(d.packing), name_of(config.task))});
  const bool records = d.format == DataFormat::kJsonl || d.format == DataFormat::kSquad;
  if (config.training.max_steps > 0 && !records)
    found.push_back({{"data.packing", "data.format"},
                     fmt::format("data.packing {} packs the lines of jsonl; the samples "
                                 "of data.format {} are "
                                 "full without it",
                                 name_of(d.packing), name_of(d.format))});
  if (config.evaluation.runs() && config.evaluation.format == DataFormat::kRandom)
    found.push_back({{"evaluation.format", "data.packing"},
                     "evaluation.format random has no end, and cannot be packed as data.packing says"});
}

void check_data(const Config& config, Findings& found) {
  const Config::Data& d = config.data;
  const ModelFacts model = config.model.facts();
  if (d.sequence_length > model.longest.value) {
    found.push_back({{"data.sequence_length", path_of(model.longest)},
                     fmt::format("data.sequence_length {} is above {} {}{}", d.sequence_length,
                                 path_of(model.longest), model.longest.value + model.kept_positions,
                                 model.kept_positions > 0
                                     ? fmt::format(", {} of which no token has", model.kept_positions)
                                     : "")});
  }
  check_masking(config, model, found);
  check_texts(config, found);
  if (config.training.max_steps > 0) check_weights(config, found);
  check_packing(config, found);
  const Config::Evaluation& e = config.evaluation;
  const bool trains = config.training.max_steps > 0, evaluates = e.runs();
  if ((trains && d.format == DataFormat::kRandom) || (evaluates && e.format == DataFormat::kRandom))
    check_random_ids(config, found);
  if (trains) check_source(config, "data", d.format, d.path, found);
  if (evaluates) check_source(config, "evaluation", e.format, e.path, found);
  check_random(config, found);
  if (evaluates && e.format == DataFormat::kRandom && e.batches == 0 && d.samples == 0) {
    found.push_back({{"evaluation.batches", "evaluation.format", "data.format"},
                     "evaluation.batches 0 means the whole set, and random data has no end: say how many, or "
                     "give data.samples"});
  }
}

// Why no whole numbers complete the batch sizes.
Finding batch_disagreement(const Config& config) {
  const Config::Training& t = config.training;
  const int64_t replicas = config.parallelism.data_parallel_size;
  std::string factors;
  int64_t product = replicas;
  const auto times = [&](const char* name, int64_t value) {
    if (value == 0) return;
    factors += fmt::format("{} {} x ", name, value);
    product *= value;
  };
  times("micro_batch_size", t.micro_batch_size);
  times("gradient_accumulation_steps", t.gradient_accumulation_steps);
  const bool complete = t.micro_batch_size != 0 && t.gradient_accumulation_steps != 0;
  return {{"training.global_batch_size", "training.micro_batch_size", "training.gradient_accumulation_steps",
           "parallelism.data_parallel_size"},
          fmt::format("training.global_batch_size {} is not {}{}data_parallel_size {} = {}",
                      t.global_batch_size, complete ? "" : "a multiple of ", factors, replicas, product)};
}

// The first of the keys that somebody gave, for the place of a message.
Place place_of(const Finding& finding, const Config& config) {
  for (const std::string& key : finding.keys) {
    if (const auto origin = config.origins.find(key); origin != config.origins.end()) return origin->second;
  }
  const auto file = config.origins.find("");
  return file != config.origins.end() ? file->second : Place{"configuration", 0, 0};
}

void check_divided_states(const Config& config, Findings& found) {
  if (config.parallelism.zero_stage == 0 || !optimizer_entry(config.optimizer.name).of_whole_matrices) return;
  found.push_back(
      {{"parallelism.zero_stage", "optimizer.name"},
       fmt::format("parallelism.zero_stage {} divides matrices over data ranks, and optimizer.name {} needs "
                   "whole ones",
                   config.parallelism.zero_stage, config.optimizer.name)});
}

// Data ranks gather parameters together: where each has samples of a length of its own, plans must not differ by it.
void check_gathered_parameters(const Config& config, Findings& found) {
  const CheckpointingSettings& c = config.activation_checkpointing;
  const bool plans = c.mode == CheckpointingMode::kDtr ||
                     (c.mode == CheckpointingMode::kAuto && c.budget_policy == BudgetPolicy::kDynamic);
  if (config.parallelism.zero_stage < 3 || !plans || !lengths_change(config) ||
      config.data.padding == Padding::kMax)
    return;
  found.push_back(
      {{"parallelism.zero_stage", "activation_checkpointing.mode", "activation_checkpointing.budget_policy",
        "data.padding"},
       "parallelism.zero_stage 3 gathers parameters on all data ranks at once, and their plans differ where "
       "each length has its own: write activation_checkpointing.budget_policy static, with mode auto, or "
       "data.padding max"});
}

// Libraries count rows in 32 bits.
void check_tokens(const Config& config, Findings& found) {
  constexpr int64_t kMostRows = 2147483647;
  const int64_t samples = config.training.micro_batch_size, length = config.data.sequence_length;
  if (length == 0 || samples <= kMostRows / length) return;
  found.push_back(
      {{"training.micro_batch_size", "data.sequence_length", path_of(config.model.facts().longest)},
       fmt::format("a micro-batch of {} x {} tokens is out of range; must be at most {} tokens", samples,
                   length, kMostRows)});
}

// Each length is planned.
void check_lengths(const Config& config, Findings& found) {
  const int64_t lengths = number_of_lengths(config), most = most_lengths(config),
                longest = config.data.sequence_length, multiple = (longest + most - 1) / most;
  if (lengths <= most) return;
  const ModelFacts model = config.model.facts();
  found.push_back(
      {{"data.pad_to_multiple_of", "data.padding", "data.sequence_length", path_of(model.longest)},
       fmt::format(
           "data.pad_to_multiple_of {} makes {} lengths up to data.sequence_length {}; each is planned, and "
           "with {} {} there can be at most {}: {}",
           config.data.pad_to_multiple_of, lengths, longest, path_of(model.layers), model.layers.value, most,
           multiple <= kLargestMultiple ? fmt::format("raise data.pad_to_multiple_of to {}", multiple)
                                        : "give data.padding max")});
}

// Says of each batch size that is not given yet what it will follow from.
void explain_batch(Config& config) {
  const Config::Training& t = config.training;
  const auto explain = [&](const char* key, int64_t given, const char* from) {
    if (given == 0) config.derived[key] = from;
  };
  const bool whole = t.global_batch_size != 0;
  explain("training.micro_batch_size", t.micro_batch_size,
          whole ? "training.global_batch_size / (training.gradient_accumulation_steps x "
                  "parallelism.data_parallel_size)"
                : "training.global_batch_size, which is not given");
  explain("training.gradient_accumulation_steps", t.gradient_accumulation_steps,
          !whole                    ? "training.global_batch_size, which is not given"
          : t.micro_batch_size == 0 ? "training.micro_batch_size, which is not given"
                                    : "training.global_batch_size / (training.micro_batch_size x "
                                      "parallelism.data_parallel_size)");
  explain(
      "training.global_batch_size", t.global_batch_size,
      "training.micro_batch_size x training.gradient_accumulation_steps x parallelism.data_parallel_size");
}

}  // namespace

std::vector<Finding> validate(const Config& config) {
  Findings found;
  check_model(config, found);
  check_parallelism(config, found);
  check_division(config, found);
  check_divided_states(config, found);
  check_offloaded_states(config, found);
  check_gathered_parameters(config, found);
  check_device(config, found);
  check_schedule(config, found);
  check_numbers(config, found);
  check_groups(config, found);
  check_lora(config, found);
  check_checkpointing(config, found);
  check_data(config, found);
  check_epochs(config, found);
  check_occasions(config, found);
  check_steps(config, found);
  check_reports(config, found);
  return found;
}

std::vector<Finding> check_build(const Config& config, const BuildFeatures& features) {
  if (config.device.backend != BackendKind::kCuda || features.cuda) return {};
  return {
      {.keys = {"device.backend"},
       .message =
           "device.backend cuda: this build has no CUDA backend: `recollect estimate` and `explain` predict "
           "such a run here; to run it, configure with -DRECOLLECT_CUDA=ON (CMake preset cuda), which needs "
           "nvcc"}};
}

std::vector<Finding> resolve_batch(Config& config) {
  Config::Training& t = config.training;
  const int64_t replicas = config.parallelism.data_parallel_size;
  int64_t micro = t.micro_batch_size;
  int64_t steps = t.gradient_accumulation_steps;
  if (t.global_batch_size == 0) {
    if (micro == 0) micro = 1;
    if (steps == 0) steps = 1;
  } else if (micro == 0) {
    if (steps == 0) steps = 1;
    micro = t.global_batch_size / (steps * replicas);
  } else if (steps == 0) {
    steps = t.global_batch_size / (micro * replicas);
  }
  const int64_t global = micro * steps * replicas;
  if (t.global_batch_size != 0 && t.global_batch_size != global) return {batch_disagreement(config)};
  explain_batch(config);
  t.micro_batch_size = micro;
  t.gradient_accumulation_steps = steps;
  t.global_batch_size = global;
  return {};
}

std::string origin_of_entry(const std::string& key, std::size_t index) {
  return fmt::format("{}.{}", key, index);
}

void report(const std::vector<Finding>& findings, const Config& config, const std::set<std::string>& broken,
            Problems& problems) {
  std::set<std::string_view> said;  // two keys of which either may give way have the same message
  for (const Finding& finding : findings) {
    const bool unsure = std::any_of(finding.keys.begin(), finding.keys.end(), [&](const std::string& key) {
      return broken.contains(key) || (key.starts_with("model.") && broken.contains("model"));
    });
    if (!unsure && said.insert(finding.message).second)
      problems.add(place_of(finding, config), finding.message);
  }
}

void resolve_world(Config& config, int world_size) {
  Config resolved = config;
  Config::Parallelism& p = resolved.parallelism;
  const int64_t world = world_size;
  const std::vector<std::string> keys = {"parallelism.tensor_parallel_size", "parallelism.data_parallel_size",
                                         "parallelism.communicator", "parallelism.ranks_per_process"};
  std::vector<Finding> found;
  if (p.data_parallel_size == 0 && world % p.tensor_parallel_size == 0) {
    p.data_parallel_size = world / p.tensor_parallel_size;
    resolved.derived["parallelism.data_parallel_size"] =
        fmt::format("{} {} / parallelism.tensor_parallel_size", world, world == 1 ? "rank" : "ranks");
  }
  const int64_t ranks = p.tensor_parallel_size * p.data_parallel_size;
  if (p.data_parallel_size == 0) {
    found.push_back(
        {keys, fmt::format("a world of {} {} cannot be divided into groups of tensor_parallel_size {}", world,
                           world == 1 ? "rank" : "ranks", p.tensor_parallel_size)});
  } else if (ranks != world) {
    found.push_back(
        {keys, fmt::format("tensor_parallel_size {} x data_parallel_size {} = {} ranks, but the world has {}",
                           p.tensor_parallel_size, p.data_parallel_size, ranks, world)});
  }
  if (world % p.ranks_per_process != 0) {
    found.push_back({keys, fmt::format("ranks_per_process {} does not divide a world of {}",
                                       p.ranks_per_process, world)});
  }
  if (p.communicator == CommunicatorKind::kSelf && world > 1) {
    found.push_back({keys, fmt::format("communicator self is a world of one rank, this one has {}", world)});
  }
  const std::string hint =
      found.empty() ? ""
                    : "the number of ranks is tensor_parallel_size x data_parallel_size: start that many";
  if (found.empty()) {
    found = resolve_batch(resolved);
    check_tokens(resolved, found);
    check_lengths(resolved, found);
    check_division(resolved, found);
    Config otherwise = resolved;  // with the number of replicas, more keys may turn out to be without effect
    otherwise.parallelism = {};
    otherwise.training.fp8_weight_cache = Config::Training().fp8_weight_cache;
    for (Finding& finding : find_inert(resolved, otherwise)) found.push_back(std::move(finding));
  }
  Problems problems;
  report(found, config, {}, problems);
  problems.raise(hint);
  config = std::move(resolved);
}

}  // namespace recollect
