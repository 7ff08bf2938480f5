// Planning takes time and memory in proportion to the number of ops, and what the schema accepts ends in
// seconds, with numbers or with an error that says why.
#include <gtest/gtest.h>

#include <ctime>

#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "tests/launch/process.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::planning_limits_test {
namespace {

const char* const kManyLayersYaml = R"(
model: {type: gpt2, vocab_size: 64, n_positions: 8, n_embd: 8, n_layer: 2, n_head: 2}
device: {backend: cpu}
training: {micro_batch_size: 1, max_steps: 1}
data: {format: random}
)";

Config config_of(const Words& words) {
  Config config = read_config_text("limits.yaml", kManyLayersYaml, words);
  resolve_planned_world(config);
  return config;
}

// Of this thread, so that what else the machine does is not counted; for each op, of which some modes have
// more than others.
double seconds_per_op(int layers, Words words) {
  words.push_back("model.n_layer=" + std::to_string(layers));
  const Config config = config_of(words);
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double before = now();
  const PlannedTraining planned = plan_training(config, 0, 0);
  return (now() - before) / static_cast<double>(planned.training.program.graph.ops().size());
}

class ManyLayers : public testing::TestWithParam<Words> {};

TEST_P(ManyLayers, CostInProportion) {
  constexpr double kMargin = 3;  // 8 times the layers; what looks at all pairs would take 8 times as much
  seconds_per_op(16, GetParam());
  double few = 1, many = 1;
  for (int i = 0; i < 3; ++i) few = std::min(few, seconds_per_op(64, GetParam()));
  for (int i = 0; i < 2; ++i) many = std::min(many, seconds_per_op(512, GetParam()));
  EXPECT_LT(many, kMargin * few) << "seconds an op";
}

const std::string kAc = "activation_checkpointing.";

INSTANTIATE_TEST_SUITE_P(All, ManyLayers,
                         testing::Values(Words{}, Words{kAc + "mode=full", kAc + "cpu_checkpointing=true"},
                                         Words{kAc + "mode=selective", kAc + "disk_checkpointing.path=/tmp",
                                               kAc + "contiguous_checkpointing=false"},
                                         Words{kAc + "mode=recursive"},
                                         Words{"parallelism.tensor_parallel_size=2",
                                               "parallelism.sequence_parallel=true", kAc + "mode=every_k",
                                               kAc + "k=8", kAc + "verify=true"}));

struct Extreme {
  Words words;
  int status;
};

class Extremes : public testing::TestWithParam<Extreme> {};

// The memory of the program's own is limited to 1 GiB, and the time of all its threads to ten seconds: the longest
// takes four of a Xeon's at 2 GHz and more, and more than five of processors that tests have met.
TEST_P(Extremes, EndInSecondsAndInAGibibyte) {
  Workplace place;
  place.folder().write("limits.yaml", kManyLayersYaml);
  place.folder().write("lines.jsonl", "{\"input_ids\": [1, 2]}\n");
  const Words limited = {
      "/bin/sh",          "-c",       "ulimit -d 1048576 && ulimit -t 10 && exec \"$0\" \"$@\"",
      recollect_binary(), "estimate", "limits.yaml"};
  Process process(limited + GetParam().words, place.folder().path());
  const Finished finished = process.wait(Workplace::kBound);
  EXPECT_EQ(finished.status, GetParam().status) << finished.out << finished.err;
  // What fails says why, and what does not fit in this machine is warned of.
  const bool warned = finished.err.starts_with("recollect: warning: the run needs ");
  EXPECT_EQ(finished.status != 0, !finished.err.empty() && !warned) << finished.err;
}

// Padded to as many lengths as there are.
Words all_lengths(int layers, int longest) {
  return {"data.format=jsonl",
          "data.path=lines.jsonl",
          "data.padding=longest",
          "data.pad_to_multiple_of=1",
          "model.n_layer=" + std::to_string(layers),
          "model.n_positions=" + std::to_string(longest)};
}

INSTANTIATE_TEST_SUITE_P(
    All, Extremes,
    testing::Values(
        Extreme{{"model.n_layer=1024"}, 0},
        Extreme{{"model.n_layer=1024", kAc + "mode=full", kAc + "cpu_checkpointing=true",
                 "parallelism.tensor_parallel_size=2", "parallelism.sequence_parallel=true"},
                0},
        Extreme{{"model.n_layer=1024", kAc + "mode=constant_memory"}, 2}, Extreme{{"model.n_layer=1025"}, 2},
        Extreme{{"model.n_embd=16777216", "model.n_head=65536"}, 0},
        Extreme{
            {"model.n_embd=16777216", "model.n_head=65536", "model.n_inner=16777216", "model.n_layer=1024",
             "model.vocab_size=16777216", "model.n_positions=16777216", "training.micro_batch_size=127"},
            4},
        Extreme{{"model.n_positions=16777216", "training.micro_batch_size=1048576"}, 2},
        Extreme{{"model.n_positions=4096", "training.micro_batch_size=1048576"}, 2},
        Extreme{{"model.vocab_size=16777216"}, 0}, Extreme{{"model.vocab_size=16777217"}, 2},
        Extreme{{"model.n_positions=2048", "training.micro_batch_size=1048575"}, 0},
        Extreme{{"model.n_positions=16777216", "device.backend=reference", "training.precision=fp64"}, 0},
        Extreme{{"model.n_layer=1024", kAc + "mode=auto", kAc + "memory_budget=24MiB"}, 0},
        Extreme{{"model.n_layer=1024", kAc + "mode=dtr", kAc + "memory_budget=24MiB"}, 0},
        Extreme{all_lengths(2, 16777216), 2}, Extreme{all_lengths(2, 1534), 0},
        Extreme{all_lengths(1022, 4), 2},
        Extreme{all_lengths(62, 93) + Words{kAc + "mode=full", kAc + "cpu_checkpointing=true",
                                            "parallelism.tensor_parallel_size=2"},
                0}));

}  // namespace
}  // namespace recollect::test::planning_limits_test
