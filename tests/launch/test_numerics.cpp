// What a run does about numbers that cannot be right: a step that is not finite ends it, is left out, or is gone back
// behind; a loss that jumps is named with its samples; an op that computes wrongly once is found, with its rank.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <regex>

#include <fmt/format.h>

#include "launch/config/read.h"
#include "launch/train/spike_detector.h"
#include "tests/engine/expect_error.h"
#include "tests/launch/process.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::numerics_test {
namespace {

const char* const kYaml = R"(
model: {type: gpt2, vocab_size: 61, n_positions: 12, n_embd: 24, n_layer: 2, n_head: 4, resid_pdrop: 0.1}
device: {threads: 1}
training: {micro_batch_size: 1, gradient_accumulation_steps: 2, max_steps: 4}
data: {format: random}
numerics: {verify_every: 2}
)";

TEST(SpikeDetector, FindsWhatIsFarAboveAndNothingElse) {
  SpikeDetector none(0), three(3);
  for (int i = 0; i < 200; ++i) {
    const double loss = 4 + 0.1 * std::sin(i);
    EXPECT_EQ(none.look(100 * loss), 0);
    EXPECT_EQ(three.look(loss), 0) << i;
  }
  EXPECT_EQ(three.look(1), 0);                                         // below
  EXPECT_EQ(three.look(std::numeric_limits<double>::quiet_NaN()), 0);  // another's business
  EXPECT_GT(three.look(6), 3);
  EXPECT_GT(three.look(6), 3);  // the first one is not what is usual
  SpikeDetector fresh(3);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(fresh.look(i * i), 0);  // too few to judge by
}

// Flips a bit of an op's output once.
class Flip : public ExecutorProbe {
 public:
  Flip(std::string op, int64_t run) : op_(std::move(op)), run_(run) {}
  void after_op(const Executor& executor, OpId id) override {
    const Op& op = executor.program().graph.op(id);
    if (op.name != op_ || ++runs_ != run_) return;
    static_cast<unsigned char*>(executor.tensor(op.outputs[0]).data)[5] ^= 1;
  }
  int64_t runs() const { return runs_; }

 private:
  const std::string op_;
  const int64_t run_;
  std::atomic<int64_t> runs_{0};
};

TEST(VerifyEvery, ChangesNothing) {
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{},
        {"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2", ac("mode=full"),
         ac("partition_activations=true"), ac("cpu_checkpointing=true")},
        {"training.gradient_accumulation_steps=1", "parallelism.data_parallel_size=2",
         "parallelism.ranks_per_process=2", ac("mode=full")},
        {"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2",
         "parallelism.sequence_parallel=true", ac("mode=selective")}}) {
    std::vector<std::string> off = layout;
    off.push_back("numerics.verify_every=0");
    expect_same_bits(train(kYaml, off), train(kYaml, layout), "verify_every");
  }
}

TEST(VerifyEvery, NamesTheOpAndTheRankOfAFlippedBit) {
  const std::vector<std::string> two = {"parallelism.tensor_parallel_size=2",
                                        "parallelism.ranks_per_process=2"};
  for (const char* op : {"layer0/mlp/fc1", "layer1/attn/core", "layer1/mlp/fc1/backward_weight"})
    for (const int64_t run : {3, 4}) {  // step 1 has two micro-batches; step 2 computes its first one twice
      Flip on_one(op, run);
      expect_error(ExitCode::kIntegrity, {"step 2", "rank 1", op}, [&] {
        train(kYaml, two, [&](int rank) { return ProgramParts{{}, rank == 1 ? &on_one : nullptr}; });
      });
    }
}

// A learning rate that makes everything infinite at some step, whatever the data.
const Words kDiverges = {"device.backend=cpu",          "training.precision=fp32",  "optimizer.name=sgd",
                         "optimizer.momentum=0",        "memory_report.at=[]",      "profiling.step=0",
                         "optimizer.max_grad_norm=0",   "optimizer.weight_decay=0", "training.max_steps=30",
                         "optimizer.learning_rate=1e30"};

TEST(OnNonFinite, EndsTheRunAndNamesTheSamples) {
  const Workplace place;
  const Finished finished = place.train(kDiverges);
  EXPECT_EQ(finished.status, 7) << finished.err;
  EXPECT_NE(finished.err.find("the first value that is not finite is"), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("samples (from 0, in the order in which they are drawn): "), std::string::npos)
      << finished.err;
}

// By one rank, that names the one where it is, in place of all in turn.
void expect_told_once(const Finished& finished) {
  EXPECT_EQ(finished.status, 7) << finished.err;
  EXPECT_EQ(times_in(finished.err, "the first value that is not finite is"), 1) << finished.err;
  EXPECT_TRUE(std::regex_search(finished.err, std::regex("not finite is [a-z0-9_/.]+ on rank [01]; samples")))
      << finished.err;
  EXPECT_EQ(times_in(finished.err, "lower optimizer.learning_rate"), 1) << finished.err;
  EXPECT_EQ(finished.err.find("also failed"), std::string::npos) << finished.err;
}

