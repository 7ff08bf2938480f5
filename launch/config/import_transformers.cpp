// TrainingArguments as the Trainer carries them out.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/config/foreign_rules.h"
#include "launch/config/import_file.h"
#include "launch/config/import_rules.h"

namespace recollect {

namespace {

constexpr const char* kTrackersHere =
    "not supported: jsonl, tensorboard and mlflow are; logging.hook feeds others";

// The Trainer's last step of an epoch takes the remaining batches only; here the step continues into the next epoch.
constexpr const char* kPartialSteps =
    " # up to one step an epoch fewer than there, where batches do not divide the data";

// Which of the steps there are; 0 where the epochs say it.
double steps_of(const ForeignFile& file) { return std::max(0.0, file.number("max_steps", -1)); }

void arrange_length(ForeignFile& file) {
  if (steps_of(file) > 0) {
    file.write("max_steps", "training.max_steps", fmt::format("{:.0f}", steps_of(file)));
    file.leave_out("num_train_epochs", "max_steps goes before it there, too");
    return;
  }
  file.settle("max_steps");
  if (file.has("num_train_epochs"))
    file.write("num_train_epochs", "training.epochs", file.value("num_train_epochs"), kPartialSteps);
  else
    file.write_default("training.epochs", "3");
}

// "momentum=0.9, dampening=0" of optim_args.
void arrange_optim_args(ForeignFile& file, const ForeignOptimizer& rule) {
  const std::string given = file.value("optim_args");
  if (given.empty()) return;
  if (rule.name != "sgd")
    return file.leave_out("optim_args", fmt::format("{} is carried over without it", rule.name));
  for (std::string one : entries_of_list("[" + given + "]")) {
    std::erase(one, ' ');
    const std::size_t equals = one.find('=');
    const std::string name = one.substr(0, equals),
                      value = equals == std::string::npos ? "" : one.substr(equals + 1);
    if (name == "momentum")
      file.write("optim_args", "optimizer.momentum", value);
    else if (name == "weight_decay")
      file.note("optim_args " + one, "weight_decay goes before it there, too");
    else if (number_of(value) != 0.0 && value != "false" && value != "False")
      file.note("optim_args " + one, "not supported: sgd has momentum alone");
  }
  file.settle("optim_args");
}

void arrange_optimizer(ForeignFile& file) {
  const bool old = file.is_true("adafactor");
  const std::string_view key = old ? "adafactor" : "optim";
  const std::string name = old ? "adafactor" : lower_case(file.value("optim", "adamw_torch"));
  const auto rules = transformers_optimizers();
  const auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const ForeignOptimizer& r) { return r.name == name; });
  if (rule == rules.end()) return;  // the tables answer
  write_optimizer(file, *rule, key, {"adam_beta1", "0.9", "adam_beta2", "0.999", "adam_epsilon", "1e-08"});
  arrange_optim_args(file, *rule);
  file.settle("optim");
  file.settle("adafactor");
}

// How many steps warm up: a whole number of them, or a part of all.
void write_warm_up(ForeignFile& file, bool warms_up) {
  const double steps = file.number("warmup_steps", 0), ratio = file.number("warmup_ratio", 0);
  const std::string_view key = steps > 0 ? "warmup_steps" : "warmup_ratio";
  if (!warms_up) {
    for (const std::string_view one : {"warmup_steps", "warmup_ratio"})
      if (file.number(one, 0) > 0)
        file.leave_out(one, "lr_scheduler_type constant has no warm-up there; constant_with_warmup has one");
  } else if (steps >= 1) {
    file.write(key, "scheduler.warmup_steps", fmt::format("{:.0f}", std::floor(steps)));
  } else if (steps > 0 || ratio > 0) {
    file.write(key, "scheduler.warmup_ratio", file.value(key));
  }
  if (steps > 0 && ratio > 0) file.leave_out("warmup_ratio", "warmup_steps goes before it there, too");
  file.settle("warmup_steps");
  file.settle("warmup_ratio");
}

constexpr std::string_view kArgumentsOf = "lr_scheduler_kwargs";

// Why ours cannot be this schedule; "" where it can.
std::string unlike(const ForeignFile& file, std::string_view schedule) {
  for (const ForeignArgument& a : transformers_arguments()) {
    const std::string path = fmt::format("{}.{}", kArgumentsOf, a.name);
    if (a.schedule == schedule && a.kind == ForeignArgument::Kind::kOnly && file.has(path) &&
        !is_same_value(file.value(path), a.otherwise))
      return fmt::format("not supported with {} {}: it is {} here", a.name, file.value(path), a.otherwise);
  }
  if (schedule != "warmup_stable_decay" || !file.has("lr_scheduler_kwargs.num_stable_steps")) return "";
  const double all = file.number("lr_scheduler_kwargs.num_stable_steps", 0) + file.number("warmup_steps", 0) +
                     file.number("lr_scheduler_kwargs.num_decay_steps", 0);
  return all == steps_of(file) ? ""
                               : "not supported with num_stable_steps, unless it fills max_steps: the rate "
                                 "falls in the last steps here";
}

