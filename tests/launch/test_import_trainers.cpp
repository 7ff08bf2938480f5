// `recollect config import` of DeepSpeed's, axolotl's, torchtitan's and OSLO's files: each key as that trainer carries it
// out, and what is told of the others.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "launch/config/import.h"
#include "tests/launch/config_test_support.h"

namespace recollect::test::import_trainers_test {
namespace {

std::string line_of(const Imported& imported, const std::string& start) {
  for (const std::string& line : imported.left_out)
    if (line.starts_with(start)) return line;
  return "nothing is said of " + start;
}

using Keys = std::map<std::string, std::string>;

// What the configuration has of those keys.
Keys read_keys(const Imported& imported, const Keys& expected, const std::vector<std::string>& words = {}) {
  std::vector<std::string> more = words;
  if (imported.yaml.find("path: [") == std::string::npos &&
      imported.yaml.find("path: /") == std::string::npos)
    more.emplace_back("data.path=texts");
  const std::map<std::string, std::string> all =
      flatten(read_config_text("imported.yaml", imported.yaml, more, {.cuda = true}));
  Keys found;
  for (const auto& [key, value] : expected) {
    found[key] = all.at(key);
    std::erase(found[key], '"');
  }
  return found;
}

// What DeepSpeed's engine makes of a file, and the beginning of each line that is told.
struct OfDeepSpeed {
  const char* file;
  Keys keys;
  std::vector<std::string> told;
};

TEST(ImportTrainers, DeepSpeedsFileAsItsEngineReadsIt) {
  const OfDeepSpeed cases[] = {
      {R"({"train_batch_size": 8, "fp16": {"loss_scale": 128, "initial_scale_power": 8}, "bf16": {}})",
       {{"training.precision", "fp32"}, {"optimizer.max_grad_norm", "0"}, {"training.loss_scale", "-1"}},
       {}},  // a section without enabled is off
      {R"({"optimizer": {"type": "AdamW", "params": {"torch_adam": true}}})",
       {{"optimizer.name", "adamw"},
        {"optimizer.learning_rate", "0.001"},
        {"optimizer.weight_decay", "0.01"}},
       {}},  // as torch.optim.AdamW has it
      {R"({"optimizer": {"type": "AdamW", "params": {"adam_w_mode": false, "lr": 2e-4, "weight_decay": 0.1}}})",
       {{"optimizer.name", "adamw"},
        {"optimizer.learning_rate", "0.0002"},
        {"optimizer.weight_decay", "0.1"}},
       {"optimizer.params.weight_decay 0.1: there biases and norms are decayed too"}},  // adam_w_mode is Adam's alone
      {R"({"optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9, "nesterov": true}}})",
       {{"optimizer.name", "sgd"}, {"optimizer.momentum", "0.9"}},
       {"optimizer.params.nesterov true: not supported"}},
      {R"({"zero_optimization": {"stage": 2, "cpu_offload": true}})",
       {{"parallelism.zero_stage", "2"}},
       {"zero_optimization.stage 2: on one data parallel rank",
        "zero_optimization.cpu_offload true: optimizer.offload has no effect"}},
      {R"({"train_batch_size": 8, "zero_optimization": true})",
       {{"parallelism.zero_stage", "1"}},
       {"zero_optimization true: on one data parallel rank"}},
      {R"({"optimizer": {"type": "OneBitAdam", "params": {"lr": 0.1, "freeze_step": 9, "betas": [0.8, 0.9]}}})",
       {{"optimizer.learning_rate", "0.1"}, {"optimizer.beta1", "0.9"}},
       {"optimizer.type OneBitAdam: not supported"}},
      {R"({"optimizer": {"type": "Muon", "params": {"lr": 0.02, "momentum": 0.9}}})",
       {{"optimizer.name", "muon"},
        {"optimizer.beta2", "0.95"},
        {"optimizer.epsilon", "1e-10"},
        {"optimizer.momentum", "0.9"},
        {"optimizer.adjust_lr_fn", "original"}},
       {"optimizer.type Muon: which parameters"}},
      {R"({"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 5000, "warmup_type": "linear"}},
           "optimizer": {"type": "Adam", "params": {"lr": 5e-4}}})",
       {{"scheduler.name", "linear"},
        {"scheduler.warmup_steps", "1000"},
        {"training.max_steps", "5000"},
        {"optimizer.learning_rate", "0.001"}},
       {"scheduler.type WarmupDecayLR: each of its steps",
        "optimizer.params.lr 0.0005: the scheduler's warmup_max_lr goes before it"}},
      {R"({"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 50, "warmup_num_steps": 1}},
           "optimizer": {"type": "Adam", "params": {"lr": 5e-4}}})",
       {{"scheduler.name", "cosine"}, {"scheduler.warmup_steps", "2"}, {"scheduler.min_lr", "5e-08"}},
       {"scheduler.type WarmupCosineLR: its rate rises with the logarithm",
        "scheduler.type WarmupCosineLR: each step of its warm-up"}},
      {R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3}}})",
       {{"scheduler.name", "constant"}},
       {"scheduler.type OneCycle: not supported"}},
      {R"({"train_batch_size": 8, "zero_optimization": {"stage": 0, "overlap_comm": true}})",
       {{"parallelism.zero_stage", "0"}},
       {}},
      {R"({"activation_checkpointing": {"partition_activations": true, "number_checkpoints": 4},
           "tensor_parallel": {"autotp_size": 2}})",
       {{"activation_checkpointing.mode", "full"},
        {"activation_checkpointing.partition_activations", "true"},
        {"activation_checkpointing.number_checkpoints", "0"},
        {"parallelism.tensor_parallel_size", "2"}},
       {"activation_checkpointing.number_checkpoints 4: it is the size of a buffer there"}},
      {R"({"activation_checkpointing": {"partition_activations": false, "cpu_checkpointing": false}})",
       {{"activation_checkpointing.mode", "none"}},
       {}}};
  for (const OfDeepSpeed& one : cases) {
    const Imported imported = import_config_text("ds.json", one.file);
    EXPECT_EQ(read_keys(imported, one.keys), one.keys) << one.file << "\n" << imported.yaml;
    ASSERT_EQ(imported.left_out.size(), one.told.size())
        << one.file << "\n"
        << fmt::format("{}", fmt::join(imported.left_out, "\n"));
    for (std::size_t i = 0; i < one.told.size(); ++i)
      EXPECT_TRUE(imported.left_out[i].starts_with(one.told[i])) << imported.left_out[i];
  }
}

