// Optimizer states that are kept on the disk (optimizer.offload): the training is that of states in memory, to the bit, with
// every rule, layout and switch; its bytes are predicted; and a disk that cannot be used or fails is named.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/runtime/lifetime.h"
#include "launch/config/import.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/report/checkpointing_report.h"
#include "launch/report/rank_report.h"
#include "tests/engine/expect_error.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/process.h"
#include "tests/launch/snapshot_command.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::offload_test {
namespace {

const char* const kYaml = R"(
model: {type: gpt2, vocab_size: 61, n_positions: 16, n_embd: 24, n_layer: 3, n_head: 4, resid_pdrop: 0.1,
        embd_pdrop: 0.1, attn_pdrop: 0.1, initializer_range: 0.2}
device: {threads: 1}
training: {micro_batch_size: 1, max_steps: 3, seed: 7}
optimizer: {name: adamw, learning_rate: 1e-2, weight_decay: 0.1, max_grad_norm: 0.5}
data: {format: random, sequence_length: 8}
)";

Words on_disk(const std::string& folder) {
  return {"optimizer.offload=disk", "optimizer.offload_path=" + folder};
}
Words here() { return on_disk(std::filesystem::temp_directory_path().string()); }

Words layout(int data, int tensor, int stage = 0) {
  Words words{fmt::format("parallelism.data_parallel_size={}", data),
              fmt::format("parallelism.tensor_parallel_size={}", tensor),
              fmt::format("parallelism.ranks_per_process={}", data * tensor)};
  if (stage > 0) words.push_back(fmt::format("parallelism.zero_stage={}", stage));
  return words;
}

void expect_same_on_disk(const Words& words, const Words& disk = here()) {
  const std::string what = fmt::format("{}", fmt::join(words, " "));
  const Trained home = train(kYaml, words), away = train(kYaml, words + disk);
  expect_same_bits(home, away, what);
  for (const MemoryLedger& ledger : away.measured) EXPECT_GT(ledger.disk_state_bytes, 0u) << what;
}

TEST(Offload, KeepsEveryBitInEveryLayout) {
  for (const char* precision : {"fp32", "bf16"}) {
    const Words run{fmt::format("training.precision={}", precision)};
    for (const Words& ranks :
         {layout(1, 1), layout(1, 2), layout(2, 1), layout(2, 1, 1), layout(3, 1, 2), layout(2, 2, 3)})
      expect_same_on_disk(run + ranks);
    for (const char* rule : {"sgd", "lion"})
      for (const Words& ranks : {layout(1, 1), layout(2, 2, 1)})
        expect_same_on_disk(run + ranks + Words{fmt::format("optimizer.name={}", rule)});
  }
}

TEST(Offload, GoesWithMicroBatchesScalesAndOtherRules) {
  expect_same_on_disk({"training.gradient_accumulation_steps=3"});
  expect_same_on_disk(layout(2, 1, 1) +
                      Words{"training.gradient_accumulation_steps=2", "training.precision=bf16"});
  expect_same_on_disk({"training.loss_scale=1024"});
  expect_same_on_disk(
      {"optimizer.name=adam", "training.precision=fp64", "device.backend=reference", "device.threads=0"});
  expect_same_on_disk({"optimizer.name=sgd", "optimizer.momentum=0.9", "optimizer.max_grad_norm=0"});
  expect_same_on_disk({"optimizer.groups=[{match: [wte.weight, h.0.*], frozen: true}]"});
  expect_same_on_disk({"evaluation.every_steps=2", "evaluation.batches=1"});
}

// States of one byte a number leave in whole rows; what their blocks' sizes are stays.
TEST(Offload, GoesWithStatesOfOneByte) {
  const Words wide{"model.n_embd=64", "optimizer.max_grad_norm=0"};
  for (const char* rule : {"adamw8bit", "lion8bit"})
    for (const Words& ranks :
         {layout(1, 1), layout(2, 1, 1), layout(1, 2) + Words{"training.precision=bf16"}})
      expect_same_on_disk(wide + ranks + Words{fmt::format("optimizer.name={}", rule)});
}

