// The disk as a place where saved activations wait: what it does to a run when it fails, lies, is slow or
// is not there, and that it keeps nothing.
#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>

#include "checkpointing/device_file.h"
#include "launch/config/read.h"
#include "launch/report/checkpointing_report.h"
#include "launch/report/rank_report.h"
#include "tests/launch/modes.h"
#include "tests/launch/process.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::disk_test {
namespace {

const char* const kYaml = R"(
model: {type: gpt2, vocab_size: 37, n_positions: 9, n_embd: 20, n_layer: 5, n_head: 2, n_inner: 36,
        initializer_range: 0.2, resid_pdrop: 0.3, embd_pdrop: 0.3, attn_pdrop: 0.3}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, max_steps: 2, seed: 3}
optimizer: {name: sgd, learning_rate: 1e-1}
data: {format: random, sequence_length: 7}
)";

std::string folder() { return std::filesystem::temp_directory_path().string(); }
Words on_disk(std::string_view mode) {
  return mode_words(mode) + Words{ac("disk_checkpointing.path=" + folder())};
}

// Trains on a disk of whose system calls `calls` are the calls.
Trained train_on(DiskCalls& calls, const Words& words) {
  return train(kYaml, words, [&](int) {
    return ProgramParts{
        .edit_program = [&](TrainingProgram& training) { training.disk->replace_calls(calls); }};
  });
}

