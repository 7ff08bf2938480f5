#include "launch/config/inert.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

#include "launch/config/check_offload.h"
#include "launch/config/check_reports.h"
#include "launch/config/check_schedule.h"
#include "launch/config/data_source.h"
#include "launch/config/inert_rules.h"
#include "launch/config/keys.h"
#include "launch/config/lora_keys.h"
#include "launch/config/masking.h"

namespace recollect {
namespace {

using Rule = InertRule;

bool evaluates(const Config& c) { return c.evaluation.runs(); }
bool not_random(const Config& c) { return !reads(c, DataFormat::kRandom); }
bool draws_masks(const Config& c) {
  return c.task == Task::kMaskedLm && (c.data.mask_token >= 0 || !masking_tokenizer(c).empty());
}
bool alone(const Config& c) {
  return c.parallelism.data_parallel_size == 1 && c.parallelism.tensor_parallel_size == 1;
}
bool only_evaluates(const Config& c) { return c.training.max_steps == 0; }
bool learns(const Config& c) {
  return c.optimizer.learning_rate > 0 || c.optimizer.relative_step != RelativeStep::kOff;
}

std::vector<std::string> keys_that_concern(const ModelFamily& family, ModelKey::Concerns what) {
  std::vector<std::string> keys;
  for (const ModelKey& key : family.keys)
    if (key.concerns == what) keys.push_back("model." + key.name);
  return keys;
}

std::vector<std::string> keys_of_section(std::string_view section) {
  std::vector<std::string> keys;
  for (const ConfigKey& key : KeyTable::of(model_families().front()).keys())
    if (key.section == section) keys.push_back(key.path());
  return keys;
}

// What the families and the update rules say of their own keys, and what is true of a whole section.
std::vector<Rule> declared_rules() {
  std::vector<Rule> table;
  table.push_back({keys_of_section("activation_checkpointing"),
                   {"training.max_steps"},
                   only_evaluates,
                   "this run never goes backward"});
  table.push_back(
      {keys_of_section("scheduler"), {"training.max_steps"}, only_evaluates, "nothing is trained"});
  table.push_back(
      {keys_of_section("optimizer"), {"training.max_steps"}, only_evaluates, "nothing is trained"});
  for (const ModelFamily& family : model_families()) {
    const auto is_it = [type = family.type](const Config& c) { return c.model.type == type; };
    table.push_back({keys_that_concern(family, ModelKey::Concerns::kFreshWeights),
                     {"model.pretrained"},
                     [=](const Config& c) { return is_it(c) && !c.model.pretrained.empty(); },
                     "the weights are loaded, not drawn"});
    table.push_back({keys_that_concern(family, ModelKey::Concerns::kTraining),
                     {"training.max_steps"},
                     [=](const Config& c) { return is_it(c) && only_evaluates(c); },
                     "nothing is trained"});
  }
  for (const ModelFamily& family : model_families())
    for (const UnusedModelKeys& unused : family.unused) {
      std::vector<std::string> keys;
      for (const std::string& key : unused.keys) keys.push_back("model." + key);
      table.push_back({keys,
                       {"model." + unused.because},
                       [type = family.type, unused](const Config& c) {
                         return c.model.type == type && unused.unused(c.model.values);
                       },
                       unused.why});
    }
  for (const OptimizerEntry& rule : optimizer_rules())
    for (const auto& [setting, why] : rule.unused)
      table.push_back({{fmt::format("optimizer.{}", setting)},
                       {"optimizer.name"},
                       [name = rule.name](const Config& c) { return c.optimizer.name == name; },
                       std::string(why),
                       true});
  return table;
}

std::vector<Rule> fixed_rules() {
  return {
      {{"parallelism.gradient_bucket_mb"},
       {"parallelism.data_parallel_size", "parallelism.sequence_parallel"},
       [](const Config& c) {
         const bool shared = c.lora.rank > 0 || c.model.facts().shares_head_weights;
         const bool parts = shared && c.parallelism.tensor_parallel_size > 1;  // of a sum
         return c.parallelism.data_parallel_size == 1 && !c.parallelism.sequence_parallel && !parts;
       },
       "gradients are reduced over neither data nor sequence parallel ranks"},
      {{"parallelism.zero_stage"},
       {"parallelism.data_parallel_size"},
       [](const Config& c) { return c.parallelism.data_parallel_size == 1; },
       "there are no data parallel ranks to divide optimizer states over"},
      {{"parallelism.sequence_parallel"},
       {"parallelism.tensor_parallel_size"},
       [](const Config& c) { return c.parallelism.tensor_parallel_size == 1; },
       "tokens are divided over tensor ranks"},
      {{"parallelism.collective_pieces"},
       {"parallelism.tensor_parallel_size"},
       [](const Config& c) { return c.parallelism.tensor_parallel_size == 1; },
       "there are no tensor ranks to talk to"},
      {{"parallelism.collective_pieces"},
       {"training.fp8"},
       [](const Config& c) { return c.training.fp8 && c.parallelism.collective_pieces > 1; },
       "FP8 matrix products are not cut"},
      {{"parallelism.collective_pieces"},
       {"parallelism.overlap_halves"},
       [](const Config& c) { return c.parallelism.overlap_halves; },
       "collectives overlap with the other half of the micro-batch"},
      {{"parallelism.overlap_halves"},
       {"parallelism.tensor_parallel_size"},
       [](const Config& c) { return c.parallelism.tensor_parallel_size == 1; },
       "there are no tensor ranks to talk to"},
      {{"training.fp8_weight_cache"},
       {"training.fp8"},
       [](const Config& c) { return !c.training.fp8; },
       "no number is of FP8"},
      {{"training.fp8_weight_cache"},
       {"training.gradient_accumulation_steps"},
       [](const Config& c) {
         return c.training.fp8 && c.training.gradient_accumulation_steps == 1 && c.lora.rank == 0;
       },
       "a step has one micro-batch, and nothing to keep for others"},
      {{"training.fp8_weight_cache"},
       {"parallelism.zero_stage"},
       [](const Config& c) { return c.training.fp8 && c.parallelism.zero_stage == 3; },
       "weights are gathered for each use and dropped"},
      {{"evaluation.n_best", "evaluation.max_answer_length", "evaluation.null_threshold"},
       {"task"},
       [](const Config& c) { return evaluates(c) && c.task != Task::kQuestionAnswering; },
       "no answer is looked for"},
      {{"evaluation.n_best", "evaluation.max_answer_length", "evaluation.null_threshold"},
       {"evaluation.format"},
       [](const Config& c) {
         return evaluates(c) && c.task == Task::kQuestionAnswering &&
                c.evaluation.format != DataFormat::kSquad;
       },
       "it has no texts to find answers in"},
      {{"model.num_labels"},
       {"task"},
       [](const Config& c) {
         return c.task != Task::kSequenceClassification && c.task != Task::kTokenClassification;
       },
       "the head has no labels"},
      {{"model.problem_type"},
       {"task"},
       [](const Config& c) { return c.task != Task::kSequenceClassification; },
       "only labels of sequences are of several kinds"},
      {{"model.classifier_dropout"},
       {"task"},
       [](const Config& c) { return c.task == Task::kMaskedLm || c.task == Task::kQuestionAnswering; },
       "the head has no dropout"},
      {{"parallelism.timeout_seconds"},
       {"parallelism.data_parallel_size", "parallelism.tensor_parallel_size"},
       alone,
       "a rank alone waits for nobody"},
      {{"parallelism.communicator"},
       {"parallelism.data_parallel_size", "parallelism.tensor_parallel_size"},
       [](const Config& c) { return alone(c) && c.parallelism.communicator != CommunicatorKind::kSelf; },
       "a rank alone talks to nobody"},
      {{"device.isa"},
       {"device.backend"},
       [](const Config& c) { return c.device.backend != BackendKind::kCpu; },
       "only the cpu backend has kernels for several"},
      {{"device.threads"},
       {"device.backend"},
       [](const Config& c) { return c.device.backend == BackendKind::kReference; },
       "its kernels have one thread"},
      {{"optimizer.decay_all"},
       {"optimizer.weight_decay"},
       [](const Config& c) { return c.optimizer.weight_decay == 0; },
       "nothing is decayed"},
      {{"optimizer.beta1", "optimizer.beta2", "optimizer.epsilon", "optimizer.momentum",
        "optimizer.weight_decay", "optimizer.decay_all", "optimizer.max_grad_norm", "optimizer.layer_decay",
        "optimizer.groups", "optimizer.beta2_decay", "optimizer.clip_threshold", "optimizer.scale_epsilon",
        "optimizer.scale_parameter", "optimizer.nesterov", "optimizer.ns_steps", "optimizer.adjust_lr_fn"},
       {"optimizer.learning_rate"},
       [](const Config& c) { return !learns(c); },
       "no parameter changes"},
      {{"optimizer.scale_epsilon"},
       {"optimizer.scale_parameter"},
       [](const Config& c) { return c.optimizer.name == "adafactor_hf" && !c.optimizer.scale_parameter; },
       "the rate does not go by a parameter's size"},
      {{"activation_checkpointing.budget_policy"},
       {"data.padding"},
       [](const Config& c) {
         const CheckpointingSettings& a = c.activation_checkpointing;
         return a.mode == CheckpointingMode::kAuto && a.budget_policy == BudgetPolicy::kStatic &&
                (c.data.padding == Padding::kMax || !lengths_change(c));
       },
       "there is one length, and one plan for it"},
      {{"activation_checkpointing.replan_after"},
       {"training.max_steps"},
       [](const Config& c) {
         return c.training.max_steps > 0 && c.activation_checkpointing.replan_after >= c.training.max_steps;
       },
       "no step comes after it"},
      {{"activation_checkpointing.replan_after"},
       {"device.backend"},
       [](const Config& c) {
         return c.activation_checkpointing.replan_after > 0 && c.device.backend == BackendKind::kCuda;
       },
       "ops are timed on CPUs only"},
      {{"activation_checkpointing.disk_checkpointing.limit"},
       {"activation_checkpointing.disk_checkpointing.path"},
       [](const Config& c) { return c.activation_checkpointing.disk_checkpointing.path.empty(); },
       "no activation is saved on the disk"},
      {{"data.path", "data.weights"},
       {"data.format"},
       [](const Config& c) { return c.data.format == DataFormat::kRandom; },
       "no file is read"},
      {{"data.low", "data.high"}, {"data.format"}, not_random, "ids come from files"},
      {{"data.dtype"},
       {"data.format"},
       [](const Config& c) { return !reads(c, DataFormat::kTokens); },
       "only token files are read as integers of a type"},
      {{"data.seed"},
       {"data.shuffle", "data.format"},
       [](const Config& c) { return !c.data.shuffle && not_random(c) && !draws_masks(c); },
       "samples come in the order of the files"},
      {{"evaluation.path", "evaluation.format", "evaluation.batches", "evaluation.metrics",
        "evaluation.n_best", "evaluation.max_answer_length", "evaluation.null_threshold",
        "evaluation.metric_for_best_model", "evaluation.early_stopping_patience",
        "evaluation.early_stopping_threshold", "checkpoint.save_best_model"},
       {"evaluation.every_steps"},
       [](const Config& c) { return !evaluates(c); },
       "nothing is evaluated"},
      {{"evaluation.metric_for_best_model"},
       {"checkpoint.save_best_model", "evaluation.early_stopping_patience"},
       [](const Config& c) {
         return evaluates(c) && !c.checkpoint.save_best_model && c.evaluation.early_stopping_patience == 0;
       },
       "nothing depends on which evaluation is the best"},
      {{"evaluation.early_stopping_threshold"},
       {"evaluation.early_stopping_patience"},
       [](const Config& c) { return evaluates(c) && c.evaluation.early_stopping_patience == 0; },
       "no evaluation ends the run"},
      {{"evaluation.early_stopping_patience", "evaluation.early_stopping_threshold"},
       {"training.max_steps", "evaluation.every_steps"},
       [](const Config& c) {
         const int64_t steps = c.training.max_steps, every = c.evaluation.every_steps;  // 0: by epochs
         return steps > 0 && every > 0 && c.evaluation.early_stopping_patience > 0 &&
                c.evaluation.early_stopping_patience >= (steps - 1) / every;
       },
       "no step would come after so many evaluations"},
      {{"evaluation.path"},
       {"evaluation.format"},
       [](const Config& c) { return evaluates(c) && c.evaluation.format == DataFormat::kRandom; },
       "no file is read"},
      {{"training.initial_loss_scale", "training.loss_scale_window"},
       {"training.loss_scale", "training.precision"},
       [](const Config& c) { return !c.training.dynamic_loss_scale(); },
       "there is no dynamic loss scale"},
      {{"training.loss_scale_window"},
       {"training.max_steps"},
       [](const Config& c) {
         const int64_t steps = c.training.max_steps;
         return c.training.dynamic_loss_scale() && steps > 0 && c.training.loss_scale_window > steps;
       },
       "so many updates are never made"},
      {{"training.master_dtype"},
       {"training.precision"},
       [](const Config& c) { return c.training.precision != Precision::kBF16; },
       "only parameters of bf16 can be such masters"},
      {{"training.master_dtype"},
       {"optimizer.name"},
       [](const Config& c) { return optimizer_entry(c.optimizer.name).of_whole_matrices; },
       "it updates copies in fp32"},
      {{"training.master_dtype"},
       {"optimizer.learning_rate"},
       [](const Config& c) { return !learns(c); },
       "no parameter changes"},
      {{"training.loss_scale"},
       {"training.precision"},
       [](const Config& c) { return c.training.loss_scale == 1 && c.training.precision != Precision::kFP16; },
       "a factor of 1 changes nothing"},
      {{"device.cuda_graph", "device.pinned"},
       {"device.backend"},
       [](const Config& c) { return c.device.backend != BackendKind::kCuda; },
       "only CUDA devices have that"},
      {{"device.tf32"},
       {"device.backend", "training.precision"},
       [](const Config& c) {
         return c.device.backend != BackendKind::kCuda || c.training.precision != Precision::kFP32;
       },
       "no matrix product is in fp32 on a CUDA device"},
      {{"device.gelu_in_products"},
       {"device.backend"},
       [](const Config& c) { return c.device.backend != BackendKind::kCuda; },
       "only products on CUDA devices end with it"},
      {{"device.gelu_in_products"},
       {"training.precision"},
       [](const Config& c) {
         const Precision precision = c.training.precision;
         return c.device.backend == BackendKind::kCuda &&
                (precision == Precision::kFP32 || precision == Precision::kFP64);
       },
       "products of 16-bit numbers alone end with it"},
      {{"device.gelu_in_products"},
       {"training.fp8"},
       [](const Config& c) { return c.training.fp8; },
       "FP8 matrix products do not end with it"},
      {{"device.gelu_in_products"},
       {"model.type"},
       [](const Config& c) { return !c.model.facts().tanh_gelu; },
       "no MLP has GELU in its tanh form"},
      {{"snapshot.keep", "snapshot.path", "snapshot.asynchronous"},
       {"snapshot.every_steps", "snapshot.every_minutes"},
       [](const Config& c) { return !c.saves_snapshots(); },
       "no snapshot is saved"},
      {{"resume"},
       {"snapshot.every_steps", "snapshot.every_minutes"},
       [](const Config& c) { return !c.saves_snapshots() && (c.resume == "never" || c.resume == "auto"); },
       "no snapshot is saved that it could be about"},
      {{"snapshot.every_steps", "snapshot.every_minutes", "resume"},
       {"training.max_steps"},
       only_evaluates,
       "nothing is trained"},
      {{"numerics.max_non_finite"},
       {"numerics.on_non_finite"},
       [](const Config& c) { return c.numerics.on_non_finite == OnNonFinite::kStop; },
       "the first one ends the run"},
      {{"numerics.on_non_finite"},
       {"snapshot.every_steps", "snapshot.every_minutes"},
       [](const Config& c) {
         return c.numerics.on_non_finite == OnNonFinite::kRollback && !c.saves_snapshots();
       },
       "no snapshot is saved that a run could go back to"},
      {{"numerics.verify_every"},
       {"training.max_steps"},
       [](const Config& c) {
         return c.training.max_steps > 0 && c.numerics.verify_every > c.training.max_steps;
       },
       "the run has fewer steps"},
      {{"numerics.verify_every"},
       {"device.backend"},
       [](const Config& c) { return c.numerics.verify_every > 0 && c.device.backend == BackendKind::kCuda; },
       "values are compared on CPUs only"},
      {{"numerics.on_non_finite", "numerics.max_non_finite", "numerics.spike_z_score",
        "numerics.verify_every"},
       {"training.max_steps"},
       only_evaluates,
       "nothing is trained"},
      {{"checkpoint.max_shard_size"},
       {"checkpoint.save_model", "checkpoint.save_best_model"},
       [](const Config& c) { return !c.checkpoint.save_model && !c.checkpoint.save_best_model; },
       "no model is saved"},
      {{"checkpoint.max_shard_size"},
       {"lora.rank", "lora.merge"},
       [](const Config& c) { return c.lora.rank > 0 && !c.lora.merge; },
       "adapters are one file"},
      {{"checkpoint.save_best_model"}, {"training.max_steps"}, only_evaluates, "the model stays as it is"},
      {{"evaluation.metric_for_best_model", "evaluation.early_stopping_patience",
        "evaluation.early_stopping_threshold"},
       {"training.max_steps"},
       only_evaluates,
       "there is one evaluation"},
      {{"training.loss_scale", "training.initial_loss_scale", "training.loss_scale_window",
        "training.master_dtype", "training.gradient_accumulation_steps", "training.global_batch_size",
        "training.fp8_weight_cache", "parallelism.gradient_bucket_mb", "parallelism.zero_stage",
        "parallelism.collective_pieces", "parallelism.overlap_halves", "data.path", "data.weights",
        "data.shuffle", "data.group_by_length", "data.prefetch", "logging.steps"},
       {"training.max_steps"},
       only_evaluates,
       "nothing is trained"},
      {{"data.seed"},
       {"training.max_steps", "evaluation.format"},
       [](const Config& c) { return only_evaluates(c) && c.evaluation.format != DataFormat::kRandom; },
       "nothing is drawn"},
      {{"logging.tensorboard_dir"},
       {"logging.report_to"},
       [](const Config& c) {
         const std::vector<std::string>& forms = c.logging.report_to;
         return std::find(forms.begin(), forms.end(), "tensorboard") == forms.end();
       },
       "no event files are written"},
      {{"logging.mlflow_dir"},
       {"logging.report_to"},
       [](const Config& c) {
         const std::vector<std::string>& forms = c.logging.report_to;
         return std::find(forms.begin(), forms.end(), "mlflow") == forms.end();
       },
       "nothing is written for MLflow"},
      {{"memory_report.formats"},
       {"memory_report.at"},
       [](const Config& c) { return c.memory_report.at.empty(); },
       "memory is never reported"},
      {{"memory_report.at"},
       {"memory_report.formats"},
       [](const Config& c) { return c.memory_report.formats.empty() && !c.logging.verbose; },
       "there is nothing to report in"},
      {{"memory_report.formats"},
       {"profiling.step"},
       [](const Config& c) { return c.profiling.step == 0 && reports_in(c, ReportFormat::kTrace); },
       "a trace is of a step whose ops are timed"},
      {{"profiling.step"},
       {"memory_report.at", "memory_report.formats"},
       [](const Config& c) { return c.profiling.step > 0 && !shows_profiled_step(c); },
       "no report shows that step"},
      {{"debug.dump_step"},
       {"debug.dump_gradients"},
       [](const Config& c) { return c.debug.dump_gradients.empty(); },
       "no gradients are written"},
  };
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> table = [] {
    std::vector<Rule> all = declared_rules();
    for (std::vector<Rule>& more : std::array{inert_schedule_rules(), inert_offload_rules(), fixed_rules(),
                                              inert_data_rules(), inert_lora_rules()})
      std::move(more.begin(), more.end(), std::back_inserter(all));
    return all;
  }();
  return table;
}

std::string state_of(const KeyTable& table, const std::string& path, const Config& config) {
  const std::size_t dot = path.rfind('.');
  const bool top = dot == std::string::npos;
  const ConfigKey* key = table.find(top ? "" : path.substr(0, dot), top ? path : path.substr(dot + 1));
  return key->print(config);
}

bool is_of_length(const Rule& rule) {
  return std::any_of(rule.because.begin(), rule.because.end(),
                     [](const std::string& key) { return key == "training.max_steps"; });
}

// For every key that is without effect because of the run's length, or of anything else: its name and why.
// `spoken` as in find_inert.
template <typename Found>
void for_each_inert(const Config& config, const Config& otherwise, const std::set<std::string>& spoken,
                    bool of_length, const Found& found) {
  const KeyTable& table = KeyTable::of(config.model.family());
  for (const Rule& rule : rules()) {
    if (is_of_length(rule) != of_length || !rule.inert(config)) continue;
    std::vector<std::string> causes;
    for (const std::string& cause : rule.because)
      causes.push_back(fmt::format("{} {}", cause, state_of(table, cause, config)));
    for (const std::string& key : rule.keys) {
      const bool refused = rule.of_any_value && spoken.contains(key);
      if (!config.origins.contains(key) ||
          (!refused && state_of(table, key, config) == state_of(table, key, otherwise)))
        continue;
      found(rule, key, fmt::format("no effect with {}: {}", fmt::join(causes, " and "), rule.reason));
    }
  }
}

}  // namespace

std::vector<Finding> find_inert(const Config& config, const Config& otherwise,
                                const std::set<std::string>& spoken) {
  std::vector<Finding> findings;
  for_each_inert(config, otherwise, spoken, false,
                 [&](const Rule& rule, const std::string& key, const std::string& why) {
                   Finding finding{{key}, fmt::format("{} has {}", key, why), true};
                   if (key == "evaluation.path" && !evaluates(config) &&
                       !config.origins.contains("evaluation.every_steps"))
                     finding.message =
                         "evaluation.path has no effect: evaluation.every_steps is not given; write "
                         "evaluation.every_steps=100";
                   finding.keys.insert(finding.keys.end(), rule.because.begin(), rule.because.end());
                   findings.push_back(std::move(finding));
                 });
  return findings;
}

std::map<std::string, std::string> find_unreached(const Config& config, const Config& otherwise) {
  std::map<std::string, std::string> unreached;
  for_each_inert(
      config, otherwise, {}, true,
      [&](const Rule&, const std::string& key, const std::string& why) { unreached.emplace(key, why); });
  return unreached;
}

}  // namespace recollect
