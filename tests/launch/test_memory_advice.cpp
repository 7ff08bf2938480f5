// What a run is told that does not fit: keys that take less of what takes most, and none that it has already.
#include <gtest/gtest.h>

#include "launch/program/memory_advice.h"
#include "tests/launch/config_test_support.h"

namespace recollect {
namespace {

MemoryLedger mostly(Category category) {
  MemoryLedger memory;
  memory.persistent_bytes = uint64_t{6} << 30;
  memory.at_peak[1][static_cast<std::size_t>(Category::kInput)] = 1 << 20;
  memory.at_peak[1][static_cast<std::size_t>(category)] = uint64_t{5} << 30;
  return memory;
}

struct Case {
  Category category;
  std::vector<std::string> words, said, unsaid;
};

TEST(MemoryAdvice, IsOfWhatTakesMostAndIsNotDoneYet) {
  const std::string adam8 = "optimizer.name: adamw8bit", disk = "optimizer.offload: disk",
                    zero = "zero_stage: 1", full = "activation_checkpointing.mode: full",
                    batch = "training.micro_batch_size below 4", bf16 = "training.precision: bf16",
                    recursive = "activation_checkpointing.mode: recursive";
  for (const Case& c :
       {Case{Category::kOptimizer, {}, {"most of it is optimizer, ", adam8, disk, zero}, {full, batch, bf16}},
        Case{Category::kOptimizer, {"optimizer.name=adamw8bit"}, {disk}, {adam8}},
        Case{
            Category::kOptimizer, {"optimizer.offload=disk", "optimizer.offload_path=/tmp"}, {adam8}, {disk}},
        Case{Category::kGradient,
             {},
             {"parallelism.zero_stage: 2 over several data ranks", bf16},
             {adam8, full}},
        Case{Category::kParameter, {}, {bf16, "parallelism.zero_stage: 3"}, {adam8, full}},
        Case{Category::kParameter, {"training.precision=bf16"}, {"parallelism.zero_stage: 3"}, {bf16}},
        Case{Category::kActivation,
             {"training.micro_batch_size=4"},
             {full, batch, "disk_checkpointing.path", "data.sequence_length below"},
             {adam8, bf16}},
        Case{Category::kActivation,
             {"activation_checkpointing.mode=full"},
             {recursive},
             {full, "micro_batch_size"}},
        Case{Category::kWorkspace, {"training.micro_batch_size=4"}, {batch, full}, {adam8}}}) {
    const Config config = accepted(kLeast, c.words);
    const auto error =
        machine_is_too_small(config, mostly(c.category), uint64_t{12} << 30, 2, uint64_t{8} << 30);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ExitCode::kDeviceMemory);
    const std::string text = error->what() + std::string("\n") + error->hint();
    EXPECT_EQ(
        text.find(
            "the run needs 12.00 GiB for 2 ranks, and this machine has 8.00 GiB; a rank's arena is 6.00 GiB, "
            "and most of it is "),
        0u)
        << text;
    for (const std::string& said : c.said)
      EXPECT_NE(text.find(said), std::string::npos) << said << ": " << text;
    for (const std::string& unsaid : c.unsaid)
      EXPECT_EQ(text.find(unsaid), std::string::npos) << unsaid << ": " << text;
  }
  const Config config = accepted(kLeast);
  EXPECT_FALSE(machine_is_too_small(config, {}, 10, 1, 10));
  EXPECT_FALSE(machine_is_too_small(config, {}, 11, 1, std::nullopt));
}

}  // namespace
}  // namespace recollect
