// DeepSpeed's JSON as its engine carries it out.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "launch/config/import_rules.h"

namespace recollect {

namespace {

constexpr std::string_view kNotHere =
    "not supported: adam, adamw, sgd, lion and muon of DeepSpeed's and torch's optimizers are";

constexpr ForeignOptimizer kDeepSpeedOptimizers[] = {
    {"adamw", "adamw", true, true},
    {"adam", "adamw", true, true},  // unless adam_w_mode says otherwise
    {"sgd", "sgd"},
    {"lion", "lion", true},
    {"muon", "muon", true, true, "optimizer.adjust_lr_fn=original",
     "which parameters are Muon's the model's code says there; here all matrices but embeddings and heads"}};
constexpr ForeignOptimizer kTorchAdam{"adam", "adam", true, true};
constexpr ForeignOptimizer kOtherOptimizer{"", "", false, false, "", kNotHere};

// Which are off unless they say that they are on.
constexpr std::array kOffByDefault{"fp16",         "bf16",           "bfloat16",       "flops_profiler",
                                   "tensorboard",  "wandb",          "csv_monitor",    "comet",
                                   "comms_logger", "torch_autocast", "data_efficiency"};

std::string of_optimizer(std::string_view name) { return fmt::format("optimizer.params.{}", name); }
std::string of_scheduler(std::string_view name) { return fmt::format("scheduler.params.{}", name); }

void arrange_rule(ForeignFile& file) {
  if (!file.has("optimizer.type")) return;
  const std::string name = lower_case(file.value("optimizer.type"));
  const auto* const end = std::end(kDeepSpeedOptimizers);
  const auto* const found = std::find_if(std::begin(kDeepSpeedOptimizers), end,
                                         [&](const ForeignOptimizer& o) { return o.name == name; });
  const bool coupled = name == "adam" && file.value(of_optimizer("adam_w_mode")) == "false",
             is_torch = file.is_true(of_optimizer("torch_adam")), is_muon = name == "muon";
  const ForeignOptimizer& rule = found == end ? kOtherOptimizer : coupled ? kTorchAdam : *found;
  const std::string beta1 = of_optimizer("betas.0"), beta2 = of_optimizer("betas.1"),
                    eps = of_optimizer("eps");
  write_optimizer(file, rule, "optimizer.type",
                  {beta1, "0.9", beta2, is_muon ? "0.95" : "0.999", eps, is_muon ? "1e-10" : "1e-08"});
  file.settle(of_optimizer("adam_w_mode"));
  if (rule.ours.empty()) {
    const std::string rate = file.value(of_optimizer("lr")), decay = file.value(of_optimizer("weight_decay"));
    if (!rate.empty()) file.write(of_optimizer("lr"), "optimizer.learning_rate", rate);
    if (!decay.empty()) file.write(of_optimizer("weight_decay"), "optimizer.weight_decay", decay);
    return file.settle_inside("optimizer.params");
  }
  if (name != "sgd" && !is_muon)
    file.leave_out(of_optimizer("momentum"), fmt::format("{} has none there, either", name));
  if (is_torch && !coupled && !file.has(of_optimizer("weight_decay")))
    file.write_default("optimizer.weight_decay", "0.01");
  file.settle(of_optimizer("torch_adam"));
  if (file.number(of_optimizer("weight_decay"), 0) > 0)
    file.note(file.find(of_optimizer("weight_decay"))->shown(),
              "there biases and norms are decayed too, unless the model's code groups its parameters: "
              "optimizer.decay_all: true does that");
  for (const std::string_view off : {"amsgrad", "nesterov", "maximize"})
    if (file.is_true(of_optimizer(off))) file.leave_out(of_optimizer(off), "not supported");
  for (const std::string_view on : {"bias_correction"})
    if (file.value(of_optimizer(on)) == "false")
      file.leave_out(of_optimizer(on), "not supported: moments are corrected");
  for (const std::string_view any : {"amsgrad", "nesterov", "maximize", "bias_correction", "fused", "foreach",
                                     "set_grad_none", "fp32_optimizer_states", "ns_method"})
    file.settle(of_optimizer(any));
}

struct WarmUp {
  std::string_view name, ours;  // in lower case
};
constexpr WarmUp kWarmUps[] = {
    {"warmuplr", "constant"}, {"warmupdecaylr", "linear"}, {"warmupcosinelr", "cosine"}};

// The rate that the schedule rises to, where it says so itself.
void write_peak(ForeignFile& file, std::string_view schedule) {
  const std::string peak = of_scheduler("warmup_max_lr"), rate = of_optimizer("lr");
  const bool has_own = schedule != "warmupcosinelr";
  if (has_own && file.has(peak))
    file.write(peak, "optimizer.learning_rate", file.value(peak));
  else if (has_own && schedule == "warmupdecaylr")
    file.write_default("optimizer.learning_rate", "0.001");
  else
    return;
  if (!is_same_value(file.value(rate), file.value(peak, "0.001")))
    file.leave_out(rate, "the scheduler's warmup_max_lr goes before it there, too");
  file.settle(rate);
}

// Where the rate begins and ends.
void write_ends(ForeignFile& file, std::string_view schedule) {
  const std::string first = of_scheduler("warmup_min_lr"), first_part = of_scheduler("warmup_min_ratio"),
                    last_part = of_scheduler("cos_min_ratio");
  constexpr const char* kFromZero = "the warm-up begins at 0 here";
  for (const std::string& one : {first, first_part})
    if (file.number(one, 0) > 0) {
      const std::string value = file.value(one);
      file.leave_out(one, kFromZero);
      if (schedule == "warmupdecaylr") file.write(one, "scheduler.min_lr", value);
    }
  file.settle(first);
  file.settle(first_part);
  if (schedule != "warmupcosinelr") return;
  const std::string rate = file.value(of_optimizer("lr"), "0.001");
  const double part = file.number(last_part, 1e-4);
  if (!number_of(rate))
    return file.leave_out(last_part, "it is a part of the learning rate, which this file does not say");
  const std::string least = part == 0 ? "0" : decimal_text(part * *number_of(rate));
  if (file.has(last_part))
    file.write(last_part, "scheduler.min_lr", least);
  else
    file.write_default("scheduler.min_lr", least);
}

void arrange_schedule_of_deepspeed(ForeignFile& file) {
  if (!file.has("scheduler.type")) return;
  const std::string name = lower_case(file.value("scheduler.type")),
                    shown = file.find("scheduler.type")->shown();
  const auto* const end = std::end(kWarmUps);
  const auto* const found =
      std::find_if(std::begin(kWarmUps), end, [&](const WarmUp& w) { return w.name == name; });
  if (found == end) {
    file.leave_out("scheduler.type",
                   "not supported: WarmupLR, WarmupDecayLR and WarmupCosineLR of DeepSpeed's are");
    return file.settle_inside("scheduler.params");
  }
  const bool is_linear = file.value(of_scheduler("warmup_type")) == "linear",
             is_cosine = name == "warmupcosinelr";
  file.write("scheduler.type", "scheduler.name", std::string(found->ours));
  if (!is_linear)
    file.note(
        shown,
        "its rate rises with the logarithm of the step unless warmup_type is linear; here it rises evenly");
  file.note(shown, is_cosine ? "each step of its warm-up has the rate of the one before it here"
                             : "each of its steps has the rate of the one before it here");
  const std::string steps = of_scheduler("warmup_num_steps");
  if (!file.has(steps))
    file.write_default("scheduler.warmup_steps", "1000");
  else if (file.number(steps, 2) < 2)
    file.write(steps, "scheduler.warmup_steps", "2");
  write_peak(file, name);
  write_ends(file, name);
  file.settle(of_scheduler("warmup_type"));
}

void arrange_zero(ForeignFile& file) {
  const ForeignLeaf* stage = file.find("zero_optimization.stage");
  if (!stage || stage->value == "0") return file.settle_inside("zero_optimization");
  if (stage->value) file.note(stage->shown(), kNeedsReplicas);
  bool more = false;
  for (const ForeignLeaf& leaf : file.inside("zero_optimization")) {
    const bool is_offload = leaf.path.find(".offload_") != std::string::npos;
    const bool is_known =
        leaf.path.ends_with(".stage") ||
        (is_offload && (leaf.path.ends_with(".device") || leaf.path.ends_with(".nvme_path") ||
                        leaf.path.ends_with(".ratio")));
    more = more || !is_known;
    if (!is_known) file.settle(leaf.path);
  }
  if (more)
    file.note("zero_optimization",
              "its keys but stage and offload are left out: buckets and overlap are decided here");
}

// It is the model's code that checkpoints layers; the section says how.
void arrange_activations(ForeignFile& file) {
  const std::string section = "activation_checkpointing.", partition = section + "partition_activations";
  const bool is_used = std::any_of(file.leaves().begin(), file.leaves().end(), [&](const ForeignLeaf& leaf) {
    return leaf.path.starts_with(section) && leaf.value && leaf.value != "false";
  });
  if (is_used)
    file.write_default("activation_checkpointing.mode", "full",
                       " # of the layers that the model's code checkpoints there");
  if (file.is_true(partition))
    file.write_if_taken(
        partition, "activation_checkpointing.partition_activations", "true",
        "how many tensor ranks there are is not said there: write tensor_parallel_size in section "
        "'parallelism' beside it; on one tensor rank it has no effect");
  file.leave_out(
      section + "number_checkpoints",
      "it is the size of a buffer there, which is planned here; number_checkpoints here says how many "
      "layer inputs the model must have, and is checked");
}

}  // namespace

void arrange_deepspeed(ForeignFile& file) {
  for (const char* section : kOffByDefault) {
    const std::string enabled = file.value(fmt::format("{}.enabled", section), "false");
    if (enabled != "true" && enabled != "auto") file.settle_inside(section);
  }
  if (file.value("fp16.enabled") == "auto") {
    file.note("fp16.enabled auto",
              "what fp16 says besides is left out: write training.precision: fp16 where it is on");
    file.settle("fp16.enabled");
  }
  // As files of old say it.
  if (file.is_true("zero_optimization")) {
    file.note("zero_optimization true", kNeedsReplicas);
    file.write("zero_optimization", "parallelism.zero_stage", "1");
  }
  if (file.is_true("zero_optimization.cpu_offload"))
    file.write("zero_optimization.cpu_offload", "optimizer.offload", "host");
  arrange_schedule_of_deepspeed(file);  // whose peak goes before the optimizer's rate
  arrange_rule(file);
  arrange_zero(file);
  arrange_activations(file);
  if (file.has("optimizer.type") && !file.has(of_optimizer("lr")))
    file.write_default("optimizer.learning_rate", "0.001");
  if (!file.has("gradient_clipping")) file.write_default("optimizer.max_grad_norm", "0");
}

}  // namespace recollect