Error error_of(DiskCalls& calls, const Words& words) {
  try {
    train_on(calls, words);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nobody noticed the fault";
  return Error(ExitCode::kOk, "");
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class FailingDisk final : public DiskCalls {
 public:
  FailingDisk(bool writes, int call, int error) : writes_(writes), call_(call), error_(error) {}
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

TEST(DiskFault, ErrorsInTheMiddleOfARunNameTheValue) {
  for (const Words& host : {Words{}, Words{ac("cpu_checkpointing=true")}})
    for (int call : {0, 1, 3}) {
      FailingDisk full(true, call, ENOSPC), broken(false, call, EIO);
      const Error write = error_of(full, on_disk("full") + host),
                  read = error_of(broken, on_disk("full") + host);
      EXPECT_EQ(write.code(), ExitCode::kStorage) << write.what();
      EXPECT_TRUE(has(write.what(), "cannot write ") &&
                  has(write.what(), "No space left on device, at offset "))
          << write.what();
      EXPECT_EQ(read.code(), ExitCode::kStorage) << read.what();
      EXPECT_TRUE(has(read.what(), "cannot read fetched/layer") &&
                  has(read.what(), "Input/output error, at offset "))
          << read.what();
    }
}

TEST(DiskFault, OneRanksErrorEndsAllRanks) {
  FailingDisk broken(false, 2, EIO);
  const Words words =
      on_disk("full") + Words{"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"};
  try {
    train(kYaml, words, [&](int rank) {
      return ProgramParts{.edit_program = [&broken, rank](TrainingProgram& training) {
        if (rank == 1) training.disk->replace_calls(broken);
      }};
    });
    ADD_FAILURE() << "nobody noticed the fault";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kStorage) << error.what();
  }
}

// Moves a block at a time, so that most requests need several calls.
class ShortDisk final : public DiskCalls {
 public:
  ssize_t write(int file, const void* from, std::size_t bytes, off_t offset) override {
    ++calls;
    return DiskCalls::write(file, from, std::min(bytes, DiskStore::kBlock), offset);
  }
  ssize_t read(int file, void* to, std::size_t bytes, off_t offset) override {
    return DiskCalls::read(file, to, std::min(bytes, DiskStore::kBlock), offset);
  }
  std::atomic<int> calls = 0;
};

TEST(DiskFault, ShortTransfersAreNone) {
  const Words larger = {"training.micro_batch_size=30"};
  ShortDisk disk;
  expect_same_bits(train(kYaml, larger), train_on(disk, larger + on_disk("full")), "short transfers");
  EXPECT_GE(disk.calls, 2 * 4 * 5) << "two steps of four values of five blocks";
}

// Gives back one wrong bit.
class LyingDisk final : public DiskCalls {
 public:
  ssize_t read(int file, void* to, std::size_t bytes, off_t offset) override {
    const ssize_t moved = DiskCalls::read(file, to, bytes, offset);
    if (count_++ == 2) static_cast<unsigned char*>(to)[3] ^= 1;  // of the exponent
    return moved;
  }

 private:
  std::atomic<int> count_ = 0;
};

// Says that bytes are on the file when they are still in the ring: their slot is used for other bytes too
// early.
class HastyDisk final : public DiskCalls {
 public:
  ssize_t write(int file, const void* from, std::size_t bytes, off_t offset) override {
    std::lock_guard lock(mutex_);
    finish();
    late_ = [=, this] { DiskCalls::write(file, from, bytes, offset); };
    return static_cast<ssize_t>(bytes);
  }
  ssize_t read(int file, void* to, std::size_t bytes, off_t offset) override {
    std::lock_guard lock(mutex_);
    finish();
    return DiskCalls::read(file, to, bytes, offset);
  }

 private:
  void finish() {
    if (late_) late_();
    late_ = nullptr;
  }

  std::mutex mutex_;
  std::function<void()> late_;
};

template <typename Disk>
void expect_found_by_verify(const char* value) {
  const Words words = on_disk("full");
  Disk unseen;
  const Trained right = train(kYaml, words), wrong = train_on(unseen, words);
  EXPECT_EQ(right.steps[0].loss, wrong.steps[0].loss) << "forward is not touched";
  EXPECT_FALSE(right.gradients == wrong.gradients);
  Disk seen;
  const Error error = error_of(seen, words + Words{ac("verify=true")});
  EXPECT_EQ(error.code(), ExitCode::kIntegrity) << error.what();
  EXPECT_TRUE(has(error.what(), value) && has(error.what(), "on rank 0, step 1")) << error.what();
}

TEST(DiskFault, AWrongBitIsFound) { expect_found_by_verify<LyingDisk>("fetched/layer1/layer0/mlp/residual"); }
TEST(DiskFault, ASlotOfTheRingReusedTooEarlyIsFound) { expect_found_by_verify<HastyDisk>("fetched/layer"); }

TEST(Disk, VerifyChangesNothing) {
  const Trained none = train(kYaml);
  for (const std::string_view mode : kModes)
    for (const char* host : {"false", "true"})
      expect_same_bits(
          none, train(kYaml, on_disk(mode) + Words{ac("verify=true"), ac("cpu_checkpointing=") + host}),
          std::string(mode));
}

// Looking for the first value that is not finite runs every op again, those of the disk too.
TEST(Disk, ARunThatDivergesSaysWhere) {
  for (const char* host : {"false", "true"}) {
    try {
      train(kYaml, on_disk("full") + Words{ac("cpu_checkpointing=") + host, "optimizer.learning_rate=1e300",
                                           "optimizer.max_grad_norm=0"});
      ADD_FAILURE() << "a step was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kNumerics) << error.what();
      EXPECT_TRUE(has(error.what(), "the first value that is not finite is ")) << error.what();
    }
  }
}

// Its reads take long.
class SlowDisk final : public DiskCalls {
 public:
  ssize_t read(int file, void* to, std::size_t bytes, off_t offset) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return DiskCalls::read(file, to, bytes, offset);
  }
};

TEST(Disk, ASlowOneIsNamedEvenBehindHostMemory) {
  SlowDisk slow;
  for (const char* host : {"false", "true"}) {
    Config config =
        read_config_text("test.yaml", kYaml, on_disk("full") + Words{ac("cpu_checkpointing=") + host});
    const std::unique_ptr<Communicator> world = make_self_communicator();
    resolve_world(config, 1);
    Session session(config, *world,
                    {.edit_program = [&](TrainingProgram& training) { training.disk->replace_calls(slow); }});
    double seconds = 0;
    for (int i = 0; i < 3; ++i) seconds += session.step().seconds;
    const std::string warning = slow_disk_warning(session.programs(), 3, seconds);
    EXPECT_TRUE(has(warning, "the disk is too slow for this step") && has(warning, "MB/s")) << warning;
    EXPECT_EQ(slow_disk_warning(session.programs(), 3, 1e6), "")
        << "in a step that takes so long nobody would mind";
    // The compute stream waits for copies that wait for the disk: it is the disk that is late.
    const Executor& executor = session.executor();
    double waited = 0, exposed = 0;
    for (OpId id : executor.program().graph.op_ids())
      if (executor.program().graph.op(id).stream == StreamId::kCompute)
        waited += executor.waits().by_op()[id];
    for (int s = 0; s < kStreamCount; ++s) exposed += executor.waits().exposed(static_cast<StreamId>(s));
    EXPECT_NEAR(waited, exposed, 1e-9 * waited) << "every wait is somebody's";
    EXPECT_GT(executor.waits().exposed(StreamId::kDisk), 0.7 * exposed);
    StepReport step;
    const Measurements measured = session.measurements();
    add_measurement(config, measured, step);
    bool reported = false;
    for (const auto& [name, text] : checkpointing_report(config, measured, step))
      reported |= name == "disk_checkpointing" && has(text, "ms a step exposed") && has(text, "MB/s");
    EXPECT_TRUE(reported);
  }
}

// As fast as a model of the device says, to the byte.
class PacedDisk final : public DiskCalls {
 public:
  ssize_t write(int file, const void* from, std::size_t bytes, off_t offset) override {
    take_time(bytes);
    return DiskCalls::write(file, from, bytes, offset);
  }
  ssize_t read(int file, void* to, std::size_t bytes, off_t offset) override {
    take_time(bytes);
    return DiskCalls::read(file, to, bytes, offset);
  }

  static constexpr double kRate = 6e5;  // bytes/s: whatever the processor, a step hides little of it

 private:
  static void take_time(std::size_t bytes) {
    std::this_thread::sleep_for(std::chrono::duration<double>(static_cast<double>(bytes) / kRate));
  }
};

TEST(Disk, ExposedWaitsForASlowOneArePredicted) {
  const TemporaryFolder place;
  DeviceModel device = device_preset("cpu");
  device.disk_write_bandwidth = device.disk_read_bandwidth = PacedDisk::kRate;
  const std::string model = "device.model=" + place.write("device.yaml", to_yaml(device));
  const Words wide = {"model.n_embd=64", "model.n_positions=64", "data.sequence_length=64",
                      "training.micro_batch_size=8"};
  PacedDisk paced;
  for (const std::string host : {"false", "true"}) {
    Config config = read_config_text("test.yaml", kYaml,
                                     on_disk("full") + wide + Words{ac("cpu_checkpointing=" + host), model});
    const std::unique_ptr<Communicator> world = make_self_communicator();
    resolve_world(config, 1);
    Session session(config, *world, {.edit_program = [&](TrainingProgram& training) {
                      training.disk->replace_calls(paced);
                    }});
    for (int i = 0; i < 3; ++i) session.step();
    const StepReport step = report_of(config, session.measurements()).step;
    const double predicted = step.predicted_exposed.total(), measured = step.measured_exposed.total();
    EXPECT_GT(measured, 0.02) << host;
    EXPECT_NEAR(predicted, measured, 0.3 * measured) << host;
  }
}

std::string path_word(const std::string& path) { return ac("disk_checkpointing.path=" + path); }

TEST(Disk, WhatCannotBeIsRefusedBeforeTheFirstStep) {
  const Workplace place;
  place.folder().write("file", "");
  const Words full = {ac("mode=full"), "model.n_layer=4", "logging.progress=off"};
  for (const auto& [word, said] : {std::pair<std::string, std::string>{
                                       path_word("missing"), "cannot make a file in missing: No such file"},
                                   {path_word("file"), "cannot make a file in file: Not a directory"}}) {
    const Finished refused = place.train(full + Words{word});
    EXPECT_EQ(refused.status, 6) << refused.err;
    EXPECT_TRUE(has(refused.err, said)) << refused.err;
    EXPECT_FALSE(has(refused.out, "step 1/")) << refused.out;
  }
  const Words limited = full + Words{path_word("."), ac("disk_checkpointing.limit=8KiB")};
  for (const char* command : {"train", "estimate"}) {
    const Finished refused = place.recollect(Words{command, "c.yaml"} + limited);
    EXPECT_EQ(refused.status, 6) << refused.err;
    EXPECT_TRUE(has(refused.err, "12288 bytes (12.00 KiB) of disk on this rank") &&
                has(refused.err, "limit is 8192"))
        << refused.err;
  }
  const Finished inert =
      place.train(full + Words{path_word("."), ac("keep_last=3"), ac("cpu_checkpointing=true")});
  EXPECT_EQ(inert.status, 2) << inert.err;
  EXPECT_TRUE(has(inert.err, "disk_checkpointing has no effect")) << inert.err;
}

// Where the open files of a process are.
std::vector<std::string> open_files(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd/";
  std::vector<std::string> files;
  DIR* entries = ::opendir(folder.c_str());
  while (const dirent* entry = entries ? ::readdir(entries) : nullptr) {
    char target[4096] = {};
    if (::readlink((folder + entry->d_name).c_str(), target, sizeof target - 1) > 0)
      files.emplace_back(target);
  }
  if (entries) ::closedir(entries);
  return files;
}

TEST(Disk, HoldsNothingThatAnybodySeesAndAKillLeavesNothing) {
  const Workplace place;
  const test::TemporaryFolder disk;
  Process run({recollect_binary(), "train", "c.yaml", "training.max_steps=1000000", ac("mode=full"),
               path_word(disk.path())},
              place.folder().path());
  const auto steps_taken = [&] {
    return test::TemporaryFolder::read(place.file("out/metrics.jsonl")).size() > 1000;
  };
  for (int i = 0; i < 2000 && !steps_taken(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(steps_taken());
  EXPECT_EQ(disk.count(), 0u);
  bool there = false;
  for (const std::string& file : open_files(run.pid()))
    there |= file.starts_with(disk.path() + "/") && file.ends_with(" (deleted)");
  EXPECT_TRUE(there) << "the run has no file on the disk";
  ::kill(run.pid(), SIGKILL);
  EXPECT_EQ(run.wait(Workplace::kBound).status, 128 + SIGKILL);
  EXPECT_EQ(disk.count(), 0u);
}

}  // namespace
}  // namespace recollect::test::disk_test
