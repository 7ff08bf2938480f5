// `recollect config import`: configurations of DeepSpeed, Transformers and accelerate as ours, which the strict
// reader takes; what has no equivalent is listed.
#include <algorithm>

#include "launch/config/import.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/process.h"

namespace recollect::test::config_import_test {
namespace {

const char* const kDeepSpeed = R"({
  "train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto",
  "steps_per_print": 100,
  "optimizer": {"type": "Adam", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
  "scheduler": {"type": "WarmupDecayLR",
                "params": {"warmup_min_lr": 0, "warmup_max_lr": 1e-4, "warmup_num_steps": 100,
                           "total_num_steps": 1000}},
  "fp16": {"enabled": false, "loss_scale": 0}, "bf16": {"enabled": true},
  "zero_optimization": {"stage": 2, "overlap_comm": true},
  "activation_checkpointing": {"partition_activations": true, "cpu_checkpointing": true,
                               "contiguous_memory_optimization": false, "number_checkpoints": null,
                               "profile": true},
  "wandb": {"enabled": false}, "tensorboard": {"enabled": true, "output_path": "tb"}, "unheard_of": 7
})";

const char* const kArguments = R"({
  "output_dir": "out", "num_train_epochs": 3.0, "max_steps": -1, "gradient_accumulation_steps": 2,
  "adam_beta2": 0.98, "lr_scheduler_type": "cosine", "warmup_ratio": 0.06, "logging_steps": 50,
  "save_strategy": "steps", "save_steps": 500.0, "save_total_limit": 3, "eval_strategy": "no", "eval_steps": 500,
  "bf16": true, "fp16": false, "optim": "adamw_torch_fused", "seed": 7, "data_seed": null,
  "gradient_checkpointing": true, "report_to": ["tensorboard", "wandb"], "push_to_hub": false, "fsdp": [],
  "resume_from_checkpoint": "runs/a"
})";

const char* const kAccelerate =
    "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: MEGATRON_LM\ndowncast_bf16: 'no'\n"
    "mixed_precision: bf16\nnum_machines: 1\nnum_processes: 40\ntpu_env: []\nuse_cpu: false\n"
    "megatron_lm_config:\n  megatron_lm_tp_degree: 5\n  megatron_lm_gradient_clipping: 0.5\n"
    "  megatron_lm_pp_degree: 2\n  megatron_lm_recompute_activations: true\n";

Config read_back(const Imported& imported, std::vector<std::string> words = {}) {
  const bool epochs = imported.yaml.find("\n  epochs: ") != std::string::npos;
  words.emplace_back(epochs ? "data.path=texts" : "data.format=random");
  return read_config_text("imported.yaml", imported.yaml, words, {.cuda = true});
}

std::string line_of(const Imported& imported, const std::string& start) {
  for (const std::string& line : imported.left_out)
    if (line.starts_with(start)) return line;
  return "nothing is said of " + start;
}

