// The fourth promise: every key of activation_checkpointing that does nothing ends the run with the reason,
// and one of which a part does nothing has a remark in the reports. And none of this is said of a key that
// does something.
#include <gtest/gtest.h>

#include "engine/io/files.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/ranks/world.h"
#include "launch/report/checkpointing_report.h"
#include "tests/launch/modes.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::switch_effects_test {
namespace {

const char* const kSwitchEffectsYaml = R"(
model: {type: gpt2, vocab_size: 23, n_positions: 6, n_embd: 12, n_layer: 4, n_head: 2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 1, max_steps: 1}
data: {format: random}
)";

using Words = std::vector<std::string>;

// Words are keys of activation_checkpointing, but for those with a dot. "plan: TEXT" is a file of that text.
Words whole_words(const Words& keys, const TemporaryFolder& folder) {
  Words words;
  for (const std::string& key : keys) {
    const bool elsewhere = key.substr(0, key.find('=')).find('.') != std::string::npos;
    if (key.starts_with("plan: ")) {
      write_text_file(folder.file("plan.yaml"), key.substr(6));
      words.push_back("activation_checkpointing.plan=" + folder.file("plan.yaml"));
    } else {
      words.push_back(elsewhere ? key : "activation_checkpointing." + key);
    }
  }
  return words;
}

TrainingProgram plan(const Words& keys) {
  const TemporaryFolder folder;
  Config config = read_config_text("test.yaml", kSwitchEffectsYaml, whole_words(keys, folder));
  resolve_planned_world(config);
  return std::move(plan_training(config, 0, 0).training);
}

std::string refusal(const Words& keys) {
  try {
    plan(keys);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    return error.what();
  }
  return "accepted";
}

const std::string kTwo = "parallelism.tensor_parallel_size=2";

struct Case {
  Words keys;
  std::string says;  // a part of the message, or of the remark
};

void PrintTo(const Case& c, std::ostream* out) {
  for (const std::string& key : c.keys) *out << key << " ";
}

class InertSwitch : public ::testing::TestWithParam<Case> {};

TEST_P(InertSwitch, SaysWhy) {
  const std::string said = refusal(GetParam().keys);
  EXPECT_NE(said.find(GetParam().says), std::string::npos) << said;
}

INSTANTIATE_TEST_SUITE_P(
    Keys, InertSwitch,
    ::testing::Values(
        Case{{"mode=every_k", "k=4"},
             "mode every_k with k 4 has no effect: with 4 layers nothing is run again"},
        Case{{"mode=every_k", "k=9"}, "mode every_k with k 9 has no effect"},
        Case{{"mode=sqrt", "model.n_layer=2"}, "mode sqrt has no effect: with 2 layers nothing is run again"},
        Case{{"mode=constant_memory", "model.n_layer=1"},
             "mode constant_memory has no effect: with 1 layer nothing is run again"},
        Case{{"mode=selective", "lora.rank=2", "lora.dropout=0.2"},
             "mode selective has no effect: no gradient reads what norm and activation make"},
        Case{{"mode=recursive", "model.n_layer=1"}, "mode recursive has no effect"},
        Case{{"mode=full", "recompute=norm"}, "recompute has no effect without mode selective"},
        Case{{"mode=full", "k=2"}, "k has no effect without mode every_k"},
        Case{{"mode=full", "partition_activations=true"},
             "partition_activations has no effect with one tensor rank"},
        Case{{"partition_activations=true", kTwo, "parallelism.sequence_parallel=true"},
             "partition_activations has no effect under sequence parallelism"},
        Case{{"mode=full", "partition_activations=true", kTwo, "model.n_layer=1"},
             "partition_activations has no effect: in mode full every value that it could move is needed at "
             "once"},
        Case{{"mode=full", "cpu_checkpointing=true", "model.n_layer=1"}, "cpu_checkpointing has no effect"},
        Case{{"mode=every_k", "k=3", "cpu_checkpointing=true", "keep_last=3", "model.n_layer=3"},
             "keep_last 3 leaves the saved activations of all 3 layers where they are"},
        Case{{"mode=full", "keep_last=1"}, "keep_last has no effect: no saved activation leaves the device"},
        Case{{"mode=full", "prefetch=2"}, "prefetch has no effect: no saved activation leaves the device"},
        Case{{"plan: values: {layer*: recompute}", "keep_last=1"},
             "keep_last has no effect: no saved activation leaves the device"},
        Case{{"plan: values: {layer*: recompute}", "prefetch=1"},
             "prefetch has no effect: no saved activation leaves the device"},
        Case{{"plan: values: {layer0/mlp/gelu: host}", "keep_last=2"},
             "keep_last 2 has no effect: nothing that leaves is read by the last 2 layers"},
        Case{{"plan: values: {layer0/mlp/gelu: host}", "keep_last=0"},
             "keep_last 0 has no effect: nothing that leaves is read by the last layer"},
        Case{{"plan: values: {layer0/mlp/gelu: host}", "keep_last=4"},
             "keep_last 4 leaves the saved activations of all 4 layers"},
        Case{{"plan: values: {layer3/mlp/gelu: host}"}, "plan has no effect"},
        Case{{"plan: values: {'*': device}"}, "saves every activation on the device, as mode none does"},
        Case{{"plan: values: {'*': recompute}", "contiguous_checkpointing=false"},
             "contiguous_checkpointing false has no effect: no activation is saved that the pool could hold"},
        Case{{"plan: values: {layer*: partitioned}"}, "nothing can be partitioned over one tensor rank"},
        Case{{"verify=true"}, "verify has no effect: nothing is recomputed, gathered or brought back"}));