// The first step's gradients are no numbers.
TEST(Offload, LeavesOutUpdatesAfterAnOverflow) {
  const Words words{"training.loss_scale=0", "training.initial_loss_scale=1e39"};
  const Trained home = train(kYaml, words), away = train(kYaml, words + here());
  EXPECT_TRUE(home.steps.at(0).skipped);
  EXPECT_EQ(home.parameters, away.parameters);
  EXPECT_EQ(home.steps.back().loss, away.steps.back().loss);
}

TEST(Offload, GoesWithEveryModeAndSwitch) {
  const TemporaryFolder activations;
  for (const Words& words :
       {Words{ac("mode=full")}, Words{ac("mode=selective"), ac("verify=true")},
        Words{ac("mode=constant_memory")}, Words{ac("mode=full"), ac("cpu_checkpointing=true")},
        Words{ac("mode=full"), ac("disk_checkpointing.path=" + activations.path()), ac("keep_last=0")},
        Words{ac("mode=full"), ac("disk_checkpointing.path=" + activations.path()),
              ac("cpu_checkpointing=true"), ac("keep_last=0")},
        Words{ac("mode=full"), ac("partition_activations=true")} + layout(1, 2),
        Words{ac("mode=full"), ac("contiguous_checkpointing=false")} + layout(2, 1, 3)})
    expect_same_on_disk(words);
}

// The table of tokens is several chunks; its rows are not divided by their ends.
TEST(Offload, CutsWhatIsLarge) {
  const Words wide{"model.vocab_size=16411", "model.n_embd=136", "model.n_layer=1", "training.max_steps=2",
                   "training.precision=bf16"};
  expect_same_on_disk(wide);
  Config config = read_config_text("test.yaml", kYaml, wide + here());
  resolve_world(config, 1);
  const PlannedTraining planned = plan_training(config, 0, 0);
  const OffloadReport& report = planned.training.optimizer.offload;
  EXPECT_EQ(report.chunks, 3 + report.parameters - 1);
}

// Several threads copy what is saved, but not from the file of states.
TEST(Offload, SavesTheSnapshotsOfMemory) {
  using namespace snapshot_command_test;
  const SnapshotCommand command(kGpt);
  const Words run = ranks(1, 1) + Words{"model.vocab_size=16411", "model.n_embd=64", "device.threads=2"};
  const std::string shard = "/rank-00000.safetensors";
  command.train(run);
  const std::string memory = TemporaryFolder::read(command.step(4) + shard);
  command.train(run + here() + Words{"overwrite=true", "resume=never"});
  EXPECT_TRUE(TemporaryFolder::read(command.step(4) + shard) == memory);
}

Estimate estimated(const Words& words) {
  Config config = read_config_text("test.yaml", kYaml, words);
  resolve_world(config, static_cast<int>(config.parallelism.ranks_per_process));
  return estimate(config);
}

std::string remark_of(const Estimate& e) {
  for (const Remark& remark : e.remarks)
    if (remark.key == "optimizer.offload") return remark.sentence;
  return "";
}

// The tables have 61 and 16 rows of 24, of which the first has room for 64, each layer four matrices of 12 times 24 x 24 elements.
TEST(Offload, SparesTheBytesThatLeave) {
  const uint64_t one = 64 * 24 * 4 + 16 * 24 * 4 + 3 * 12 * 24 * 24 * 4;
  for (const auto& [precision, states] : {std::pair("fp32", 2u), {"bf16", 3u}}) {
    const Words run{fmt::format("training.precision={}", precision)};
    const Estimate home = estimated(run), away = estimated(run + here()),
                   part = estimated(run + here() + Words{"optimizer.offload_ratio=0.2"});
    EXPECT_EQ(home.memory.persistent_bytes - away.memory.persistent_bytes, states * one);
    EXPECT_EQ(away.memory.disk_state_bytes % kDiskBlock, 0u);
    EXPECT_GE(away.memory.disk_state_bytes, states * one);
    EXPECT_EQ(away.memory.disk_bytes, 0u);
    EXPECT_EQ(home.memory.disk_state_bytes, 0u);
    EXPECT_LT(part.memory.disk_state_bytes, away.memory.disk_state_bytes);
    EXPECT_GT(part.memory.disk_state_bytes, 0u);
    EXPECT_GT(away.simulation.step_seconds, home.simulation.step_seconds);
    EXPECT_GT(away.simulation.busy_seconds[static_cast<std::size_t>(StreamId::kDisk)], 0);
    EXPECT_EQ(remark_of(home), "");
    EXPECT_NE(remark_of(away).find(
                  fmt::format("{} states and masters of 14 parameters are kept on the disk", states * 14)),
              std::string::npos)
        << remark_of(away);
  }
}