TEST(ConfigImport, DeepSpeedsJson) {
  const Imported imported = import_config_text("ds.json", kDeepSpeed);
  const Config c = read_back(imported);
  EXPECT_EQ(c.training.micro_batch_size, 4);
  EXPECT_EQ(c.training.global_batch_size, 32);
  EXPECT_EQ(c.training.max_steps, 1000);
  EXPECT_EQ(c.training.precision, Precision::kBF16);
  EXPECT_EQ(c.optimizer.name, "adamw") << "DeepSpeed's Adam";
  EXPECT_EQ(c.optimizer.learning_rate, 1e-4);
  EXPECT_EQ(c.optimizer.beta2, 0.95);
  EXPECT_EQ(c.optimizer.max_grad_norm, 0) << "not clipped there where nothing is said";
  EXPECT_EQ(c.scheduler.name, SchedulerName::kLinear);
  EXPECT_EQ(c.scheduler.warmup_steps, 100);
  EXPECT_TRUE(c.activation_checkpointing.cpu_checkpointing);
  EXPECT_FALSE(c.activation_checkpointing.contiguous_checkpointing);
  EXPECT_EQ(c.logging.steps, 100);
  EXPECT_EQ(c.logging.tensorboard_dir, "tb");
  EXPECT_NE(imported.yaml.find("\n# activation_checkpointing.partition_activations: true\n"),
            std::string::npos);
  EXPECT_NE(line_of(imported, "activation_checkpointing.partition_activations").find("one tensor rank"),
            std::string::npos);
  EXPECT_EQ(c.parallelism.zero_stage, 2);
  EXPECT_NE(line_of(imported, "zero_optimization: ").find("are decided here"), std::string::npos);
  EXPECT_EQ(c.activation_checkpointing.mode, CheckpointingMode::kFull) << "what the switches are of";
  EXPECT_EQ(line_of(imported, "unheard_of"), "unheard_of 7: not known here");
  for (const char* silent : {"wandb", "fp16", "scheduler.params.warmup_min_lr"})
    EXPECT_EQ(line_of(imported, silent), std::string("nothing is said of ") + silent);
}

TEST(ConfigImport, WhatDeepSpeedDoesUnasked) {
  const Imported imported = import_config_text("ds.json", R"({
    "optimizer": {"type": "Lion", "params": {"lr": 1e-3}}, "fp16": {"enabled": "auto", "loss_scale": 0},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_max_lr": 5e-4}}})");
  const Config c = read_back(imported);
  EXPECT_EQ(c.optimizer.name, "lion");
  EXPECT_EQ(c.optimizer.learning_rate, 5e-4) << "the scheduler sets it";
  EXPECT_EQ(line_of(imported, "optimizer.params.lr"),
            "optimizer.params.lr 0.001: the scheduler's warmup_max_lr goes before it there, too");
  EXPECT_EQ(c.optimizer.beta2, 0.999) << "as FusedLion has it";
  EXPECT_NE(line_of(imported, "scheduler.type WarmupLR").find("rises with the logarithm"), std::string::npos);
  EXPECT_NE(line_of(imported, "fp16.enabled auto").find("write training.precision: fp16"), std::string::npos);
  EXPECT_EQ(imported.yaml.find("loss_scale"), std::string::npos) << imported.yaml;
  const Imported linear = import_config_text(
      "ds.json",
      R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_type": "linear"}}})");
  EXPECT_EQ(line_of(linear, "scheduler.type"),
            "scheduler.type WarmupLR: each of its steps has the rate of the one before it here");
}

// Transformers 5 has one key for both.
TEST(ConfigImport, APartOfTheStepsIsARatio) {
  const Imported imported =
      import_config_text("args.json", R"({"warmup_steps": 0.1, "max_steps": 50, "adam_beta1": 0.8})");
  EXPECT_EQ(read_back(imported).scheduler.warmup_ratio, 0.1) << imported.yaml;
  EXPECT_TRUE(imported.left_out.empty()) << imported.left_out.front();
}

TEST(ConfigImport, ValuesOfAnotherKindAreListed) {
  const Imported imported = import_config_text(
      "ds.json", R"({"train_batch_size": {"a": 1}, "gradient_clipping": {"x": 2}, "bf16": {"enabled": true},
                     "zero_optimization": {"stage": {"q": 1}}})");
  for (const char* key : {"train_batch_size", "gradient_clipping", "zero_optimization.stage"})
    EXPECT_NE(line_of(imported, key).find("holds more than a value"), std::string::npos)
        << line_of(imported, key);
}

TEST(ConfigImport, AdamWithoutDecoupledDecay) {
  const auto rule = [](const char* mode) {
    return read_back(
               import_config_text("ds.json", std::string(R"({"optimizer": {"type": "Adam", "params": {)") +
                                                 R"("adam_w_mode": )" + mode + "}}}"))
        .optimizer.name;
  };
  EXPECT_EQ(rule("false"), "adam");
  EXPECT_EQ(rule("true"), "adamw");
}