// Its "auto" is what TrainingArguments say, which hold it.
TEST(ImportTrainers, DeepSpeedInsideTrainingArguments) {
  const Imported imported = import_config_text("ta.json", R"({
    "max_steps": 10, "learning_rate": 1e-3, "optim": "adamw_torch", "max_grad_norm": 0.5,
    "deepspeed": {"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto",
                  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}},
                  "gradient_clipping": "auto", "steps_per_print": 7, "wandb": {"enabled": true}}})");
  const Keys expected{{"parallelism.zero_stage", "2"},
                      {"optimizer.learning_rate", "0.001"},
                      {"optimizer.max_grad_norm", "0.5"},
                      {"training.micro_batch_size", "8"},
                      {"logging.steps", "7"}};
  EXPECT_EQ(read_keys(imported, expected), expected) << imported.yaml;
  ASSERT_EQ(imported.left_out.size(), 2u) << fmt::format("{}", fmt::join(imported.left_out, "\n"));
  EXPECT_TRUE(
      imported.left_out[0].starts_with("deepspeed.zero_optimization.stage 2: on one data parallel rank"))
      << imported.left_out[0];
  EXPECT_TRUE(imported.left_out[1].starts_with("deepspeed.wandb")) << imported.left_out[1];
  const Imported alone =
      import_config_text("ds.json", R"({"optimizer": {"type": "AdamW", "params": {"betas": "auto"}}})");
  EXPECT_EQ(line_of(alone, "optimizer.params.betas"),
            "optimizer.params.betas auto: it is filled in from TrainingArguments: import these, too");
}

