// Names that other trainers have for the keys of activation_checkpointing: those that mean the same are
// accepted, those that do not are answered with what to write.
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/io/spelling.h"
#include "launch/config/foreign_keys.h"
#include "launch/config/keys.h"
#include "tests/launch/config_test_support.h"

namespace recollect::test::config_foreign_test {
namespace {

const std::string kTwoRanks = kLeast + "parallelism: {tp: 2}\n";

std::string with_keys(const std::string& keys) {
  return kTwoRanks + "activation_checkpointing: {" + keys + "}\n";
}

TEST(ForeignKeys, ThatMeanOursAreAliases) {
  using Keys = CheckpointingSettings;
  const auto read = [](const std::string& keys) -> Keys {
    return accepted(with_keys(keys)).activation_checkpointing;
  };
  for (const char* deepspeed_oslo_megatron :
       {"partition_activations", "partitioned_checkpointing", "distribute_saved_activations"})
    EXPECT_TRUE(read(std::string(deepspeed_oslo_megatron) + ": true").partition_activations);
  for (const char* name : {"cpu_checkpointing", "cpu_offloading"})
    EXPECT_TRUE(read(std::string(name) + ": true").cpu_checkpointing) << name;
  for (const char* name : {"contiguous_checkpointing", "contiguous_memory_optimization"})
    EXPECT_FALSE(read(std::string(name) + ": false").contiguous_checkpointing) << name;
  EXPECT_EQ(read("number_checkpoints: 12").number_checkpoints, 12);
  EXPECT_EQ(read("recompute_granularity: full").mode, CheckpointingMode::kFull);
}

struct Case {
  const char* keys;
  const char* expected;  // the whole message
};

class KeyOfOthers : public ::testing::TestWithParam<Case> {};

TEST_P(KeyOfOthers, IsAnswered) { EXPECT_EQ(refusal(with_keys(GetParam().keys)), GetParam().expected); }

INSTANTIATE_TEST_SUITE_P(
    All, KeyOfOthers,
    ::testing::Values(
        Case{"synchronize_checkpoint_boundary: true",
             "c.yaml:3:28: 'synchronize_checkpoint_boundary' is a key of DeepSpeed; leave it out: streams "
             "wait for what "
             "they need, and only for that"},
        Case{"profile: true",
             "c.yaml:3:28: 'profile' is a key of DeepSpeed; leave it out: every run reports what each switch "
             "moved and "
             "the time it waited"},
        Case{"enable: true",
             "c.yaml:3:28: 'enable' of OSLO is activation_checkpointing.mode here; write mode: full"},
        Case{"recompute_method: uniform",
             "c.yaml:3:28: 'recompute_method' is a key of Megatron; uniform is mode: every_k, or mode: full "
             "with one "
             "layer in each group; block needs a file of decisions, plan: FILE"},
        Case{"recompute_num_layers: 2",
             "c.yaml:3:28: 'recompute_num_layers' is a key of Megatron; with recompute_method uniform write "
             "mode: "
             "every_k and k, of which the last group is not run again, or mode: full for 1; with block, "
             "plan: FILE"},
        Case{"recompute_modules: [core_attn]",
             "c.yaml:3:28: 'recompute_modules' is a key of Megatron; write mode: selective and recompute, a "
             "list: "
             "core_attn is attention, layernorm is norm, mlp is mlp here"},
        Case{"recompute_granularity: selective",
             "c.yaml:3:51: activation_checkpointing.mode: for 'selective' write mode: selective and "
             "recompute: "
             "[attention]; Megatron's runs the attention core again"},
        Case{"cpu_offloading_num_layers: 3",
             "c.yaml:3:28: 'cpu_offloading_num_layers' is a key of Megatron; it counts the layers whose "
             "values leave: "
             "write keep_last, which counts those at the end whose values stay"},
        Case{"activation_offload_fraction: 0.5",
             "c.yaml:3:28: 'activation_offload_fraction' is a key of Megatron; write keep_last, the layers "
             "at the end "
             "whose values stay, or decide for every value in a file: plan: FILE"},
        Case{"mode: full, recompute_granularity: full",
             "c.yaml:3:40: 'mode' and 'recompute_granularity' are the same key"},
        Case{"partition_activations: true, partitioned_checkpointing: true",
             "c.yaml:3:57: 'partition_activations' and 'partitioned_checkpointing' are the same key"},
        Case{"cpu_offloading: true, cpu_checkpointing: true",
             "c.yaml:3:50: 'cpu_offloading' and 'cpu_checkpointing' are the same key"},
        Case{"number_checkpoints: -1",
             "c.yaml:3:48: activation_checkpointing.number_checkpoints: -1 is out of range; must be in [0, "
             "65536]"}));

TEST(ForeignKeys, AreAnsweredOnTheCommandLine) {
  EXPECT_EQ(
      refusal(kTwoRanks, {"activation_checkpointing.enable=true"}),
      "command line: activation_checkpointing.enable=true: 'activation_checkpointing.enable' of OSLO is "
      "activation_checkpointing.mode here; write activation_checkpointing.mode=full");
  EXPECT_EQ(refusal(kTwoRanks, {"activation_checkpointing.recompute_granularity=selective"}),
            "command line: activation_checkpointing.recompute_granularity=selective: "
            "activation_checkpointing.mode: for 'selective' write activation_checkpointing.mode=selective "
            "'activation_checkpointing.recompute=[attention]'; Megatron's runs the attention core again");
  const Config last = accepted(kTwoRanks, {"activation_checkpointing.mode=selective",
                                           "activation_checkpointing.recompute_granularity=full"});
  EXPECT_EQ(last.activation_checkpointing.mode, CheckpointingMode::kFull);
  EXPECT_EQ(refusal(kTwoRanks + "training: {profile: true}\n"),
            "c.yaml:3:12: unknown key 'profile' in section 'training'")
      << "a word of no one's own is theirs in its section only";
}

// The key of a path in any family's table, or null.
const ConfigKey* key_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  const bool top = dot == std::string_view::npos;
  const std::string section(path.substr(0, top ? 0 : dot)), name(path.substr(top ? 0 : dot + 1));
  for (const ModelFamily& family : model_families())
    if (const ConfigKey* key = KeyTable::of(family).find(section, name)) return key;
  return nullptr;
}

// What the reader of that key says of a value; "" where it takes it.
std::string reading(const ConfigKey& key, std::string_view value) {
  Config config = KeyTable::of(model_families().front()).defaults();
  Problems problems;
  YamlNode node = parse_document("value", std::string(value), problems);
  if (node.kind == YamlNode::Kind::kNull) node.kind = YamlNode::Kind::kScalar;
  return key.read(config, node);
}

TEST(ForeignTables, NamesAreUniqueAndMeanKeysThatThereAre) {
  const KeyTable table;
  std::set<std::string_view> names;
  for (const ForeignName& alias : foreign_names()) {
    EXPECT_TRUE(names.insert(alias.name).second) << alias.name;
    const ConfigKey* key = key_of(alias.ours);
    ASSERT_TRUE(key) << alias.ours;
    EXPECT_EQ(key->path(), alias.ours) << "itself an alias";
    EXPECT_NE(key->name, alias.name);
    EXPECT_EQ(table.find(key->section, std::string(alias.name))->path(), key->path());
  }
  for (const ForeignKey& row : foreign_keys()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(row.ours.empty() || key_of(row.ours)) << row.name << " is no " << row.ours;
    EXPECT_FALSE(row.ours.empty() && row.advice.empty()) << row.name;
    EXPECT_FALSE(row.of.empty()) << row.name;
  }
}

TEST(ForeignTables, ValuesAreTranslatedToWhatIsReadAndHideNothingOfOurs) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const ForeignValue& row : foreign_values()) {
    EXPECT_TRUE(seen.emplace(row.key, row.value).second) << row.key << " " << row.value;
    EXPECT_FALSE(row.writes.empty() && row.advice.empty()) << row.key << " " << row.value;
    const ConfigKey* const ours = key_of(row.key);
    const bool is_theirs = translate_foreign(row.key, std::nullopt).has_value();
    EXPECT_TRUE(ours || is_theirs) << row.key;
    const bool is_path = ours && ours->path() == row.key;
    std::string_view path = ours ? std::string_view(row.key) : "";
    if (is_theirs && !is_path) path = translate_foreign(row.key, std::nullopt)->ours;
    for (const auto& [target, value] : writes_of(row, path, std::string(row.value))) {
      const ConfigKey* const key = key_of(target);
      ASSERT_TRUE(key) << row.key << " " << row.value << " writes " << target;
      EXPECT_EQ(reading(*key, value), "") << row.key << " " << row.value;
    }
    if (is_path && ours->type != "text") {
      EXPECT_NE(reading(*ours, row.value), "") << row.key << " takes " << row.value << " itself";
    }
  }
}