TEST(Offload, IsRefusedWhereItCannotBe) {
  const std::string disk = "optimizer: {offload: disk, offload_path: x";
  const auto says = [](const std::string& text, const std::string& part) {
    const std::string said = refusal(kLeast + text);
    EXPECT_NE(said.find(part), std::string::npos) << text << "\n" << said;
  };
  says("optimizer: {offload: host}\n",
       "optimizer.offload has no effect with device.backend cpu: the host's memory is where states are "
       "already");
  says("optimizer: {offload_path: x}\n", "optimizer.offload_path has no effect with optimizer.offload none");
  says("optimizer: {offload_ratio: 0.5}\n",
       "optimizer.offload_ratio has no effect with optimizer.offload none");
  says("optimizer: {offload: disk}\n", "write optimizer.offload_path");
  says(disk + ", offload_ratio: 0}\n", "offload_ratio");
  for (const char* rule : {"adafactor", "muon"})
    says(disk + ", name: " + rule + "}\n", fmt::format("optimizer.name {} needs whole matrices", rule));
  says(disk + "}\ntraining: {precision: bf16, master_dtype: bf16}\n",
       "training.master_dtype bf16 rounds whole rows");
  says("optimizer: {offload: nvme, offload_path: x}\n", "for 'nvme' write offload: disk");
  EXPECT_EQ(accepted(kLeast + disk + "}\n").optimizer.offload, OffloadTo::kDisk);
  const std::string on_cuda =
      refusal(kLeast + "device: {backend: cuda}\n" + disk + "}\n", {}, {.cuda = true});
  EXPECT_NE(on_cuda.find("optimizer.offload disk is for CPUs"), std::string::npos) << on_cuda;
  for (const char* update : {"optimizer: {offload_update: host}\n",
                             "optimizer: {offload: disk, offload_path: x, offload_update: host}\n"})
    says(update, "no state is kept in a host's memory apart from the processor that updates it");
  const std::string small = refusal(
      kLeast + "device: {backend: cuda}\noptimizer: {name: adamw8bit, offload: host, offload_update: host}\n",
      {}, {.cuda = true});
  EXPECT_NE(small.find("those of optimizer.name adamw8bit are smaller: write device"), std::string::npos)
      << small;
  const std::string half = refusal(kLeast +
                                       "device: {backend: cuda}\noptimizer: {offload: host, offload_update: "
                                       "host}\ntraining: {precision: fp16}\n",
                                   {}, {.cuda = true});
  EXPECT_NE(half.find("has none in training.precision fp16: write device"), std::string::npos) << half;
}

TEST(Offload, IsImportedFromDeepSpeed) {
  const Imported imported = import_config_text(
      "ds.json",
      R"({"optimizer": {"type": "Adam", "params": {"lr": 1e-4}}, "zero_optimization": {"stage": 1, "offload_optimizer":
          {"device": "nvme", "nvme_path": "/scratch", "ratio": 0.5, "pin_memory": true, "buffer_count": 4}}})");
  const Config config =
      read_config_text("c.yaml", imported.yaml, {"data.format=random", "parallelism.data_parallel_size=2"});
  EXPECT_EQ(config.optimizer.offload, OffloadTo::kDisk) << imported.yaml;
  EXPECT_EQ(config.optimizer.offload_path, "/scratch");
  EXPECT_EQ(config.optimizer.offload_ratio, 0.5);
  EXPECT_NE(fmt::format("{}", fmt::join(imported.left_out, "\n"))
                .find("its keys but stage and offload are left out"),
            std::string::npos);
}