const char* const kAxolotl = R"(
base_model: /models/llama
datasets:
  - path: /data/a.jsonl
    type: completion
    field: body
  - path: teknium/GPT4-LLM-Cleaned
    type: alpaca
val_set_size: 0.1
output_dir: ./out
adapter: lora
lora_r: 16
lora_alpha: 32
lora_dropout: 0.05
lora_target_linear: true
lora_layers_to_transform: [0, 2]
sequence_len: 256
sample_packing: true
wandb_project:
gradient_accumulation_steps: 2
micro_batch_size: 3
num_epochs: 2
optimizer: adamw_8bit
lr_scheduler: cosine
cosine_min_lr_ratio: 0.1
learning_rate: 0.0002
bf16: auto
tf32: false
gradient_checkpointing: true
logging_steps: 1
flash_attention: true
warmup_ratio: 0.1
evals_per_epoch: 4
saves_per_epoch: 1
weight_decay: 0.01
)";

TEST(ImportTrainers, AxolotlsYaml) {
  const Imported imported = import_config_text("axo.yml", kAxolotl);
  EXPECT_NE(imported.yaml.find("axolotl's configuration"), std::string::npos) << imported.yaml;
  const Keys expected{{"lora.rank", "16"},
                      {"lora.alpha", "32"},
                      {"lora.targets", "[all-linear]"},
                      {"lora.layers_to_transform", "[0, 2]"},
                      {"data.sequence_length", "256"},
                      {"data.packing", "within"},
                      {"data.path", "[/data/a.jsonl]"},
                      {"data.format", "jsonl"},
                      {"data.columns.text", "body"},
                      {"training.gradient_accumulation_steps", "2"},
                      {"training.micro_batch_size", "3"},
                      {"training.epochs", "2"},
                      {"training.precision", "bf16"},
                      {"optimizer.name", "adamw8bit"},
                      {"optimizer.learning_rate", "0.0002"},
                      {"optimizer.weight_decay", "0.01"},
                      {"scheduler.name", "cosine"},
                      {"scheduler.warmup_ratio", "0.1"},
                      {"scheduler.min_lr", "2e-05"},
                      {"activation_checkpointing.mode", "full"},
                      {"evaluation.every_epochs", "0.25"},
                      {"snapshot.every_epochs", "1"},
                      {"snapshot.keep", "4"},
                      {"logging.steps", "1"},
                      {"output_dir", "./out"}};
  EXPECT_EQ(read_keys(imported, expected, {"evaluation.path=texts", "model.n_positions=256"}), expected)
      << imported.yaml;
  for (const char* told : {"datasets teknium/GPT4-LLM-Cleaned: write path: FILE",
                           "val_set_size 0.1: not supported", "base_model /models/llama: "})
    EXPECT_NE(line_of(imported, told).find(told), std::string::npos)
        << fmt::format("{}", fmt::join(imported.left_out, "\n"));
  for (const char* silent :
       {"wandb", "adapter", "lora_target", "optimizer adamw_torch", "micro_batch_size", "cosine_min"})
    EXPECT_TRUE(line_of(imported, silent).starts_with("nothing is said")) << line_of(imported, silent);
  EXPECT_EQ(read_keys(import_config_text("axo.yml",
                                         "base_model: x\nmicro_batch_size: 1\nsequence_len: 64\n"
                                         "learning_rate: 1e-4\nlora_r: 8\n"),
                      {{"lora.rank", ""},
                       {"scheduler.name", ""},
                       {"training.epochs", ""},
                       {"scheduler.warmup_ratio", ""}}),
            (Keys{{"lora.rank", "0"},
                  {"scheduler.name", "cosine"},
                  {"training.epochs", "1"},
                  {"scheduler.warmup_ratio", "0.03"}}))
      << "axolotl's defaults; without an adapter lora_r is nothing";
  const auto base = [](const std::string& lines) {
    return read_keys(import_config_text("axo.yml",
                                        "base_model: x\nmicro_batch_size: 1\nsequence_len: 64\n"
                                        "learning_rate: 1e-4\nlora_r: 8\n" +
                                            lines),
                     {{"lora.base", ""}, {"lora.double_quant", ""}});
  };
  const Keys nf4{{"lora.base", "nf4"}, {"lora.double_quant", "true"}};
  EXPECT_EQ(base("adapter: qlora\n"), nf4);
  EXPECT_EQ(base("adapter: qlora\nload_in_4bit: true\n"), nf4);
  EXPECT_EQ(base("adapter: lora\nload_in_8bit: true\n"),
            (Keys{{"lora.base", "int8"}, {"lora.double_quant", "false"}}));
  EXPECT_EQ(base("adapter: lora\nload_in_8bit: false\n"),
            (Keys{{"lora.base", "whole"}, {"lora.double_quant", "false"}}));
}

