// Names that other trainers have for the keys of activation_checkpointing: those that mean the same are
// accepted, those that do not are answered with what to write.
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

class ForeignKey : public ::testing::TestWithParam<Case> {};

TEST_P(ForeignKey, IsAnswered) { EXPECT_EQ(refusal(with_keys(GetParam().keys)), GetParam().expected); }

INSTANTIATE_TEST_SUITE_P(
    All, ForeignKey,
    ::testing::Values(
        Case{"synchronize_checkpoint_boundary: true",
             "c.yaml:3:28: 'synchronize_checkpoint_boundary' is a key of DeepSpeed; leave it out: streams "
             "wait for what "
             "they need, and only for that"},
        Case{"profile: true",
             "c.yaml:3:28: 'profile' is a key of DeepSpeed; leave it out: every run reports what each switch "
             "moved and "
             "the time it waited"},
        Case{"enable: true", "c.yaml:3:28: 'enable' is a key of OSLO; write mode: full, or mode: none"},
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
             "c.yaml:3:51: activation_checkpointing.mode: Megatron's selective runs the attention core "
             "again: write "
             "mode: selective and recompute: [attention]"},
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

TEST(ForeignKeys, AreAnsweredOnTheCommandLineAndInTheirSectionOnly) {
  EXPECT_EQ(refusal(kTwoRanks, {"activation_checkpointing.enable=true"}),
            "command line: activation_checkpointing.enable=true: 'enable' is a key of OSLO; write mode: "
            "full, or mode: "
            "none");
  EXPECT_EQ(
      refusal(kTwoRanks, {"activation_checkpointing.recompute_granularity=selective"}),
      "command line: activation_checkpointing.recompute_granularity=selective: "
      "activation_checkpointing.mode: "
      "Megatron's selective runs the attention core again: write mode: selective and recompute: [attention]");
  const Config last = accepted(kTwoRanks, {"activation_checkpointing.mode=selective",
                                           "activation_checkpointing.recompute_granularity=full"});
  EXPECT_EQ(last.activation_checkpointing.mode, CheckpointingMode::kFull);
  EXPECT_EQ(refusal(kTwoRanks + "training: {profile: true}\n"),
            "c.yaml:3:12: unknown key 'profile' in section 'training'");
}

TEST(DeviceModelKey, IsThatOfTheBackendAndIsChecked) {
  EXPECT_EQ(accepted(kLeast).device.model, "cpu");
  EXPECT_EQ(accepted(kLeast + "device: {backend: reference}\n").device.model, "cpu");
  EXPECT_EQ(read_config_text("c.yaml", kLeast + "device: {backend: cuda}\n", {}, {.cuda = true}).device.model,
            "h200");
  EXPECT_EQ(accepted(kLeast + "device: {model: h200}\n").device.model, "h200");
  EXPECT_EQ(refusal(kLeast + "device: {model: abacus}\n"),
            "c.yaml:2:17: device.model: no device model is called 'abacus'; cpu, h200, or a file that "
            "`recollect calibrate "
            "--out FILE` has written");
}

}  // namespace
}  // namespace recollect::test::config_foreign_test