// A new rule or shape is named where others are said not to be there.
TEST(ForeignTables, SayWhatThereIsInstead) {
  for (const char* path : {"optimizer.name", "scheduler.name"}) {
    const std::vector<std::string> choices = key_of(path)->choices;
    const std::vector<std::string> first(choices.begin(), choices.end() - 1);
    const std::string all =
        fmt::format("not supported: {} and {} are", fmt::join(first, ", "), choices.back());
    for (const ForeignValue& row : foreign_values())
      if (row.key == path && row.writes.empty()) {
        EXPECT_EQ(row.advice, all) << row.value;
      }
  }
}

// The fields of Transformers 5.24's TrainingArguments.
constexpr const char* kTrainingArguments =
    "output_dir per_device_train_batch_size num_train_epochs max_steps learning_rate "
    "lr_scheduler_type lr_scheduler_kwargs warmup_steps optim optim_args weight_decay adam_beta1 "
    "adam_beta2 adam_epsilon optim_target_modules gradient_accumulation_steps "
    "average_tokens_across_devices max_grad_norm label_smoothing_factor bf16 fp16 bf16_full_eval "
    "fp16_full_eval tf32 activation_checkpointing activation_checkpointing_kwargs "
    "gradient_checkpointing gradient_checkpointing_kwargs torch_compile torch_compile_backend "
    "torch_compile_mode use_liger_kernel liger_kernel_config use_cache neftune_noise_alpha "
    "torch_empty_cache_steps auto_find_batch_size logging_strategy logging_steps "
    "logging_first_step log_on_each_node logging_nan_inf_filter include_num_input_tokens_seen "
    "log_level log_level_replica disable_tqdm report_to run_name project trackio_space_id "
    "trackio_bucket_id trackio_static_space_id eval_strategy eval_steps eval_delay "
    "per_device_eval_batch_size prediction_loss_only eval_on_start eval_do_concat_batches "
    "eval_use_gather_object eval_accumulation_steps include_for_metrics batch_eval_metrics "
    "save_only_model save_strategy save_steps save_on_each_node save_total_limit "
    "enable_jit_checkpoint push_to_hub hub_token hub_private_repo hub_model_id hub_strategy "
    "hub_always_push hub_revision load_best_model_at_end metric_for_best_model greater_is_better "
    "ignore_data_skip restore_callback_states_from_checkpoint full_determinism seed data_seed "
    "use_cpu accelerator_config parallelism_config dataloader_drop_last dataloader_num_workers "
    "dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor "
    "dataloader_multiprocessing_context dataloader_in_order remove_unused_columns label_names "
    "train_sampling_strategy length_column_name ddp_find_unused_parameters ddp_bucket_cap_mb "
    "ddp_broadcast_buffers ddp_static_graph ddp_backend ddp_timeout fsdp fsdp_config deepspeed "
    "debug skip_memory_metrics do_train do_eval do_predict resume_from_checkpoint local_rank";