class PartlyInertSwitch : public ::testing::TestWithParam<Case> {};

TEST_P(PartlyInertSwitch, IsRemarked) {
  std::string all;
  for (const Remark& remark : plan(GetParam().keys).remarks)
    all += remark.key + ": " + remark.sentence + "\n";
  EXPECT_NE(all.find(GetParam().says + "\n"), std::string::npos) << all;
}

INSTANTIATE_TEST_SUITE_P(
    Keys, PartlyInertSwitch,
    ::testing::Values(
        Case{{"mode=full", "cpu_checkpointing=true"},
             "cpu_checkpointing: 2 values needed at once and not moved: 1 read after the last layer, 1 read "
             "first by the "
             "last layer (keep_last)"},
        Case{{"mode=full", "cpu_checkpointing=true", "keep_last=3"},
             "cpu_checkpointing: 4 values needed at once and not moved: 1 read after the last layer, 3 read "
             "first by the "
             "last 3 layers (keep_last)"},
        // Of each layer: qkv, attention and its statistics, fc1, gelu.
        Case{{"partition_activations=true", kTwo},
             "partition_activations: 20 values divided over the tensor ranks already"},
        Case{{"mode=full", "cpu_checkpointing=true", "prefetch=9"},
             "prefetch: is no earlier than 4 would be"},
        Case{{"plan: values: {layer0/mlp/gelu: host, layer2/mlp/gelu: host}", "keep_last=3"},
             "keep_last: keeps no more than 2 would"},
        Case{{"plan: values: {layer*: partitioned}", kTwo},
             "plan: 20 values divided over the tensor ranks already"},
        Case{{"plan: values: {layer*/mlp/gelu: host}"},
             "plan, host: 1 value needed at once and not moved: 1 read first by the last layer (keep_last)"},
        Case{{"mode=selective", "recompute=[mlp, activation]"},
             "recompute: activation adds nothing to the other groups"}));

std::string remark_on(const std::string& key, const Words& keys) {
  for (const Remark& remark : plan(keys).remarks)
    if (remark.key == key) return remark.sentence;
  return "";
}

// sqrt holds all of sqrt(n) layers and runs each but the last of a segment to its end again; full holds one
// layer, and runs none to its end. The remark is true by the numbers of `estimate`.
TEST(Compromise, IsRemarkedWhereFullIsPredictedToBeBetterInBoth) {
  const auto predicted = [](const char* mode, int layers) {
    Config config = read_config_text(
        "test.yaml", kSwitchEffectsYaml,
        {"model.n_embd=64", "data.sequence_length=6", "device.model=h200",
         "model.n_layer=" + std::to_string(layers), std::string("activation_checkpointing.mode=") + mode});
    resolve_planned_world(config);
    return estimate(config, Ranks::kFirst);
  };
  bool seen[2] = {};
  for (const int layers : {4, 9, 36}) {
    const Estimate sqrt = predicted("sqrt", layers), full = predicted("full", layers);
    const bool worse = full.memory.arena_bytes() < sqrt.memory.arena_bytes() &&
                       full.simulation.step_seconds < sqrt.simulation.step_seconds;
    seen[worse] = true;
    ASSERT_EQ(sqrt.remarks.size(), worse ? 1u : 0u) << layers;
    EXPECT_TRUE(full.remarks.empty());
    if (!worse) continue;
    EXPECT_EQ(sqrt.remarks[0].key, "mode");
    EXPECT_NE(sqrt.remarks[0].sentence.find("full would be better in both: predicted "), std::string::npos);
  }
  EXPECT_TRUE(seen[false] && seen[true]) << "the comparison has seen only one outcome";
}

TEST(Bucket, LargerThanAllGradientsIsRemarked) {
  const std::string two = "parallelism.data_parallel_size=2", bucket = "parallelism.gradient_bucket_mb=";
  EXPECT_EQ(remark_on("gradient_bucket_mb", {two}), "");  // a default never complains
  EXPECT_EQ(remark_on("gradient_bucket_mb", {two, bucket + "50"}),
            "all gradients are one bucket, as with 25");
  EXPECT_EQ(remark_on("gradient_bucket_mb", {two, bucket + "1"}), "all gradients are one bucket, as with 25");
}

