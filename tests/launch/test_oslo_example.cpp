// The case of OSLO's tutorial, GPT-2 124M on four tensor ranks: what each switch takes off the device is
// known by hand, and a run of it holds what was predicted.
#include <gtest/gtest.h>

#include "tests/launch/process.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::oslo_example_test {
namespace {

using nlohmann::json;

const std::string kConfig = RECOLLECT_SOURCE_DIR "/examples/oslo/oslo.yaml";

const Words kFull = {ac("mode=full")};
const Words kPartition = kFull + Words{ac("keep_last=0"), ac("partition_activations=true")};
const Words kHost = kPartition + Words{ac("cpu_checkpointing=true")};

json estimated(const Workplace& place, const Words& words) {
  const Finished done = place.recollect(Words{"estimate", kConfig, "--json"} + words);
  EXPECT_EQ(done.status, 0) << done.err;
  return json::parse(done.out);
}

TEST(OsloExample, LayerInputsTake576And144AndNoMiB) {
  const Workplace place;
  constexpr uint64_t kMiB = 1 << 20;
  // 4 bytes x 128 samples x 128 tokens x 768, twelve times.
  const json whole = estimated(place, kFull), full = whole["layer_inputs"];
  EXPECT_EQ(full["device"], 576 * kMiB);
  EXPECT_EQ(full["host"], 0);
  const json partition = estimated(place, kPartition)["layer_inputs"];
  EXPECT_EQ(partition["device"], 144 * kMiB);
  const json hosted = estimated(place, kHost), host = hosted["layer_inputs"];
  EXPECT_EQ(host["device"], 0);
  EXPECT_EQ(host["host"], 144 * kMiB);
  // When forward is over, what is saved on the device, and all that persists.
  const json &after = hosted["after_forward"], &loaded = hosted["memory"]["loaded"];
  EXPECT_EQ(after["parameters"], loaded["parameters"]);
  EXPECT_EQ(after["total"].get<uint64_t>() - after["activations"].get<uint64_t>(), loaded["total"]);
  const uint64_t less =
      whole["after_forward"]["activations"].get<uint64_t>() - after["activations"].get<uint64_t>();
  EXPECT_GT(less, 480 * kMiB) << "the layers' inputs";
  EXPECT_LT(less, 576 * kMiB);
}

TEST(OsloExample, EstimateIsWhatFourRanksOfGpt2Measure) {
  for (const Words& words : {Words{}, kFull, kHost}) {
    const Workplace place;
    const Words small =
        Words{"training.micro_batch_size=1", "training.max_steps=1", "data.sequence_length=32"} + words;
    const json memory = estimated(place, small)["memory"];
    const Finished done = place.recollect(Words{"train", kConfig, "output_dir=out"} + small);
    ASSERT_EQ(done.status, 0) << done.err;
    for (int rank = 0; rank < 4; ++rank) {
      const json report = json::parse(
          test::TemporaryFolder::read(place.file("out/memory.rank" + std::to_string(rank) + ".json")));
      EXPECT_EQ(report["measured"], memory) << "rank " << rank;
      EXPECT_EQ(report["predicted"], memory) << "rank " << rank;
    }
  }
}

// The script's table, without its runs.
TEST(OsloExample, ScriptPrintsSixRows) {
  const Workplace place;
  Process process({"bash", RECOLLECT_SOURCE_DIR "/examples/oslo/run.sh", "0"}, place.file("."),
                  {{"RECOLLECT", recollect_binary()}});
  const Finished done = process.wait(Workplace::kBound);
  ASSERT_EQ(done.status, 0) << done.err;
  for (const char* row : {"none, logits held", "\nnone ", "\nfull ", "\n+ partition ", "\n+ host ",
                          "\n+ arena ", "\nafter forward, GiB of a rank"})
    EXPECT_NE(done.out.find(row), std::string::npos) << row << '\n' << done.out;
  for (const char* figure : {" 12.86\n", " 6.68\n"})
    EXPECT_NE(done.out.find(figure), std::string::npos) << done.out;
}

}  // namespace
}  // namespace recollect::test::oslo_example_test
