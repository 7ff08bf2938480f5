// axolotl's YAML: it makes TrainingArguments of its keys, adds some of its own, and says what is trained on.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "launch/config/import_rules.h"

namespace recollect {

namespace {

// By another name there.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"micro_batch_size", "per_device_train_batch_size"},
    {"num_epochs", "num_train_epochs"},
    {"optimizer", "optim"},
    {"lr_scheduler", "lr_scheduler_type"},
    {"bfloat16", "bf16"},
    {"float16", "fp16"},
};

const YamlNode* entry_called(const YamlNode& mapping, std::string_view name) {
  for (const YamlNode::Entry& one : mapping.entries)
    if (one.key.text == name) return &one.value;
  return nullptr;
}

std::string text_called(const YamlNode& mapping, std::string_view name) {
  const YamlNode* found = entry_called(mapping, name);
  return found && found->kind == YamlNode::Kind::kScalar ? found->text : "";
}

// axolotl rounds down what of all steps warms up; at least 2 where any does.
void arrange_warm_up(ForeignFile& file) {
  const double all = file.number("max_steps", 0);
  if (file.number("warmup_steps", 0) > 0 || file.has("warmup_ratio")) {
    if (file.value("warmup_steps") == "1") file.write("warmup_steps", "scheduler.warmup_steps", "2");
    const double steps = std::floor(all * file.number("warmup_ratio", 0));
    if (file.number("warmup_steps", 0) == 0 && steps >= 1)
      file.write("warmup_ratio", "scheduler.warmup_steps", fmt::format("{:.0f}", std::max(2.0, steps)));
    return;
  }
  if (file.has("warmup_steps")) return;
  const double steps = std::min(100.0, std::floor(0.03 * all));
  if (all > 0 && steps >= 1)
    file.write_default("scheduler.warmup_steps", fmt::format("{:.0f}", std::max(2.0, steps)));
  else if (all == 0)
    file.write_default("scheduler.warmup_ratio", "0.03", " # not given there; at most 100 steps there");
}

// One of axolotl's own, in place of Transformers'. False where there is none like it.
bool arrange_own_schedules(ForeignFile& file) {
  const std::string name = lower_case(file.value("lr_scheduler_type", "cosine"));
  const auto known = transformers_schedules();
  if (name == "cosine" && file.number("cosine_min_lr_ratio", 0) > 0) {
    file.write("cosine_min_lr_ratio", "scheduler.min_lr",
               decimal_text(file.number("cosine_min_lr_ratio", 0) * file.number("learning_rate", 0)));
  }
  file.leave_out("cosine_min_lr_ratio", "lr_scheduler cosine alone reads it there");
  file.leave_out("cosine_constant_lr_ratio", "not supported: cosine falls until the end");
  if (file.is_true("lr_quadratic_warmup"))
    file.leave_out("lr_quadratic_warmup", "not supported: the warm-up is linear");
  file.settle("lr_quadratic_warmup");
  if (name == "one_cycle" || name == "rex") {
    file.leave_out(
        "lr_scheduler_type",
        name == "rex"
            ? "not supported: constant, linear, cosine and others of Transformers' are"
            : "write name: one_cycle in section 'scheduler', with pct_start = warmup_steps / max_steps");
    for (const char* own : {"warmup_steps", "warmup_ratio"}) file.settle(own);
    return false;
  }
  if (!file.has("lr_scheduler_type")) file.write_default("scheduler.name", "cosine");
  return std::any_of(known.begin(), known.end(),
                     [&](const ForeignSchedule& s) { return s.name == name && !s.ours.empty(); });
}

void arrange_adapters(ForeignFile& file) {
  const std::string adapter = lower_case(file.value("adapter"));
  const auto is_of_adapters = [](const ForeignLeaf& leaf) {
    return leaf.path.starts_with("lora_") || leaf.path.starts_with("peft_") ||
           leaf.path.starts_with("loraplus_") || leaf.path == "peft" || leaf.path.starts_with("loftq");
  };
  if (adapter != "lora" && adapter != "qlora") {
    if (!adapter.empty()) file.leave_out("adapter", "not supported: lora is");
    const std::vector<ForeignLeaf> leaves = file.leaves();
    for (const ForeignLeaf& leaf : leaves)
      if (is_of_adapters(leaf))
        file.leave_out(leaf.path, "without adapter: lora it is not read there, either");
    return;
  }
  // What it asks bitsandbytes for, whichever of the two adapters it is.
  if (file.is_true("load_in_8bit")) {
    file.write("load_in_8bit", "lora.base", "int8");
  } else if (adapter == "qlora" || file.is_true("load_in_4bit")) {
    const char* const from = file.is_true("load_in_4bit") ? "load_in_4bit" : "adapter";
    file.write(from, "lora.base", "nf4");
    file.write(from, "lora.double_quant", "true");
  }
  for (const char* settled : {"adapter", "load_in_4bit", "load_in_8bit"}) file.settle(settled);
  if (file.is_true("lora_target_linear")) file.write("lora_target_linear", "lora.targets", "[all-linear]");
  if (file.value("lora_target_modules") == "all-linear")
    file.write("lora_target_modules", "lora.targets", "[all-linear]");
  if (file.has("peft_use_rslora"))
    file.write("peft_use_rslora", "lora.rslora", file.value("peft_use_rslora"));
  if (file.is_true("peft_use_dora"))
    file.leave_out("peft_use_dora", "not supported: adapters are A and B alone");
  if (file.has("loraplus_lr_ratio"))
    file.leave_out("loraplus_lr_ratio",
                   "write a group of optimizer.groups that matches lora_B, with that learning_rate");
  for (const char* silent : {"lora_target_linear", "peft_use_dora", "lora_fan_in_fan_out", "lora_mlp_kernel",
                             "lora_qkv_kernel", "lora_o_kernel", "lora_embedding_kernel", "lora_on_cpu"})
    file.settle(silent);
}

// Files that are read here as they are are taken; what makes text of records is not here.
void arrange_datasets(ForeignFile& file) {
  const std::pair<const char*, const char*> lists[] = {{"datasets", "data.path"},
                                                       {"test_datasets", "evaluation.path"}};
  for (const auto& [list, ours] : lists) {
    const YamlNode* sets = entry_called(file.root(), list);
    if (!sets) continue;
    std::string paths, column;
    for (const YamlNode& set : sets->items) {
      const std::string path = text_called(set, "path"), type = text_called(set, "type"),
                        field = text_called(set, "field");
      const bool is_file = path.ends_with(".jsonl") || path.ends_with(".json") || path.ends_with(".txt");
      if (is_file && (type == "completion" || type.empty())) {
        paths += (paths.empty() ? "" : ", ") + path;
        column = field;
      } else {
        file.note(fmt::format("{} {}", list, path),
                  is_file
                      ? fmt::format("type {} makes texts of records, which is not done here: write lines of "
                                    "{{\"text\": ...}} or {{\"input_ids\": [...], \"labels\": [...]}}",
                                    type.empty() ? "of its own" : type)
                      : fmt::format("write path: FILE in section '{}'; there are no data sets by name",
                                    std::string(ours).substr(0, std::string_view(ours).find('.'))));
      }
    }
    if (paths.empty()) {
      file.settle(list);
      continue;
    }
    file.write(list, ours, fmt::format("[{}]", paths));
    if (std::string_view(list) != "datasets") continue;
    const bool is_text = paths.ends_with(".txt");
    file.write(list, "data.format", is_text ? "text" : "jsonl");
    const std::string tokenizer = file.value("tokenizer_config", file.value("base_model"));
    if (!tokenizer.empty()) file.write(list, "data.tokenizer", tokenizer);
    if (!is_text && !column.empty()) file.write(list, "data.columns.text", column);
  }
}

// "4 evaluations an epoch": every quarter of one.
void arrange_occasions(ForeignFile& file) {
  const auto per_epoch = [&](const char* key, const char* ours, const char* strategy) {
    const double times = file.number(key, 0);
    if (times <= 0) return file.settle(key);
    constexpr double kDigits = 1e12;  // rounded down: so many of them are no more than an epoch
    file.write(key, ours, decimal_text(std::floor(kDigits / times) / kDigits));
    file.add(strategy, "no");
    file.settle(strategy);
  };
  const bool saves_by_steps = file.number("save_steps", 0) > 0;
  if (saves_by_steps) file.add("save_strategy", "steps");
  if (!saves_by_steps && !file.has("saves_per_epoch")) file.add("save_strategy", "epoch");
  per_epoch("saves_per_epoch", "snapshot.every_epochs", "save_strategy");
  if (!file.has("save_total_limit")) file.add("save_total_limit", "4");
  const bool has_set = file.number("val_set_size", 0) > 0 || file.has("test_datasets");
  if (!has_set) {
    for (const char* key : {"evals_per_epoch", "eval_steps", "eval_strategy"})
      file.leave_out(key, "without val_set_size or test_datasets nothing is evaluated there, either");
  }
  if (file.number("eval_steps", 0) > 0) file.add("eval_strategy", "steps");
  per_epoch("evals_per_epoch", "evaluation.every_epochs", "eval_strategy");
  if (file.number("val_set_size", 0) > 0)
    file.leave_out(
        "val_set_size",
        "not supported: no part of the data is set apart; write path: FILE in section 'evaluation'");
  file.settle("val_set_size");
}

void arrange_trackers(ForeignFile& file) {
  std::string forms;
  for (const char* form : {"tensorboard", "mlflow"})
    if (file.is_true(fmt::format("use_{}", form))) forms += fmt::format(", {}", form);
  if (!forms.empty()) file.write_default("logging.report_to", fmt::format("[jsonl{}]", forms), "");
  for (const char* key : {"use_tensorboard", "use_mlflow"}) file.settle(key);
  for (const char* key : {"use_wandb", "use_comet", "use_trackio"})
    file.leave_out(
        key, "not supported: logging.report_to has jsonl, tensorboard and mlflow; logging.hook feeds others");
}

}  // namespace

