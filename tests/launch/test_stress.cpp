// Bits do not depend on when side streams get their turn, nor on what is in memory that nobody lives in.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/launch/modes.h"
#include "tests/launch/stress_probes.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::stress_test {
namespace {

const char* const kStressYaml = R"(
model: {type: gpt2, vocab_size: 37, n_positions: 9, n_embd: 20, n_layer: 5, n_head: 4, n_inner: 36,
        initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, gradient_accumulation_steps: 2, max_steps: 3, seed: 3}
optimizer: {name: adamw, learning_rate: 1e-2, weight_decay: 0.1}
data: {format: random, sequence_length: 7}
)";

std::vector<std::string> words(int tensor, std::string_view mode, bool partition, bool host, bool contiguous,
                               const std::string& disk = "") {
  const std::string key = "activation_checkpointing.";
  std::vector<std::string> list = mode_words(mode);
  list.push_back("parallelism.tensor_parallel_size=" + std::to_string(tensor));
  list.push_back("parallelism.ranks_per_process=" + std::to_string(tensor));
  if (partition) list.push_back(key + "partition_activations=true");
  if (host) list.push_back(key + "cpu_checkpointing=true");
  if (!disk.empty()) list.push_back(key + "disk_checkpointing.path=" + disk);
  if (!contiguous) list.push_back(key + "contiguous_checkpointing=false");
  return list;
}

struct StressCase {
  int tensor;
  std::string_view mode;
};

void PrintTo(const StressCase& c, std::ostream* out) { *out << c.tensor << ' ' << c.mode; }

class Stress : public testing::TestWithParam<StressCase> {};

TEST_P(Stress, EverySwitchGivesTheBitsOfNone) {
  const auto [tensor, mode] = GetParam();
  const Trained none = train(kStressYaml, words(tensor, "none", false, false, true));
  const TemporaryFolder folder;
  uint64_t seed = static_cast<uint64_t>(std::find(kModes.begin(), kModes.end(), mode) - kModes.begin()) << 8;
  for (bool partition : {false, true})
    for (bool host : {false, true})
      for (int more : {0, 1, 2}) {  // nothing, the pool, the disk
        const bool contiguous = more != 1, disk = more == 2;
        if ((partition && tensor == 1) || (!partition && !host && !contiguous)) continue;
        std::vector<std::unique_ptr<StressProbe>> probes;
        for (int rank = 0; rank < tensor; ++rank) probes.push_back(std::make_unique<StressProbe>(++seed));
        const Trained disturbed =
            train(kStressYaml, words(tensor, mode, partition, host, contiguous, disk ? folder.file("") : ""),
                  [&](int rank) { return ProgramParts{.probe = probes[rank].get()}; });
        const std::string what =
            fmt::format("{}{}{}{}{}", mode, partition ? "+partition" : "", host ? "+host" : "",
                        disk ? "+disk" : "", contiguous ? "" : "+pool");
        expect_same_bits(none, disturbed, what);
        for (const auto& probe : probes) {
          EXPECT_GT(probe->poisoned_bytes(), disturbed.measured[0].transient_bytes) << what;
          EXPECT_EQ(probe->late_ops() > 0, partition || host || disk) << what;
        }
      }
}

std::vector<StressCase> stress_cases() {
  std::vector<StressCase> cases;
  for (const int tensor : {1, 2})
    for (const std::string_view mode : kModes) cases.push_back({tensor, mode});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Tensor, Stress, testing::ValuesIn(stress_cases()), [](const auto& info) {
  return fmt::format("{}_{}", info.param.tensor, info.param.mode);
});

}  // namespace
}  // namespace recollect::test::stress_test