TEST(ForeignTables, KnowEveryTrainingArgument) {
  const KeyTable table;
  std::istringstream names(kTrainingArguments);
  for (std::string name; names >> name;)
    EXPECT_TRUE(translate_foreign(name, std::nullopt) || !table.named(name).empty()) << name;
}

// Names that a key of another section has too, or almost, with another meaning.
constexpr Case kElsewhereToo[] = {
    {"dtype: float16",
     "'dtype' of Transformers is training.precision here; write precision: fp16 in section 'training'"},
    {"training: {dtype: bfloat16}",
     "'dtype' of Transformers is training.precision here; write precision: bf16"},
    {"dtype: uint16", "'dtype' of Transformers is data.dtype here; write dtype: uint16 in section 'data'"},
    {"activation_checkpointing: {dtype: bf16}",
     "'dtype' of PyTorch is activation_checkpointing.storage_dtype here; write storage_dtype: bf16"},
    {"activation_checkpointing: {policy: full}",
     "'policy' of PyTorch is activation_checkpointing.mode here; write mode: full"},
    {"activation_checkpointing: {offload: true}",
     "'offload' of FSDP is activation_checkpointing.cpu_checkpointing here; write cpu_checkpointing: true"},
    {"activation_checkpointing: {path: x}",
     "unknown key 'path' in section 'activation_checkpointing'; 'path' belongs in section "
     "'activation_checkpointing.disk_checkpointing'"},
    {"checkpointing: full",
     "'checkpointing' of PyTorch is activation_checkpointing.mode here; write mode: full in section "
     "'activation_checkpointing'"},
    {"offload: true",
     "'offload' is a key of DeepSpeed; write offload in section 'optimizer' for its states, or "
     "cpu_checkpointing: true in section 'activation_checkpointing' for activations"},
    {"backend: nccl",
     "'backend' of PyTorch is parallelism.communicator here; write communicator: auto in section "
     "'parallelism'; with device.backend cuda that is NCCL"},
    {"device: {type: cuda}", "'type' of PyTorch is device.backend here; write backend: cuda"},
    {"model: {dropout: 0.1}",
     "'dropout' is a key of nanoGPT; write the model's, as its config.json calls them, in section 'model'; "
     "`recollect config "
     "reference` lists those of each type"},
    {"model: {name: gpt2}",
     "'name' is a key of torchtitan; write type and sizes in section 'model', or pretrained: FOLDER"},
    {"model: {d_model: 64}",
     "'d_model' is a key of PyTorch; write it as the model's config.json calls it, in section 'model'"},
    {"load_checkpoint: x", "'load_checkpoint' of PyTorch is resume here; write resume: x"},
    {"snapshot: {keep_last: 4}", "'keep_last' of PyTorch is snapshot.keep here; write keep: 4"},
    {"evaluation: {dataset: x}",
     "'dataset' is a key of PyTorch; write path: FILE; there are no data sets by name"},
    {"data: {format: random, label: y}",
     "unknown key 'label' in section 'data'; 'label' belongs in section 'data.columns'"},
    {"data: {format: random, type: jsonl}", "unknown key 'type' in section 'data'"},
    {"checkpoint: {format: safetensors}", "unknown key 'format' in section 'checkpoint'"},
    {"parallelism: {ranks: 2}", "unknown key 'ranks' in section 'parallelism'"},
    {"lora: {layers: [1]}", "unknown key 'layers' in section 'lora'"},
    {"steps: 10", "unknown key 'steps'"},
    {"name: x", "unknown key 'name'"},
};
constexpr Case kElsewhereTooAsWords[] = {
    {"dtype=float16", "'dtype' of Transformers is training.precision here; write training.precision=fp16"},
    {"evaluation.steps=10", "unknown key 'steps' in section 'evaluation'; did you mean 'every_steps'?"},
    {"profiling.steps=3", "unknown key 'steps' in section 'profiling'; did you mean 'step'?"},
    {"data.label=y", "unknown key 'label'; write data.columns.label=y"},
    {"data.type=jsonl", "unknown key 'type' in section 'data'"},
    {"device.type=cuda", "'device.type' of PyTorch is device.backend here; write device.backend=cuda"},
};

