// `recollect snapshot` as tests see it: a folder where a small model is trained, and the words that are said to it there.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "parallel/snapshot/snapshot_folder.h"
#include "tests/launch/process.h"

namespace recollect::test::snapshot_command_test {

inline const Words kTraining = {
    "device.backend=cpu",   "training.precision=fp32", "training.global_batch_size=4",
    "training.max_steps=4", "profiling.step=0",        "memory_report.at=[]",
    "optimizer.name=adamw", "snapshot.every_steps=2",  "checkpoint.save_model=true"};

// Those of every test, where a test says nothing else.
inline Words with_defaults(const Words& words) {
  Words all;
  for (const std::string& word : kTraining) {
    const std::string key = word.substr(0, word.find('=') + 1);
    const auto is_it = [&](const std::string& given) { return given.starts_with(key); };
    if (std::none_of(words.begin(), words.end(), is_it)) all.push_back(word);
  }
  return all + words;
}

inline Words ranks(int tensor, int data) {
  return {"parallelism.tensor_parallel_size=" + std::to_string(tensor),
          "parallelism.data_parallel_size=" + std::to_string(data),
          "parallelism.ranks_per_process=" + std::to_string(tensor * data)};
}

inline Words to_layout(int tensor, int data) {
  return {"--to",
          "snapshot",
          "--tensor-parallel-size",
          std::to_string(tensor),
          "--data-parallel-size",
          std::to_string(data)};
}

inline const char* const kGpt = R"(
model: {type: gpt2, vocab_size: 61, n_positions: 16, n_embd: 24, n_layer: 2, n_head: 4, initializer_range: 0.2}
data: {format: random, sequence_length: 8}
logging: {progress: off}
optimizer: {momentum: 0, learning_rate: 1e-2}
output_dir: out
overwrite: true
resume: auto
)";

class SnapshotCommand {
 public:
  explicit SnapshotCommand(const char* yaml = kGpt) { place_.folder().write("c.yaml", yaml); }

  std::string file(const std::string& name) const { return place_.file(name); }
  const Workplace& place() const { return place_; }
  std::string step(int64_t step, const std::string& folder = "out/snapshots") const {
    return SnapshotFolder(file(folder)).of_step(step);
  }

  void train(const Words& words) const {
    const Finished run = place_.train(with_defaults(words));
    ASSERT_EQ(run.status, 0) << run.err;
  }
  // `recollect snapshot WORDS`, which must end so. Returns both streams.
  std::string run(const Words& words, int status = 0) const {
    const Finished run = place_.recollect(Words{"snapshot"} + words);
    EXPECT_EQ(run.status, status) << testing::PrintToString(words) << run.out << run.err;
    return run.out + run.err;
  }
  std::string convert(const std::string& from, const std::string& to, const Words& words,
                      int status = 0) const {
    return run(Words{"convert", from, to} + words, status);
  }

 private:
  Workplace place_;
};

}  // namespace recollect::test::snapshot_command_test