const char* const kTorchtitan = R"(
[job]
dump_folder = "./outputs"
description = "a run"
[profiling]
enable_profiling = false
[metrics]
log_freq = 5
enable_tensorboard = true
[model]
name = "llama3"
flavor = "debugmodel"
[optimizer]
name = "AdamW"
lr = 4e-3
eps = 1e-9
[lr_scheduler]
warmup_steps = 2
decay_ratio = 0.5
decay_type = "sqrt"
[training]
local_batch_size = 4
seq_len = 128
max_norm = 0.5
steps = 10
[parallelism]
data_parallel_shard_degree = 2
tensor_parallel_degree = 2
pipeline_parallel_degree = 2
[checkpoint]
enable_checkpoint = true
folder = "checkpoint"
interval = 5
[activation_checkpoint]
mode = "full"
)";

TEST(ImportTrainers, TorchtitansToml) {
  const Imported imported = import_config_text("titan", kTorchtitan);
  EXPECT_NE(imported.yaml.find("torchtitan's configuration"), std::string::npos) << imported.yaml;
  const Keys expected{{"output_dir", "./outputs"},
                      {"training.micro_batch_size", "4"},
                      {"training.max_steps", "10"},
                      {"training.precision", "bf16"},
                      {"data.sequence_length", "128"},
                      {"optimizer.name", "adamw"},
                      {"optimizer.learning_rate", "0.004"},
                      {"optimizer.beta2", "0.95"},
                      {"optimizer.epsilon", "1e-09"},
                      {"optimizer.weight_decay", "0.1"},
                      {"optimizer.decay_all", "true"},
                      {"optimizer.max_grad_norm", "0.5"},
                      {"scheduler.name", "warmup_stable_decay"},
                      {"scheduler.warmup_steps", "2"},
                      {"scheduler.decay_steps", "5"},
                      {"scheduler.decay_shape", "1-sqrt"},
                      {"parallelism.tensor_parallel_size", "2"},
                      {"parallelism.sequence_parallel", "true"},
                      {"parallelism.data_parallel_size", "2"},
                      {"parallelism.zero_stage", "3"},
                      {"snapshot.every_steps", "5"},
                      {"snapshot.path", "./outputs/checkpoint"},
                      {"snapshot.keep", "10"},
                      {"snapshot.asynchronous", "false"},
                      {"activation_checkpointing.mode", "full"},
                      {"logging.steps", "5"},
                      {"logging.report_to", "[jsonl, tensorboard]"}};
  EXPECT_EQ(read_keys(imported, expected), expected) << imported.yaml;
  std::vector<std::string> told = imported.left_out;
  std::sort(told.begin(), told.end());
  ASSERT_EQ(told.size(), 4u) << fmt::format("{}", fmt::join(told, "\n"));
  EXPECT_TRUE(told[0].starts_with("lr_scheduler.warmup_steps 2: each step of the warm-up")) << told[0];
  EXPECT_TRUE(told[1].starts_with("model.flavor debugmodel: ")) << told[1];
  EXPECT_TRUE(told[2].starts_with("model.name llama3: ")) << told[2];
  EXPECT_TRUE(told[3].starts_with("parallelism.pipeline_parallel_degree 2: not supported")) << told[3];
  try {
    import_config_text("titan", "[training]\nsteps = \n");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("titan:2:9: not valid TOML"), std::string::npos) << error.what();
  }
}