TEST(ConfigImport, TrainingArguments) {
  const Imported imported = import_config_text("ta.json", kArguments);
  const Config c = read_back(imported);
  EXPECT_EQ(c.output_dir, "out");
  EXPECT_EQ(c.resume, "runs/a");
  EXPECT_EQ(c.training.micro_batch_size, 8) << "Transformers' default";
  EXPECT_EQ(c.optimizer.learning_rate, 5e-5) << "Transformers' default";
  EXPECT_EQ(c.training.gradient_accumulation_steps, 2);
  EXPECT_EQ(c.training.precision, Precision::kBF16);
  EXPECT_EQ(c.training.seed, 7);
  EXPECT_EQ(c.optimizer.name, "adamw");
  EXPECT_EQ(c.optimizer.beta2, 0.98);
  EXPECT_EQ(c.scheduler.name, SchedulerName::kCosine);
  EXPECT_EQ(c.scheduler.warmup_ratio, 0.06);
  EXPECT_EQ(c.snapshot.every_steps, 500);
  EXPECT_EQ(c.snapshot.keep, 3);
  EXPECT_EQ(c.evaluation.every_steps, 0) << "the strategy wins";
  EXPECT_EQ(c.activation_checkpointing.mode, CheckpointingMode::kFull);
  EXPECT_EQ(c.logging.report_to, (std::vector<std::string>{"jsonl", "tensorboard"}));
  EXPECT_EQ(c.training.epochs, 3);
  EXPECT_NE(line_of(imported, "report_to wandb").find("not supported"), std::string::npos);
  for (const char* silent : {"fp16", "push_to_hub", "fsdp", "data_seed", "num_train_epochs", "max_steps"})
    EXPECT_EQ(line_of(imported, silent), std::string("nothing is said of ") + silent);
}

// As Transformers has it: max_steps goes before epochs.
TEST(ConfigImport, BestModelAndLength) {
  const Imported imported = import_config_text(
      "ta.json",
      R"({"num_train_epochs": 3.0, "max_steps": 500, "eval_steps": 50, "eval_strategy": "steps",
                     "load_best_model_at_end": true, "save_steps": 100,
                     "metric_for_best_model": "eval_loss", "greater_is_better": false, "logging_steps": 5})");
  const Config c = read_back(imported, {"evaluation.batches=1"});
  EXPECT_EQ(c.training.max_steps, 500);
  EXPECT_EQ(c.training.epochs, 0);
  EXPECT_TRUE(c.checkpoint.save_best_model);
  EXPECT_EQ(c.evaluation.metric_for_best_model, "loss");
  const Imported nothing =
      import_config_text("ta.json", R"({"load_best_model_at_end": true, "logging_steps": 5})");
  EXPECT_FALSE(read_back(nothing).checkpoint.save_best_model);
  EXPECT_EQ(
      line_of(nothing, "load_best_model_at_end true: checkpoint.save_best_model"),
      "load_best_model_at_end true: checkpoint.save_best_model has no effect with evaluation.every_steps "
      "0: nothing is evaluated");
  EXPECT_EQ(line_of(imported, "num_train_epochs"), "nothing is said of num_train_epochs");
}

TEST(ConfigImport, WhatCannotBeWrittenIsNotReplacedByADefault) {
  const Imported imported = import_config_text(
      "ta.json", R"({"num_train_epochs": 1, "lr_scheduler_type": "reduce_lr_on_plateau"})");
  EXPECT_EQ(imported.yaml.find("scheduler"), std::string::npos) << imported.yaml;
  EXPECT_TRUE(
      line_of(imported, "lr_scheduler_type")
          .starts_with("lr_scheduler_type reduce_lr_on_plateau: not supported: constant, linear, cosine,"))
      << line_of(imported, "lr_scheduler_type");
}

