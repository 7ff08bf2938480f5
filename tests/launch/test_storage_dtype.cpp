// storage_dtype is the one lossy choice: bf16 halves what is kept, exactly, and codes of 8 bits quarter it; where that is
// kept changes no bit; and whoever cannot mean it is told.
#include <gtest/gtest.h>

#include <cmath>

#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/report/checkpointing_report.h"
#include "tests/launch/process.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::storage_dtype_test {
namespace {

const char* const kYaml = R"(
model: {type: gpt2, vocab_size: 37, n_positions: 9, n_embd: 20, n_layer: 5, n_head: 4, n_inner: 36,
        initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, max_steps: 20, seed: 3}
optimizer: {name: adamw, learning_rate: 1e-2, weight_decay: 0.1}
data: {format: random, sequence_length: 8}
)";

const std::string kPacked = ac("storage_dtype=bf16"), kPartition = ac("partition_activations=true"),
                  kOnHost = ac("cpu_checkpointing=true"),
                  kDisk = ac("disk_checkpointing.path=") + std::filesystem::temp_directory_path().string();

Words ranks(int tensor) {
  return {"parallelism.tensor_parallel_size=" + std::to_string(tensor),
          "parallelism.ranks_per_process=" + std::to_string(tensor)};
}

class StorageDType : public ::testing::TestWithParam<std::string> {};