void write_argument(ForeignFile& file, const ForeignArgument& argument) {
  const std::string path = fmt::format("{}.{}", kArgumentsOf, argument.name), ours(argument.ours);
  const bool is_given = file.has(path);
  std::string value = file.value(path, argument.otherwise);
  if (ours.empty() || value.empty()) return file.settle(path);
  if (argument.kind == ForeignArgument::Kind::kPartOfRate) {
    const double part = number_of(value).value_or(0);
    value = part == 0 ? "0" : decimal_text(part * file.number("learning_rate", 5e-5));
  }
  const bool is_our_default = value == "0" || (!is_given && argument.ours != "scheduler.min_lr");
  if (is_given)
    file.write(path, ours, value);
  else if (!is_our_default)
    file.write_default(ours, value);
}

void arrange_schedule(ForeignFile& file) {
  const std::string name = lower_case(file.value("lr_scheduler_type", "linear"));
  const auto all = transformers_schedules();
  const auto schedule =
      std::find_if(all.begin(), all.end(), [&](const ForeignSchedule& s) { return s.name == name; });
  if (schedule == all.end()) return;
  const std::string why = schedule->ours.empty() ? std::string(schedule->note) : unlike(file, name);
  if (!why.empty()) {
    file.leave_out("lr_scheduler_type", why);
    file.settle("warmup_steps");
    file.settle("warmup_ratio");
    return file.settle_inside(kArgumentsOf);
  }
  if (file.has("lr_scheduler_type"))
    file.write("lr_scheduler_type", "scheduler.name", std::string(schedule->ours));
  else
    file.write_default("scheduler.name", std::string(schedule->ours));
  for (const ForeignArgument& argument : transformers_arguments())
    if (argument.schedule == name) write_argument(file, argument);
  write_warm_up(file, schedule->warms_up);
  file.settle("lr_scheduler_kwargs.num_stable_steps");
  for (const ForeignLeaf& leaf : file.inside(kArgumentsOf))
    file.leave_out(leaf.path, fmt::format("{} has no such argument there, either", name));
}

// `steps_key` of theirs, which `strategy` reads or does not.
struct Strategy {
  std::string_view name, steps;
  std::string otherwise;  // what `steps` is where not given
  const char *ours_steps, *ours_epochs;
};

void write_interval(ForeignFile& file, const Strategy& s, const std::string& strategy) {
  const std::string given = file.value(s.steps, s.otherwise);
  const double every = number_of(given).value_or(0);
  if (strategy == "epoch") {
    file.write(s.name, s.ours_epochs, "1");
  } else if (strategy == "steps" && every >= 1) {
    const std::string steps = fmt::format("{:.0f}", every);
    if (file.has(s.steps))
      file.write(s.steps, s.ours_steps, steps);
    else
      file.write_default(s.ours_steps, steps);
  } else if (strategy == "steps" && every > 0 && steps_of(file) > 0) {  // a part of all of them
    file.write(s.steps, s.ours_steps, fmt::format("{:.0f}", std::ceil(steps_of(file) * every)));
  } else if (strategy == "steps" && every > 0) {
    file.write(s.steps, s.ours_epochs, decimal_text(every * file.number("num_train_epochs", 3)),
               " # that part of all epochs");
  } else if (strategy == "no" && std::string_view(s.ours_steps) != "logging.steps") {
    if (file.is_given(s.name)) file.write(s.name, s.ours_steps, "0");
  }
  if (strategy != "steps")
    file.leave_out(s.steps, fmt::format("{} {} does not read it there, either", s.name, strategy));
  file.settle(s.steps);
  file.settle(s.name);
}

void arrange_strategies(ForeignFile& file) {
  file.rename("evaluation_strategy", "eval_strategy");
  const std::string evaluates = lower_case(file.value("eval_strategy", "no")),
                    saves = lower_case(file.value("save_strategy", "steps")),
                    logs = lower_case(file.value("logging_strategy", "steps"));
  const std::string every = file.value("logging_steps", "500");
  const bool by_logging = file.number("eval_steps", 0) == 0;
  if (by_logging) file.settle("eval_steps");
  write_interval(file,
                 {"eval_strategy", by_logging ? "" : "eval_steps", every, "evaluation.every_steps",
                  "evaluation.every_epochs"},
                 evaluates);
  if (evaluates != "no") file.settle("do_eval");
  file.leave_out("do_eval", "eval_strategy says when, and it is no");
  if (saves == "best") {
    file.write("save_strategy", "checkpoint.save_best_model", "true");
    file.leave_out("save_steps", "save_strategy best does not read it there, either");
  } else {
    write_interval(
        file, {"save_strategy", "save_steps", "500", "snapshot.every_steps", "snapshot.every_epochs"}, saves);
  }
  const bool keeps_all = file.number("save_total_limit", 0) <= 0;
  if (keeps_all) file.settle("save_total_limit");
  if (keeps_all && (saves == "steps" || saves == "epoch"))
    file.write_default("snapshot.keep", "2", " # all of them there");
  if (logs == "no")
    file.leave_out("logging_strategy",
                   "not supported: a run tells of its first and last step, and of some between");
  if (logs != "steps" || file.has("logging_steps"))
    write_interval(
        file, {"logging_strategy", "logging_steps", "500", "logging.steps", "logging.every_epochs"}, logs);
  file.settle("logging_strategy");
}