const Words kTwoRanksDiverge = kDiverges + Words{"parallelism.data_parallel_size=2"};

TEST(OnNonFinite, IsToldOnceBySeveralRanks) {
  const Workplace place;
  expect_told_once(
      place.recollect(Words{"run", "--nproc-per-node", "2", "train", "c.yaml"} + kTwoRanksDiverge));
}

#ifndef __SANITIZE_THREAD__  // it knows nothing of the MPI library's locks
TEST(OnNonFinite, IsToldOnceUnderMpirun) {
  const Workplace place;
  expect_told_once(place.train_under_mpirun(2, kTwoRanksDiverge));
}
#endif

TEST(OnNonFinite, SkipsSoManyInARowAndThenEnds) {
  const Workplace place;
  const Finished finished =
      place.train(kDiverges + Words{"numerics.on_non_finite=skip", "numerics.max_non_finite=2",
                                    "parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"});
  EXPECT_EQ(finished.status, 7) << finished.err;
  EXPECT_EQ(times_in(finished.err, "its update is left out"), 2) << finished.err;
  int skipped = 0;
  for (const nlohmann::json& line : place.metrics()) skipped += line.value("skipped", false) ? 1 : 0;
  EXPECT_EQ(skipped, 2);
}

// What has been skipped counts on, also in the next attempt.
TEST(OnNonFinite, SkipsNoMoreWhereItIsResumed) {
  const Workplace place;
  const Words words = kDiverges + Words{"numerics.on_non_finite=skip", "numerics.max_non_finite=2",
                                        "snapshot.every_steps=1", "snapshot.asynchronous=false"};
  for (const int more : {2, 0}) {
    const Finished finished = place.train(words);
    EXPECT_EQ(finished.status, 7) << finished.err;
    EXPECT_EQ(times_in(finished.err, "its update is left out"), more) << finished.err;
  }
}

// A number so large that its square is not finite, and what is derived from it is: two steps, of which only the first is
// taken.
TEST(OnNonFinite, SkipsWhereTheLossAloneIsNotFinite) {
  const Workplace place;
  const std::string line = "{{\"input_ids\": [5, 6, 7, 8], \"labels\": {}}}\n";
  place.folder().write("two.jsonl", fmt::format(fmt::runtime(line + line), "1.5", "1e30"));
  place.folder().write("c.yaml",
                       "task: sequence_classification\n"
                       "model: {type: bert, vocab_size: 61, max_position_embeddings: 8, hidden_size: 8, "
                       "num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 8, num_labels: 1}\n"
                       "device: {backend: cpu}\n"
                       "training: {precision: fp32, global_batch_size: 1}\n"
                       "data: {format: jsonl, path: two.jsonl, shuffle: false, sequence_length: 8}\n"
                       "logging: {progress: off}\n"
                       "checkpoint: {save_model: true}\n");
  const Words words = {"memory_report.at=[]", "profiling.step=0", "scheduler.name=constant"};
  const auto train = [&](const char* folder, const char* steps, const char* what) {
    return place.train(words + Words{std::string("output_dir=") + folder,
                                     std::string("training.max_steps=") + steps,
                                     std::string("numerics.on_non_finite=") + what});
  };
  ASSERT_EQ(train("one", "1", "stop").status, 0);
  EXPECT_EQ(train("stopped", "2", "stop").status, 7);
  const Finished finished = train("out", "2", "skip");
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(times_in(finished.err, "step 2: loss inf, gradient norm "), 1) << finished.err;
  EXPECT_EQ(times_in(finished.err, "its update is left out"), 1) << finished.err;
  EXPECT_EQ(place.metrics().back().value("skipped", false), true);
  EXPECT_TRUE(TemporaryFolder::read(place.file("out/model.safetensors")) ==
              TemporaryFolder::read(place.file("one/model.safetensors")));
}

TEST(OnNonFinite, GoesBackToTheNewestSnapshotAndThenEnds) {
  const Workplace place;
  const Words words = Words{"numerics.on_non_finite=rollback", "numerics.max_non_finite=2",
                            "snapshot.every_steps=1", "snapshot.keep=40"};
  const Finished finished = place.train(kDiverges + words);
  EXPECT_EQ(finished.status, 7) << finished.err;
  EXPECT_EQ(times_in(finished.err, "without the batches since then"), 2) << finished.err;
  const auto metrics = place.metrics();  // no step twice, none missing
  for (std::size_t i = 0; i < metrics.size(); ++i) EXPECT_EQ(metrics[i]["step"], i + 1);
}

TEST(OnNonFinite, CannotGoBackWithoutASnapshot) {
  const Workplace place;
  const Finished none = place.train(kDiverges + Words{"numerics.on_non_finite=rollback"});
  EXPECT_EQ(none.status, 2) << none.err;
  const Finished late =
      place.train(kDiverges + Words{"numerics.on_non_finite=rollback", "snapshot.every_steps=30"});
  EXPECT_EQ(late.status, 7) << late.err;
  EXPECT_NE(late.err.find("no snapshot has been saved yet"), std::string::npos) << late.err;
}