// A refusal behind its place, in a file or on the command line.
std::string said_behind(const std::string& place, const std::string& refusal) {
  EXPECT_TRUE(refusal.starts_with(place)) << refusal;
  const std::string line = refusal.substr(place.size(), refusal.find('\n') - place.size());
  return line.substr(line.find(": ") + 2);
}

TEST(Hints, NameNoKeyOfAnotherMeaning) {
  for (const auto& [said, answer] : kElsewhereToo) {
    const std::string text = std::string(said) + "\n";
    EXPECT_EQ(said_behind("c.yaml:", refusal(text.starts_with("data:") ? text : kLeast + text)), answer)
        << said;
  }
  for (const auto& [said, answer] : kElsewhereTooAsWords)
    EXPECT_EQ(said_behind("command line: ", refusal(kLeast, {said})), answer) << said;
}

// No hint takes a word for another that means something else, however few letters differ.
TEST(Hints, ExchangeNoWords) {
  const auto near = [](std::string_view word, std::vector<std::string_view> candidates) {
    return nearest(word, candidates);
  };
  EXPECT_EQ(near("save_steps", {"eval_steps"}), "");
  EXPECT_EQ(near("max_lr", {"min_lr"}), "");
  EXPECT_EQ(near("test_size", {"n_best_size"}), "") << "nor adds some";
  EXPECT_EQ(near("adam_beta3", {"adam_beta1"}), "") << "nor digits";
  EXPECT_EQ(near("bf61", {"bf16"}), "bf16");
  EXPECT_EQ(near("maxstep", {"max_steps"}), "max_steps");
  EXPECT_EQ(near("per_device_eval_batch_size", {"per_device_train_batch_size"}), "");
  EXPECT_EQ(near("gpu", {"cpu"}), "");
  EXPECT_EQ(near("pp", {"tp"}), "");
  EXPECT_EQ(near("a_bcdefgh", {"abcdefg_h"}), "") << "words of other lengths";
  EXPECT_EQ(near("max_stps", {"min_steps", "max_steps"}), "max_steps");
  EXPECT_EQ(near("rl", {"lr"}), "lr");
  EXPECT_EQ(near("cpi", {"cpu"}), "cpu");
  EXPECT_EQ(near("maxsteps", {"max_steps"}), "max_steps");
  EXPECT_EQ(near("tensor_paralel_sise", {"tensor_parallel_size"}), "tensor_parallel_size");
}

TEST(DeviceModelKey, IsThatOfTheBackendAndIsChecked) {
  EXPECT_EQ(accepted(kLeast).device.model, "cpu");
  EXPECT_EQ(accepted(kLeast + "device: {backend: reference}\n").device.model, "cpu");
  EXPECT_EQ(read_config_text("c.yaml", kLeast + "device: {backend: cuda}\n", {}, {.cuda = true}).device.model,
            "h200");
  EXPECT_EQ(accepted(kLeast + "device: {model: h200}\n").device.model, "h200");
  EXPECT_EQ(refusal(kLeast + "device: {model: abacus}\n"),
            "c.yaml:2:17: device.model: no device model is called 'abacus'; cpu, h200, h100, a100, b200, "
            "v100, rtx3090, rtx4090, or a file "
            "that `recollect calibrate --out FILE` has written");
}

}  // namespace
}  // namespace recollect::test::config_foreign_test