void arrange_axolotl(ForeignFile& file) {
  for (const auto& [theirs, name] : kRenamed) file.rename(theirs, name);
  for (const char* silent : {"model_type", "tokenizer_type", "trust_remote_code", "eval_sample_packing",
                             "tokenizer_use_fast", "device_map"})
    file.settle(silent);
  const std::vector<ForeignLeaf> leaves = file.leaves();
  for (const ForeignLeaf& leaf : leaves)  // which family it is: config.json says it
    if (leaf.path.ends_with("_derived_model")) file.settle(leaf.path);
  if (file.value("fp16") == "true" && (file.is_true("bf16") || file.value("bf16") == "auto"))
    file.leave_out("fp16", "bf16 goes before it there, too");
  const std::string offload = file.value("activation_offloading");
  if (!offload.empty() && offload != "false")
    file.write("activation_offloading", "activation_checkpointing.cpu_checkpointing", "true");
  file.settle("activation_offloading");
  if (file.is_true("sample_packing")) file.write("sample_packing", "data.packing", "within");
  if (!file.has("per_device_train_batch_size")) file.write_default("training.micro_batch_size", "1");
  if (!file.has("sequence_len")) file.write_default("data.sequence_length", "512");
  if (!file.has("num_train_epochs") && file.number("max_steps", 0) <= 0)
    file.write_default("training.epochs", "1");
  arrange_adapters(file);
  arrange_datasets(file);
  arrange_occasions(file);
  arrange_trackers(file);
  if (arrange_own_schedules(file)) arrange_warm_up(file);
  arrange_transformers(file);
}

}  // namespace recollect