void arrange_best_model(ForeignFile& file) {
  const std::string metric = file.value("metric_for_best_model", "loss");
  const bool greater = !metric.ends_with("loss");
  if (file.has("greater_is_better") && file.is_true("greater_is_better") == greater)
    file.settle("greater_is_better");
  if (file.has("greater_is_better"))
    file.leave_out("greater_is_better", fmt::format("not supported: {} is better where it is {}", metric,
                                                    greater ? "greater" : "less"));
  const bool decides = file.is_true("load_best_model_at_end") || file.value("save_strategy") == "best" ||
                       file.has("early_stopping_patience");
  if (!decides)
    file.leave_out("metric_for_best_model",
                   "nothing depends on it there, either, without load_best_model_at_end");
}

// Nothing there, too: but nothing is another value than the one that a key has where it is not given.
void arrange_nulls(ForeignFile& file) {
  for (const auto& entry : file.root().entries)
    if (entry.key.text == "max_grad_norm" && entry.value.kind == YamlNode::Kind::kNull)
      file.write_default("optimizer.max_grad_norm", "0", " # null there: never clipped");
}

void arrange_reports(ForeignFile& file) {
  if (!file.has("report_to")) return;
  std::vector<std::string> forms;
  bool none = true;
  for (const std::string& entry : entries_of_list(file.value("report_to"))) {
    const std::string name = lower_case(entry);
    const bool is_known = name == "tensorboard" || name == "mlflow";
    if (is_known) forms.push_back(name);
    if (name == "all") forms.insert(forms.end(), {"tensorboard", "mlflow"});
    if (!is_known && name != "all" && name != "none") file.note("report_to " + entry, kTrackersHere);
    none = none && name == "none";
  }
  if (!none && forms.empty()) return file.settle("report_to");
  if (!none) forms.insert(forms.begin(), "jsonl");
  file.write("report_to", "logging.report_to", fmt::format("[{}]", fmt::join(forms, ", ")));
}

// "full_shard auto_wrap offload"
void arrange_sharding(ForeignFile& file) {
  if (!file.has("fsdp")) return;
  std::string words = file.value("fsdp");
  std::replace(words.begin(), words.end(), ' ', ',');
  for (const std::string& entry : entries_of_list(words.starts_with('[') ? words : "[" + words + "]")) {
    const std::string word = lower_case(entry);
    if (word == "full_shard" || word == "true" || word == "hybrid_shard")
      file.write("fsdp", "parallelism.zero_stage",
                 file.value("fsdp_config.reshard_after_forward") == "false" ? "2" : "3");
    if (word == "shard_grad_op" || word == "hybrid_shard_zero2")
      file.write("fsdp", "parallelism.zero_stage", "2");
    if (word.find("shard") != std::string::npos && word != "no_shard")
      file.note("fsdp " + word, kNeedsReplicas);
    if (word.starts_with("hybrid_shard"))
      file.note("fsdp " + word, "all data parallel ranks divide, not those of a node alone");
    if (word == "offload")
      file.note("fsdp offload",
                "not supported: parameters stay in the device's memory; optimizer.offload moves the "
                "optimizer's states");
  }
  file.settle("fsdp");
  if (file.is_true("fsdp_config.activation_checkpointing"))
    file.write("fsdp_config.activation_checkpointing", "activation_checkpointing.mode", "full");
  for (const ForeignLeaf& leaf : file.inside("fsdp_config"))
    file.leave_out(leaf.path, "leave it out: it is decided here");
}

// What the Trainer makes itself of the output folder.
void settle_names(ForeignFile& file) {
  const std::string folder = file.value("output_dir");
  if (file.value("run_name") == folder) file.settle("run_name");
  if (!folder.empty() && file.value("logging_dir").starts_with(folder + "/runs/")) file.settle("logging_dir");
}

}  // namespace

void arrange_transformers(ForeignFile& file) {
  file.rename("per_gpu_train_batch_size", "per_device_train_batch_size");
  arrange_length(file);
  arrange_optimizer(file);
  arrange_schedule(file);
  arrange_best_model(file);
  arrange_strategies(file);
  arrange_nulls(file);
  arrange_reports(file);
  arrange_sharding(file);
  settle_names(file);
  if (!file.has("learning_rate")) file.write_default("optimizer.learning_rate", "5e-5");
  if (!file.has("per_device_train_batch_size")) file.write_default("training.micro_batch_size", "8");
}

}  // namespace recollect
