// Files that say with what they were recorded: a run that starts from one under other conditions says so,
// once, and goes on; under the same ones, or with a file that says nothing, it is silent.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <omp.h>

#include "checkpointing/device_file.h"
#include "engine/io/files.h"
#include "engine/ops/cpu_level.h"
#include "launch/config/read.h"
#include "launch/program/recorded.h"
#include "launch/ranks/program_identity.h"
#include "tests/launch/process.h"

namespace recollect::test::recorded_test {
namespace {

std::string content(const Workplace& place, const std::string& name) {
  return TemporaryFolder::read(place.file(name));
}

// The file, as if that condition had been another.
void pretend(const Workplace& place, const std::string& name, const std::string& condition) {
  std::string text = content(place, name);
  const std::size_t is = text.find(condition + " = ");
  ASSERT_LT(is, text.find('\n')) << text;
  const std::size_t begin = is + condition.size() + 3, end = text.find_first_of("|\n", begin);
  write_text_file(place.file(name), text.replace(begin, end - begin, text[end] == '|' ? "other " : "other"));
}

TEST(Recorded, AResolvedConfigurationOfOtherInstructions) {
  const Workplace place;
  ASSERT_EQ(place.train({}).status, 0);
  pretend(place, "out/config.resolved.yaml", "instruction set");
  const Finished run = place.recollect({"train", "out/config.resolved.yaml", "output_dir=again"});
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string said =
      fmt::format("out/config.resolved.yaml was recorded with other (here {}): losses may differ",
                  cpu_level().instruction_set());
  EXPECT_EQ(times_in(run.err, said), 1) << run.err;
  EXPECT_EQ(times_in(content(place, "again/memory.rank0.json"), said), 1);
}

TEST(Recorded, APlanOfAnotherBuildIsSaidByOneRank) {
  const Workplace place;
  const Words keys = {"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"};
  ASSERT_EQ(place.train(keys + Words{"activation_checkpointing.mode=full"}).status, 0);
  const Words again =
      keys + Words{"activation_checkpointing.plan=" + place.file("out/plan.yaml"), "output_dir=again"};
  Finished run = place.train(again);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(times_in(run.err, "recorded with"), 0) << run.err;
  pretend(place, "out/plan.yaml", "program");
  run = place.train(again + Words{"--overwrite"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(times_in(run.err, "out/plan.yaml was recorded with another build of recollect: it may take"), 1)
      << run.err;
}

TEST(Recorded, EstimatesAndReportsSayWhatTheyAssume) {
  const Workplace place;
  const Words words = {"train", "c.yaml", "device.backend=cpu", "device.threads=1",
                       "training.precision=fp32"};
  const std::string threads = "1 thread of " + cpu_level().instruction_set(), library = mathematics_library();
  EXPECT_EQ(library.find("libm of glibc 2."), 0u) << library;
  const Finished run = place.recollect(words + Words{"logging.verbose=true"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(times_in(run.out, "(self), each " + threads + ", " + library), 1) << run.out;
  EXPECT_EQ(times_in(content(place, "out/memory.rank0.json"), threads + ", " + library), 1);
  const Words asked = Words{"estimate"} + Words(words.begin() + 1, words.end());
  const Finished text = place.recollect(asked), json = place.recollect(asked + Words{"--json"});
  EXPECT_EQ(times_in(text.out, "a rank is taken to have " + threads + " and " + library + ", as"), 1)
      << text.out;
  EXPECT_EQ(nlohmann::json::parse(json.out).at("mathematics"), library);
}

class DeviceRates : public ::testing::Test {
 protected:
  // What is said of these rates where a rank has two threads.
  std::string said_of(const std::string& first_line, std::vector<int64_t> threads,
                      const std::string& backend = "cpu") {
    DeviceModel device = device_preset("cpu");
    device.threads = threads.back();
    device.cores = threads.back();
    threads.pop_back();
    for (int64_t count : threads) {
      device.fewer_threads.push_back(device_preset("cpu"));
      device.fewer_threads.back().threads = count;
    }
    const std::string path = folder_.write("device.yaml", first_line + to_yaml(device));
    const Config config = read_config_text(
        "test.yaml",
        "model: {type: gpt2, vocab_size: 64, n_positions: 64, n_embd: 64, n_layer: 2, n_head: 4}\n"
        "training: {micro_batch_size: 4, max_steps: 1}\ndata: {format: random, sequence_length: 64}\n",
        {"device.model=" + path, "device.backend=" + backend});
    const int before = omp_get_max_threads();
    omp_set_num_threads(2);
    std::string all;
    for (const Remark& remark : recorded_elsewhere(config)) all += remark.key + ": " + remark.sentence;
    omp_set_num_threads(before);
    return all.empty() ? all : all.replace(all.find(path), path.size(), "FILE");
  }

  TemporaryFolder folder_;
};

TEST_F(DeviceRates, OfThisMachineAndOfFilesThatSayNothing) {
  EXPECT_EQ(said_of(measured_line(), {2}), "");
  EXPECT_EQ(said_of(measured_line(), {1, 2, 4}), "");
  EXPECT_EQ(said_of("", {2}), "");
  EXPECT_EQ(said_of("# recorded with nothing that is known = at all\n", {2}), "");
  EXPECT_EQ(said_of("# recorded with \n", {2}), "");
}

TEST_F(DeviceRates, OfAnotherMachineOrOtherThreads) {
  const std::string here = cpu_level().instruction_set();
  EXPECT_EQ(said_of("# recorded with instruction set = pdp11\n", {2}),
            "device.model: FILE was measured with pdp11 (here " + here + "): predicted times may be off");
  EXPECT_EQ(said_of("", {1, 4}),
            "device.model: FILE was measured with 1, 4 threads (here 2): predicted times may be off");
  const std::string both = said_of("# recorded with processor = Zilog Z80 | instruction set = z80\n", {4});
  EXPECT_NE(both.find("with z80 (here " + here + "), Zilog Z80 (here "), std::string::npos) << both;
  EXPECT_NE(both.find("), 4 threads (here 2): predicted"), std::string::npos) << both;
}

}  // namespace
}  // namespace recollect::test::recorded_test