TEST(ShortRun, IsRemarkedInThePlanToo) {
  const std::string why = "no effect with scheduler.warmup_steps 0 and scheduler.warmup_ratio 0 and ";
  EXPECT_EQ(remark_on("scheduler.name", {"scheduler.name=cosine", "training.max_steps=1"}),
            why + "training.max_steps 1: no step comes after the one with the highest learning rate");
  Words evaluation = {"optimizer.beta1=0.5", "training.max_steps=0", "evaluation.every_steps=1",
                      "evaluation.batches=1", "evaluation.format=random"};
  EXPECT_EQ(remark_on("optimizer.beta1", evaluation),
            "no effect with training.max_steps 0: nothing is trained");
  evaluation.emplace_back("mode=full");
  EXPECT_EQ(remark_on("training.max_steps 0", evaluation),
            "only evaluates; without effect: activation_checkpointing.mode, optimizer.beta1");
  EXPECT_EQ(remark_on("optimizer.beta1", {"optimizer.beta1=0.5"}), "");
}

TEST(Effective, KeysAreAcceptedWithoutRemarks) {
  for (const Words& keys :
       {Words{"mode=every_k", "k=3"}, Words{"mode=selective", "recompute=[attention, norm]"},
        Words{"mode=selective", "recompute=norm", kTwo}, Words{"mode=full", "verify=true"},
        Words{"contiguous_checkpointing=false"}, Words{"plan: values: {layer0/mlp/gelu: host}"},
        Words{"plan: values: {layer0/mlp/gelu: recompute}"}})
    EXPECT_TRUE(plan(keys).remarks.empty()) << keys.front();
  for (const std::string_view mode : kModes) EXPECT_TRUE(plan(mode_keys(mode)).remarks.empty()) << mode;
}

TEST(NumberCheckpoints, MustBeWhatTheModeKeeps) {
  const auto with = [](const std::string& mode, int number) {
    Words keys = mode_keys(mode);
    keys.push_back("number_checkpoints=" + std::to_string(number));
    return refusal(keys);
  };
  // every_k saves the inputs of layers 0 and 2, and everything of the last two layers.
  const std::pair<const char*, int> saved[] = {{"none", 4},           {"full", 4}, {"selective", 4},
                                               {"every_k", 3},        {"sqrt", 3}, {"recursive", 3},
                                               {"constant_memory", 2}};
  EXPECT_EQ(std::size(saved), kModes.size());
  for (const auto& [mode, number] : saved) {
    EXPECT_EQ(with(mode, number), "accepted") << mode;
    EXPECT_EQ(with(mode, number + 1), "activation_checkpointing.number_checkpoints is " +
                                          std::to_string(number + 1) + ", but mode " + mode + " saves " +
                                          std::to_string(number) + " layer inputs of 4");
  }
  EXPECT_NE(refusal({"plan: values: {layer*: recompute}", "number_checkpoints=3"})
                .find("saves 1 layer inputs of 4"),
            std::string::npos);
}

// The report of a run names what was chosen, and by whom, and has every remark once.
TEST(CheckpointingReport, SaysWhatWasChosenAndWhatDoesNothing) {
  Config config =
      read_config_text("test.yaml", kSwitchEffectsYaml,
                       {"activation_checkpointing.mode=full", "activation_checkpointing.prefetch=9",
                        "activation_checkpointing.cpu_checkpointing=true"});
  std::unique_ptr<MpiEnvironment> mpi;
  run_ranks(config, mpi, [&](Communicator& world) {
    resolve_world(config, 1);
    Session session(config, world);
    session.step();
    std::map<std::string, std::string> lines;
    for (const auto& [key, sentence] : checkpointing_report(config, session.measurements(), {}))
      EXPECT_TRUE(lines.emplace(key, sentence).second) << key;
    EXPECT_EQ(lines["keep_last"], "1 (simulated)");
    EXPECT_EQ(lines["prefetch"], "9 (given); is no earlier than 4 would be");
    EXPECT_NE(lines["cpu_checkpointing"].find("; 2 values needed at once"), std::string::npos);
    EXPECT_NE(lines["cpu_checkpointing"].find("; cost "), std::string::npos) << lines["cpu_checkpointing"];
    const Executor& executor = session.executor();
    EXPECT_GT(executor.processor_seconds(StreamId::kDeviceToHost), 0) << "what copies took of the processor";
    EXPECT_GT(executor.processor_seconds(StreamId::kHostToDevice), 0);
    EXPECT_EQ(executor.processor_seconds(StreamId::kCompute), 0);
    EXPECT_EQ(executor.processor_seconds(StreamId::kDisk), 0);
  });
}

}  // namespace
}  // namespace recollect::test::switch_effects_test
