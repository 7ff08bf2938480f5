// torchtitan's TOML as its trainer carries it out.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "launch/config/import_rules.h"

namespace recollect {

namespace {

// A key that has moved between sections: where it is, or "".
std::string one_of(const ForeignFile& file, std::initializer_list<const char*> paths) {
  for (const char* path : paths)
    if (file.has(path)) return path;
  return "";
}

void write_or_default(ForeignFile& file, const std::string& path, const char* ours, const char* otherwise,
                      const char* value = nullptr) {
  if (!path.empty())
    file.write(path, ours, value ? value : file.value(path));
  else if (*otherwise != '\0')
    file.write_default(ours, otherwise);
}

void arrange_training(ForeignFile& file) {
  write_or_default(file, one_of(file, {"training.local_batch_size", "training.batch_size"}),
                   "training.micro_batch_size", "8");
  if (file.number("training.global_batch_size", -1) > 0)
    file.write("training.global_batch_size", "training.global_batch_size",
               file.value("training.global_batch_size"));
  file.settle("training.global_batch_size");
  write_or_default(file, one_of(file, {"training.seq_len"}), "data.sequence_length", "2048");
  write_or_default(file, one_of(file, {"training.steps"}), "training.max_steps", "10000");
  write_or_default(file, one_of(file, {"training.max_norm"}), "optimizer.max_grad_norm", "");
  const std::string precision = one_of(file, {"training.mixed_precision_param"});
  const std::string type = file.value(precision, "bfloat16");
  if (type == "bfloat16" || type == "float32")
    write_or_default(file, precision, "training.precision", "bf16", type == "float32" ? "fp32" : "bf16");
  file.settle("training.mixed_precision_reduce");
  if (file.has("training.dataset_path")) file.settle("training.dataset");
  for (const char* silent :
       {"training.gc_freq", "training.gc_debug", "training.compile", "training.deterministic"})
    if (file.value(silent) != "true") file.settle(silent);
}

void arrange_rule_of_torchtitan(ForeignFile& file) {
  static constexpr ForeignOptimizer kRules[] = {{"adamw", "adamw", true, true}, {"adam", "adam", true, true}};
  static constexpr ForeignOptimizer kOther{"",    "", false,
                                           false, "", "not supported: AdamW and Adam of torchtitan's are"};
  const std::string name = lower_case(file.value("optimizer.name", "AdamW"));
  const ForeignOptimizer& rule = name == "adamw" ? kRules[0] : name == "adam" ? kRules[1] : kOther;
  write_optimizer(file, rule, "optimizer.name",
                  {"optimizer.beta1", "0.9", "optimizer.beta2", "0.95", "optimizer.eps", "1e-08"});
  write_or_default(file, one_of(file, {"optimizer.lr"}), "optimizer.learning_rate", "8e-4");
  write_or_default(file, one_of(file, {"optimizer.weight_decay"}), "optimizer.weight_decay", "0.1");
  if (file.value("optimizer.weight_decay", "0.1") != "0")
    file.write_default("optimizer.decay_all", "true", " # as there");
  file.settle("optimizer.fused");
  file.settle("optimizer.implementation");
}

void arrange_rate(ForeignFile& file) {
  const std::string section = "lr_scheduler.",
                    warm = one_of(file, {"lr_scheduler.warmup_steps", "training.warmup_steps"});
  const double steps = file.number("training.steps", 10000), rate = file.number("optimizer.lr", 8e-4),
               warm_up = std::floor(file.number(warm, 200));
  const std::string shape = file.value(section + "decay_type", "linear"),
                    part = file.value(section + "decay_ratio"),
                    least = one_of(file, {"lr_scheduler.min_lr_factor", "lr_scheduler.lr_min"});
  const bool is_late = !part.empty(), is_root = shape == "sqrt";
  if (is_late || is_root) {  // it stays, then falls
    const double falling =
        is_late ? std::nearbyint(steps * file.number(section + "decay_ratio", 0)) : steps - warm_up;
    file.write_default("scheduler.name", "warmup_stable_decay", "");
    file.write(section + "decay_ratio", "scheduler.decay_steps",
               fmt::format("{:.0f}", std::min(falling, steps - warm_up)));
    file.write(section + "decay_type", "scheduler.decay_shape", is_root ? "1-sqrt" : shape);
  } else if (file.has(section + "decay_type")) {
    file.write(section + "decay_type", "scheduler.name", shape);
  } else {
    file.write_default("scheduler.name", shape);
  }
  write_or_default(file, warm, "scheduler.warmup_steps", "200");
  if (warm_up > 0)
    file.note(
        warm.empty() ? "lr_scheduler.warmup_steps 200, not given" : fmt::format("{} {:.0f}", warm, warm_up),
        "each step of the warm-up has the rate of the one after it here");
  if (least.empty()) return;
  const double factor = file.number(least, 0);
  if ((is_late || is_root) && factor > 0)
    file.note(file.find(least)->shown(), "the warm-up begins at that rate here, and at 0 there");
  file.write(least, "scheduler.min_lr", factor == 0 ? "0" : decimal_text(factor * rate));
}

void arrange_ranks_of_torchtitan(ForeignFile& file) {
  const std::string shard = one_of(file, {"parallelism.data_parallel_shard_degree",
                                          "training.data_parallel_shard_degree"}),
                    replicas = one_of(file, {"parallelism.data_parallel_replicate_degree",
                                             "training.data_parallel_replicate_degree"}),
                    tensor = one_of(
                        file, {"parallelism.tensor_parallel_degree", "training.tensor_parallel_degree"});
  const double shards = file.number(shard, -1), copies = file.number(replicas, 1);
  if (shards != 1) {
    if (copies > 1)
      file.note(file.find(replicas)->shown(), "all data parallel ranks divide, not groups of them");
    if (shard.empty())
      file.write_default("parallelism.zero_stage", "3");
    else
      file.write(shard, "parallelism.zero_stage", "3");
    if (!shard.empty() && shards < 0) file.note(file.find(shard)->shown(), kNeedsReplicas);
    if (shards > 1)
      file.write_default("parallelism.data_parallel_size", fmt::format("{:.0f}", shards * copies), "");
  } else if (copies > 1) {
    file.write(replicas, "parallelism.data_parallel_size", file.value(replicas));
  }
  file.settle(shard);
  file.settle(replicas);
  const bool divides = file.number(tensor, 1) > 1;
  if (!tensor.empty()) file.write(tensor, "parallelism.tensor_parallel_size", file.value(tensor));
  if (divides) file.write_default("parallelism.sequence_parallel", "true", " # as there");
  for (const char* one : {"pipeline_parallel_degree", "context_parallel_degree", "expert_parallel_degree",
                          "expert_tensor_parallel_degree"})
    for (const char* section : {"parallelism", "experimental"}) {
      const std::string path = fmt::format("{}.{}", section, one);
      if (file.number(path, 1) > 1)
        file.leave_out(path, "not supported: ranks divide by tensor, data and sequence");
      file.settle(path);
    }
  for (const char* section :
       {"parallelism", "experimental", "comm", "memory_estimation", "fault_tolerance", "debug"}) {
    const std::string timeout = fmt::format("{}.train_timeout_seconds", section);
    if (file.has(timeout)) file.write(timeout, "parallelism.timeout_seconds", file.value(timeout));
    file.settle_inside(section);  // how it is carried out
  }
}

void arrange_saving(ForeignFile& file) {
  const std::string section = "checkpoint.";
  const bool saves = file.is_true(section + "enable") || file.is_true(section + "enable_checkpoint");
  const std::string path = one_of(file, {"checkpoint.initial_load_path"});
  if (saves && !path.empty())
    file.leave_out(
        path,
        "it holds torch's distributed checkpoints; model.pretrained is a folder in Hugging Face's form");
  if (!saves) return file.settle_inside("checkpoint");
  file.settle(section + "enable");
  file.settle(section + "enable_checkpoint");
  if (file.value(section + "interval_type", "steps") == "seconds") {
    const double minutes = std::max(1.0, std::nearbyint(file.number(section + "interval", 500) / 60));
    file.write(section + "interval", "snapshot.every_minutes", fmt::format("{:.0f}", minutes));
  } else {
    write_or_default(file, one_of(file, {"checkpoint.interval"}), "snapshot.every_steps", "500");
  }
  if (file.has(section + "folder"))
    file.write(
        section + "folder", "snapshot.path",
        fmt::format("{}/{}", file.value("job.dump_folder", "./outputs"), file.value(section + "folder")));
  const double keep = file.number(section + "keep_latest_k", 10);
  file.write(section + "keep_latest_k", "snapshot.keep", fmt::format("{:.0f}", keep > 0 ? keep : 2),
             keep > 0 ? "" : " # all of them there");
  file.write(section + "async_mode", "snapshot.asynchronous",
             lower_case(file.value(section + "async_mode", "disabled")) == "disabled" ? "false" : "true");
  if (file.is_true(section + "last_save_model_only") || file.is_true(section + "last_save_in_hf") ||
      file.is_true(section + "model_weights_only"))
    file.write_default("checkpoint.save_model", "true", "");
  file.settle_inside("checkpoint");
}

void arrange_layers(ForeignFile& file) {
  const std::string mode = lower_case(file.value("activation_checkpoint.mode", "selective")),
                    key = "activation_checkpoint.mode";
  const std::string option = file.value("activation_checkpoint.selective_ac_option", "2");
  const std::string shown = file.has(key) ? file.find(key)->shown() : key + " selective, not given";
  if (mode == "selective" && option == "1") {
    file.write(key, "activation_checkpointing.mode", "full");
  } else if (mode == "selective") {
    file.note(shown,
              option == "op"
                  ? "matrix products are kept there, norms and activations run again here"
                  : fmt::format("every {} layers one is run again there; norms and activations of all here",
                                option));
    file.write(key, "activation_checkpointing.mode", "selective");
  } else if (mode == "memory_budget") {
    file.leave_out(key, "write mode: auto and memory_budget: BYTES in section 'activation_checkpointing'");
  } else {
    file.write(key, "activation_checkpointing.mode", mode);
  }
  file.settle_inside("activation_checkpoint");
}

void arrange_telling(ForeignFile& file) {
  if (!file.is_true("profiling.enable_profiling")) file.settle_inside("profiling");
  if (file.has("profiling.profile_freq"))
    file.write("profiling.profile_freq", "profiling.step", file.value("profiling.profile_freq"));
  file.settle("profiling.enable_profiling");
  file.settle("profiling.save_traces_folder");
  file.settle("profiling.save_memory_snapshot_folder");
  write_or_default(file, one_of(file, {"metrics.log_freq"}), "logging.steps", "10");
  if (!file.is_true("metrics.enable_tensorboard")) file.settle("metrics.save_tb_folder");
  for (const char* silent :
       {"metrics.disable_color_printing", "metrics.enable_color_printing", "metrics.save_for_all_ranks",
        "metrics.rank_0_only", "job.description", "job.print_args", "job.print_config", "job.config_file",
        "job.use_for_integration_test", "model.print_after_conversion", "model.norm_type"})
    file.settle(silent);
  if (!file.is_true("compile.enable")) file.settle_inside("compile");
  if (!file.is_true("validation.enable")) file.settle_inside("validation");
  if (file.is_true("validation.enable")) {
    write_or_default(file, one_of(file, {"validation.freq"}), "evaluation.every_steps", "10");
    file.settle("validation.enable");
    if (file.has("validation.dataset_path")) file.settle("validation.dataset");
    file.settle("validation.local_batch_size");
    file.settle("validation.seq_len");
  }
}

}  // namespace

void arrange_torchtitan(ForeignFile& file) {
  arrange_training(file);
  arrange_rule_of_torchtitan(file);
  arrange_rate(file);
  arrange_ranks_of_torchtitan(file);
  arrange_saving(file);
  arrange_layers(file);
  arrange_telling(file);
}

}  // namespace recollect