// Lines of eight tokens, the same in all batches of four but that of step 41, which is `odd`.
std::string lines_with(const std::string& odd) {
  std::string lines;
  for (int i = 0; i < 200; ++i)
    lines += fmt::format("{{\"input_ids\": [{}]}}\n", i / 4 == 40 ? odd : "5, 6, 5, 6, 5, 6, 5, 6");
  return lines;
}

const Words kOfLines = {"data.format=jsonl",       "data.path=lines.jsonl", "data.shuffle=false",
                        "data.sequence_length=16", "data.padding=longest",  "memory_report.at=[]",
                        "profiling.step=0",        "training.max_steps=44"};

TEST(Spikes, AreNamedWithTheirSamples) {
  const Workplace place;
  place.folder().write("lines.jsonl", lines_with("9, 31, 17, 50, 2, 44, 23, 38"));
  const Finished finished =
      place.train(kOfLines + Words{"numerics.spike_z_score=6", "optimizer.learning_rate=0.3"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(times_in(finished.err, "standard deviations above the last ones"), 1) << finished.err;
  EXPECT_NE(finished.err.find("step 41: loss "), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("samples (from 0, in the order of the files): 160, 161, 162, 163"),
            std::string::npos)
      << finished.err;
}

// Makes the embedding of the last position so large that whoever reads it gets no number, or another number.
void poison_last_position(const Workplace& place, const std::string& model, double number = 1.7e308) {
  std::string bytes = TemporaryFolder::read(place.file(model));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const auto header = nlohmann::json::parse(bytes.substr(sizeof(length), length));
  const auto& wpe =
      header.contains("wpe.weight") ? header["wpe.weight"] : header.at("transformer.wpe.weight");
  ASSERT_EQ(wpe.at("dtype"), "F64");
  const auto end = sizeof(length) + length + wpe.at("data_offsets")[1].get<uint64_t>();
  for (uint64_t at = end - 24 * sizeof(double); at < end; at += sizeof(double))
    std::memcpy(bytes.data() + at, &number, sizeof(double));
  place.folder().write(model, bytes);
}

// One batch is no good, and costs its steps and nothing else.
TEST(OnNonFinite, GoesOnBehindABatchThatIsNoGood) {
  const Workplace place;
  place.folder().write("lines.jsonl", lines_with("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16"));
  ASSERT_EQ(place.train({"training.max_steps=1", "checkpoint.save_model=true", "output_dir=begun"}).status,
            0);
  ASSERT_NO_FATAL_FAILURE(poison_last_position(place, "begun/model.safetensors"));
  const Finished finished =
      place.train(kOfLines + Words{"model.pretrained=begun", "parallelism.tensor_parallel_size=2",
                                   "parallelism.ranks_per_process=2", "snapshot.every_steps=5",
                                   "numerics.on_non_finite=rollback", "numerics.max_non_finite=1"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(times_in(finished.err, "back to step 40, without the batches since then"), 1) << finished.err;
  EXPECT_NE(finished.err.find("samples (from 0, in the order of the files): 160, 161, 162, 163"),
            std::string::npos)
      << finished.err;
  const auto metrics = place.metrics();
  ASSERT_EQ(metrics.size(), 44u);
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_EQ(metrics[i]["step"], i + 1);
    EXPECT_TRUE(metrics[i]["loss"].is_number()) << metrics[i];
  }
}

// No update has made it so, and what was saved is said.
TEST(TrainedParameters, AFrozenOneThatWasNeverFiniteIsCalledSo) {
  const Workplace place;
  ASSERT_EQ(place.train({"training.max_steps=1", "checkpoint.save_model=true", "output_dir=begun"}).status,
            0);
  ASSERT_NO_FATAL_FAILURE(
      poison_last_position(place, "begun/model.safetensors", std::numeric_limits<double>::infinity()));
  const Finished finished =
      place.train({"model.pretrained=begun", "snapshot.every_steps=1", "checkpoint.save_model=true",
                   "optimizer.groups=[{match: wpe.weight, frozen: true}]"});
  EXPECT_EQ(finished.status, 7) << finished.out << finished.err;
  for (const char* text : {"parameter wpe.weight holds inf in row 15, column 0",
                           "it is frozen, and no update has touched it: it was loaded so",
                           "The trained model is not saved; snapshots are in out/snapshots\n"})
    EXPECT_NE(finished.err.find(text), std::string::npos) << text << "\n" << finished.err;
  EXPECT_TRUE(std::filesystem::exists(place.file("out/snapshots/step-00000002")));
  EXPECT_FALSE(std::filesystem::exists(place.file("out/model.safetensors")));
}

}  // namespace
}  // namespace recollect::test::numerics_test