TEST(ImportTrainers, NamesOfNumberTypesAsTorchtitanHasThem) {
  for (const auto& [there, ours] : {std::pair("bfloat16", "bf16"), std::pair("float32", "fp32")}) {
    const Imported imported = import_config_text(
        "titan", fmt::format("[training]\nsteps = 5\nseq_len = 64\nmixed_precision_param = \"{}\"\n", there));
    const Keys expected{{"training.precision", ours}};
    EXPECT_EQ(read_keys(imported, expected), expected) << imported.yaml;
    EXPECT_TRUE(line_of(imported, "training.mixed").starts_with("nothing is said"))
        << line_of(imported, "training.mixed");
  }
}

TEST(ImportTrainers, AcceleratesYamlOfBothVersionsOfFsdp) {
  const auto stage = [](const std::string& fsdp, const std::string& expected) {
    const Imported imported =
        import_config_text("acc.yaml", "distributed_type: FSDP\nnum_processes: 4\n" + fsdp);
    const Keys keys{{"parallelism.zero_stage", expected}};
    EXPECT_EQ(read_keys(imported, keys, {"parallelism.data_parallel_size=4"}), keys) << imported.yaml;
    for (const std::string& line : imported.left_out)
      EXPECT_EQ(line.find("write zero_stage"), std::string::npos) << fsdp << line;
  };
  stage(
      "fsdp_config: {fsdp_sharding_strategy: FULL_SHARD, fsdp_auto_wrap_policy: X, fsdp_use_orig_params: "
      "true}\n",
      "3");
  stage("fsdp_config: {fsdp_version: 2, fsdp_state_dict_type: X}\n", "3");
  stage("fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: false}\n", "2");
  stage("fsdp_config: {fsdp_reshard_after_forward: SHARD_GRAD_OP}\n", "2");
  stage("parallelism_config: {parallelism_config_dp_shard_size: 4, parallelism_config_cp_size: 1}\n", "3");
}

TEST(ImportTrainers, NothingForTheNormIsNoClipping) {
  const Imported imported =
      import_config_text("args.json", R"({"per_device_train_batch_size": 2, "max_grad_norm": null})");
  const Keys expected{{"optimizer.max_grad_norm", "0"}};
  EXPECT_EQ(read_keys(imported, expected), expected) << imported.yaml;
}

TEST(ImportTrainers, OslosJson) {
  const Imported imported = import_config_text("oslo.json", R"({
    "model_parallelism": {"enable": true, "tensor_parallel_size": 4, "pipeline_parallel_size": 1,
                          "tensor_parallel_mode": "1D"},
    "activation_checkpointing": {"enable": true, "partitioned_checkpointing": true,
                                 "contiguous_checkpointing": true, "cpu_checkpointing": true},
    "kernel_fusion": {"memory_efficient_fusion": true}, "backend": "nccl"})");
  EXPECT_NE(imported.yaml.find("OSLO's configuration"), std::string::npos) << imported.yaml;
  const Keys expected{{"parallelism.tensor_parallel_size", "4"},
                      {"activation_checkpointing.mode", "full"},
                      {"activation_checkpointing.partition_activations", "true"},
                      {"activation_checkpointing.contiguous_checkpointing", "true"},
                      {"activation_checkpointing.cpu_checkpointing", "true"}};
  EXPECT_EQ(read_keys(imported, expected), expected) << imported.yaml;
  EXPECT_TRUE(imported.left_out.empty()) << imported.left_out.front();
  const Imported off = import_config_text("oslo.json", R"({
    "model_parallelism": {"enable": false, "tensor_parallel_size": 4},
    "activation_checkpointing": {"enable": false, "cpu_checkpointing": true}})");
  EXPECT_EQ(off.yaml.find("parallel_size"), std::string::npos) << off.yaml;
  EXPECT_EQ(off.yaml.find("cpu_checkpointing"), std::string::npos) << off.yaml;
}

}  // namespace
}  // namespace recollect::test::import_trainers_test