// Fails one call of a kind.
class FailingDisk final : public DiskCalls {
 public:
  FailingDisk(bool writes, int call, int error) : writes_(writes), call_(call), error_(error) {}
  int reserve(int file, uint64_t bytes) override {
    if (call_ < 0) return errno = error_, -1;
    return DiskCalls::reserve(file, bytes);
  }
  ssize_t write(int file, const void* from, std::size_t bytes, off_t offset) override {
    if (writes_ && count_++ == call_) return errno = error_, -1;
    return DiskCalls::write(file, from, bytes, offset);
  }
  ssize_t read(int file, void* to, std::size_t bytes, off_t offset) override {
    if (!writes_ && count_++ == call_) return errno = error_, -1;
    return DiskCalls::read(file, to, bytes, offset);
  }

 private:
  bool writes_;
  int call_, error_;
  std::atomic<int> count_ = 0;
};

void expect_fault(DiskCalls& calls, const std::vector<std::string>& said) {
  expect_error(ExitCode::kStorage, said, [&] {
    train(kYaml, here(), [&](int) {
      return ProgramParts{
          .edit_program = [&](TrainingProgram& training) { training.state_disk->replace_calls(calls); }};
    });
  });
}

TEST(Offload, AFaultNamesTheStateAndTheReason) {
  FailingDisk full(true, -1, ENOSPC), writes(true, 5, EIO), reads(false, 5, EIO);
  expect_fault(full, {"optimizer states need ", "No space left on device", "optimizer.offload_ratio"});
  expect_fault(writes, {"cannot write exp_avg", "Input/output error", "optimizer.offload_path"});
  expect_fault(reads, {"cannot read exp_avg", "Input/output error", "optimizer.offload_path"});
}

TEST(Offload, AFolderThatIsNoneIsRefusedBeforeTheFirstStep) {
  const Workplace place;
  place.folder().write("file", "");
  for (const auto& [path, said] : {std::pair("missing", "No such file"), {"file", "Not a directory"}}) {
    const Finished refused = place.train(on_disk(path) + Words{"logging.progress=off"});
    EXPECT_EQ(refused.status, 6) << refused.err;
    EXPECT_NE(refused.err.find(fmt::format("cannot make a file in {}: {}", path, said)), std::string::npos)
        << refused.err;
    EXPECT_EQ(refused.out.find("step 1/"), std::string::npos) << refused.out;
  }
}

// Its reads take long.
class SlowDisk final : public DiskCalls {
 public:
  ssize_t read(int file, void* to, std::size_t bytes, off_t offset) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return DiskCalls::read(file, to, bytes, offset);
  }
};

TEST(Offload, ReportsWhatItCost) {
  SlowDisk slow;
  Config config = read_config_text("test.yaml", kYaml, here());
  const std::unique_ptr<Communicator> world = make_self_communicator();
  resolve_world(config, 1);
  Session session(config, *world, {.edit_program = [&](TrainingProgram& training) {
                    training.state_disk->replace_calls(slow);
                  }});
  double seconds = 0;
  for (int i = 0; i < 2; ++i) seconds += session.step().seconds;
  const double waited = exposed_seconds_of_states(session.programs());
  EXPECT_GT(waited, 0.05) << "28 reads a step, of which updates hide next to nothing";
  EXPECT_NEAR(waited, exposed_seconds(session.programs(), StreamId::kDisk), 1e-9 + 1e-6 * waited);
  EXPECT_NE(slow_disk_warning(session.programs(), 2, seconds), "");
  const RankReport report = report_of(config, session.measurements());
  std::string said;
  for (const auto& [key, sentence] : report.sentences)
    if (key == "optimizer.offload") said = sentence;
  for (const char* part : {"MB/s", "a step exposed", "on the disk", "28 states and masters of 14 parameters"})
    EXPECT_NE(said.find(part), std::string::npos) << said;
  EXPECT_EQ(report.reserved.disk, report.predicted.disk_state_bytes);
}

}  // namespace
}  // namespace recollect::test::offload_test