TEST(ConfigImport, AcceleratesYaml) {
  const Imported imported = import_config_text("a.yaml", kAccelerate);
  EXPECT_NE(imported.yaml.find("  tensor_parallel_size: 5\n"), std::string::npos)
      << "the model, which others divide, is not there yet";
  const Config c = read_back(imported, {"parallelism.tensor_parallel_size=4"});
  EXPECT_EQ(c.training.precision, Precision::kBF16);
  EXPECT_EQ(c.optimizer.max_grad_norm, 0.5);
  EXPECT_EQ(c.activation_checkpointing.mode, CheckpointingMode::kSelective);
  EXPECT_EQ(c.activation_checkpointing.recompute, (std::vector<std::string>{"attention"}));
  EXPECT_NE(line_of(imported, "num_processes").find("recollect run --nproc-per-node 40"), std::string::npos);
  EXPECT_NE(line_of(imported, "megatron_lm_config.megatron_lm_pp_degree 2").find("not supported"),
            std::string::npos);
}

TEST(ConfigImport, Fp16NeedsCudaAndSaysSo) {
  const Config c = read_back(import_config_text("a.yaml", "mixed_precision: fp16\n"));
  EXPECT_EQ(c.training.precision, Precision::kFP16);
  EXPECT_EQ(c.device.backend, BackendKind::kCuda);
}

// The message of a refusal, and its hint.
std::string refused_import(const std::string& text) {
  try {
    import_config_text("f", text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    return std::string(error.what()) + " | " + error.hint();
  }
  return "accepted";
}

TEST(ConfigImport, OtherFilesAreRefused) {
  const std::string known =
      " | config import reads DeepSpeed's and OSLO's JSON, Transformers' TrainingArguments as JSON, "
      "accelerate's "
      "and axolotl's YAML, and torchtitan's TOML";
  EXPECT_EQ(refused_import("{}"), "f: holds no key of a trainer that is known" + known);
  EXPECT_EQ(refused_import("colour: blue\n"), "f: holds no key of a trainer that is known" + known);
  EXPECT_EQ(refused_import("- bf16\n"), "f: holds no keys" + known);
  EXPECT_EQ(refused_import(""), "f: is empty" + known);
  EXPECT_EQ(refused_import("training: {seed: 1}\noptimizer: {lr: 1}\n"),
            "f: is a configuration of ours already" + known);
  EXPECT_EQ(refused_import(R"({"model_type": "bert"})"),
            "f: is a model's config.json | write config: f in section 'model'");
  EXPECT_EQ(refused_import("{\"bf16\": tru}"), "f: not valid JSON at line 1, column 13" + known);
  EXPECT_EQ(refused_import("{\n\"a\": 1,\n  \"b\": ,\n}"), "f: not valid JSON at line 3, column 8" + known);
  EXPECT_EQ(refused_import("{\n\"a\": 1\n"), "f: not valid JSON at line 3, column 1" + known);
  EXPECT_EQ(refused_import("{\"bf16\": true, \"bf16\": true}"), "f: the key \"bf16\" appears twice" + known);
  EXPECT_EQ(refused_import("mixed_precision: bf16\nuse_cpu: [\n").find("f:3:1: "), 0u);
}

TEST(ConfigImport, IsACommand) {
  const Workplace place;
  place.folder().write("ds.json", kDeepSpeed);
  const Finished done = place.recollect({"config", "import", "ds.json"});
  EXPECT_EQ(done.status, 0);
  EXPECT_EQ(done.out, import_config_text("ds.json", kDeepSpeed).yaml);
  EXPECT_NE(done.err.find("ds.json: unheard_of 7: not known here\n"), std::string::npos) << done.err;
  place.folder().write("other.json", "{\"colour\": 1}");
  const Finished refused = place.recollect({"config", "import", "other.json"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.out, "");
}

}  // namespace
}  // namespace recollect::test::config_import_test