TEST_P(StorageDType, IsCloseAndTheSameWhereverItIsKept) {
  for (int tensor : {1, 2}) {
    const Words words = ranks(tensor) + Words{ac("mode=" + GetParam())};
    const Trained same = train(kYaml, words), packed = train(kYaml, words + Words{kPacked});
    EXPECT_EQ(same.steps[0].loss, packed.steps[0].loss) << "forward is not touched";
    EXPECT_FALSE(same.gradients == packed.gradients);
    EXPECT_LT(largest_difference(same.gradients, packed.gradients), 0.05);
    EXPECT_NE(same.steps.back().loss, packed.steps.back().loss);
    EXPECT_NEAR(same.steps.back().loss, packed.steps.back().loss, 0.02 * same.steps.back().loss);
    expect_same_bits(packed, train(kYaml, words + Words{kPacked}), "again");
    for (int where = 1; where < 16; ++where) {
      Words kept = words + Words{kPacked};
      if ((where & 1) && tensor == 1) continue;
      for (const auto& [bit, word] :
           {std::pair{1, kPartition}, {2, kOnHost}, {4, kDisk}, {8, ac("contiguous_checkpointing=false")}})
        if (where & bit) kept.push_back(word);
      expect_same_bits(packed, train(kYaml, kept), GetParam() + " " + std::to_string(where));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, StorageDType, ::testing::Values("none", "full", "recursive"));

TEST(StorageDType, OfDoublesToo) {
  const Words words = {"device.backend=reference", "device.threads=0", "training.precision=fp64",
                       "training.max_steps=3", ac("mode=full")};
  const Trained same = train(kYaml, words), packed = train(kYaml, words + Words{kPacked});
  EXPECT_FALSE(same.gradients == packed.gradients);
  EXPECT_LT(largest_difference(same.gradients, packed.gradients), 0.05);
  expect_same_bits(packed, train(kYaml, words + Words{kPacked, kOnHost}), "host");
}

// Codes and their scales are functions of what is stored: the same again, and wherever they wait.
TEST(StorageDType, OfEightBitsIsTheSameWhereverItIsKept) {
  for (const auto& [format, precision, tensor] :
       {std::tuple{"e4m3", "fp32", 1}, {"e5m2", "bf16", 1}, {"e4m3", "bf16", 2}}) {
    const Words words = ranks(tensor) + Words{"training.max_steps=2", ac("mode=full"),
                                              std::string("training.precision=") + precision};
    const Words in_codes = words + Words{ac("storage_dtype=") + format};
    const Trained same = train(kYaml, words), codes = train(kYaml, in_codes);
    EXPECT_EQ(codes.predicted, codes.measured);
    EXPECT_EQ(same.steps[0].loss, codes.steps[0].loss) << "forward is not touched";
    EXPECT_FALSE(same.gradients == codes.gradients);
    EXPECT_NEAR(same.steps.back().loss, codes.steps.back().loss, 0.02 * same.steps.back().loss);
    expect_same_bits(codes, train(kYaml, in_codes), "again");
    Words away = in_codes + Words{kOnHost, kDisk};
    if (tensor > 1) away.push_back(kPartition);
    expect_same_bits(codes, train(kYaml, away), format);
  }
}

ResidencyReport residency(const Words& words) {
  Config config = read_config_text("test.yaml", kYaml, words);
  resolve_planned_world(config);
  return plan_training(config, 0, 0).training.checkpointed.residency;
}

TEST(StorageDType, HalvesExactlyWhatIsKept) {
  for (int tensor : {1, 4}) {
    Words words = ranks(tensor) + Words{ac("mode=full"), kOnHost, kDisk};
    if (tensor > 1) words.push_back(kPartition);
    const ResidencyReport same = residency(words), packed = residency(words + Words{kPacked});
    EXPECT_GT(packed.to_disk_bytes, 0u);
    EXPECT_EQ(2 * packed.to_host_bytes, same.to_host_bytes);
    EXPECT_EQ(2 * packed.to_device_bytes, same.to_device_bytes);
    EXPECT_EQ(2 * packed.to_disk_bytes, same.to_disk_bytes);
    EXPECT_EQ(2 * packed.from_disk_bytes, same.from_disk_bytes);
    EXPECT_EQ(2 * packed.gathered_bytes, same.gathered_bytes);
    EXPECT_EQ(packed.packed_values, 4);
    EXPECT_EQ(packed.packed_saved_bytes, 4u * (2 * 8 * 20) * 2);
    const ResidencyReport codes = residency(words + Words{ac("storage_dtype=e4m3")});
    EXPECT_EQ(4 * codes.to_host_bytes, same.to_host_bytes);
    EXPECT_EQ(4 * codes.from_disk_bytes, same.from_disk_bytes);
    EXPECT_EQ(4 * codes.gathered_bytes, same.gathered_bytes);
    EXPECT_EQ(codes.packed_saved_bytes, 4u * ((2 * 8 * 20) * 3 - 4)) << "a scale of each stays";
  }
}

// Statistics keep their bits: they are few, and everything else depends on them.
TEST(StorageDType, LeavesStatisticsAlone) {
  Config config = read_config_text("test.yaml", kYaml, {kPacked});
  resolve_planned_world(config);
  const PlannedTraining planned = plan_training(config, 0, 0);
  int packed = 0;
  for (const Op& op : planned.training.program.graph.ops()) {
    if (op.def->name != "checkpoint_pack") continue;
    ++packed;
    EXPECT_EQ(op.name.find("/mean"), std::string::npos);
    EXPECT_GT(planned.training.program.graph.value(op.inputs[0]).shape.rank(), 1) << op.name;
  }
  EXPECT_GT(packed, 4 * 5);
}

TEST(StorageDType, IsRefusedWhereItCannotBeMeant) {
  const Workplace place;
  place.folder().write("odd.yaml", kYaml);
  const auto refusal = [&](const Words& words) {
    const Finished refused = place.recollect(Words{"train", "odd.yaml", kPacked} + words);
    EXPECT_EQ(refused.status, 2) << refused.err;
    return refused.err;
  };
  const auto says = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says(refusal({ac("mode=full"), ac("verify=true")}),
       "verify compares bits, and activation_checkpointing.storage_dtype");
  says(refusal({ac("mode=full"), "training.precision=bf16"}), "no effect with training.precision bf16");
  says(refusal({ac("storage_dtype=e4m3"), ac("mode=full"), ac("verify=true")}),
       "activation_checkpointing.storage_dtype e4m3 changes them");
  says(refusal({ac("mode=full"), "model.n_layer=1"}), "storage_dtype has no effect");
  says(refusal({ac("mode=full"), ac("keep_last=5")}),
       "keep_last 5 leaves the saved activations of all 5 layers");
  const Finished done = place.recollect(
      {"train", "odd.yaml", kPacked, ac("mode=full"), "training.max_steps=1", "logging.verbose=true"});
  EXPECT_EQ(done.status, 0) << done.err;
  says(done.out, "storage_dtype: bf16, lossy: 4 values stored in 0.00 MiB less");
  const Finished codes =
      place.recollect({"train", "odd.yaml", ac("storage_dtype=e4m3"), ac("mode=full"), "training.max_steps=1",
                       "training.precision=bf16", "output_dir=codes", "logging.verbose=true"});
  EXPECT_EQ(codes.status, 0) << codes.err;
  says(codes.out, "storage_dtype: e4m3, lossy: 4 values stored in 0.00 MiB less");
}

}  // namespace
}  // namespace recollect::test::storage_dtype_test
