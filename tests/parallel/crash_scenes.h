// Saves over snapshots that are there, for tests that break them off: what may be found behind them, and that the next
// save leaves nothing of them.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "parallel/snapshot/snapshot_reader.h"
#include "parallel/snapshot/snapshot_saver.h"
#include "tests/comm/ranks.h"
#include "tests/engine/temporary_folder.h"
#include "tests/parallel/snapshot_rank.h"

namespace recollect::test::snapshot_test {

// The save is always of step 2, over snapshots of other contents; only one snapshot is kept, so that none is left that
// should have gone.
struct CrashScene {
  const char* name;
  Layout layout;
  std::vector<int64_t> before;  // steps
  bool asynchronous = true;
  bool exchanges = true;  // two names, as most file systems can
};
inline constexpr double kOld = 1000, kNew = 2000, kNext = 3000;  // contents

inline const std::vector<CrashScene>& crash_scenes() {
  static const std::vector<CrashScene> scenes = {{"OverAnOlderOne", {1, 1}, {1}},
                                                 {"OverTheSameStep", {1, 1}, {2}, false},
                                                 {"TwoRanks", {2, 2}, {1}},
                                                 {"OverTheSameStepInTurn", {1, 1}, {2}, false, false}};
  return scenes;
}

inline SnapshotOptions crash_options(const std::string& folder, bool asynchronous) {
  return {.path = folder,
          .keep = 1,
          .asynchronous = asynchronous,
          .configuration = "task: causal_lm\n",
          .versions = {{"recollect", "test"}}};
}

// Without waiting longer than it takes.
inline SnapshotOutcome save_now(SnapshotSaver& saver, int64_t step) {
  saver.begin(progress_at(step));
  while (true) {
    if (std::optional<SnapshotOutcome> outcome = saver.look()) return *outcome;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

inline void save_good(const CrashScene& scene, const std::string& folder, int64_t step, double content) {
  expect_fine(run_as_threads(scene.layout.ranks, [&](Communicator& world) {
    const Rank rank(world, scene.layout.tensor, content);
    SnapshotSaver saver(crash_options(folder, scene.asynchronous), rank.state(), rank.mesh());
    const SnapshotOutcome outcome = save_now(saver, step);
    EXPECT_FALSE(outcome.failed) << outcome.failed->what();
    EXPECT_FALSE(outcome.left) << outcome.left->what();
  }));
}

// Looks at snapshots as a run that is resumed does. One rank reads what any ranks have written.
class SnapshotFinder {
 public:
  // What the newest snapshot holds that can be loaded; 0 where there is none. Whatever loads is whole.
  double newest(const std::string& folder) const {
    SnapshotFolder(folder).restore();
    for (const int64_t step : SnapshotFolder(folder).steps()) {
      try {
        SnapshotReader reader(SnapshotFolder(folder).of_step(step));
        reader.load(rank_.state());
        EXPECT_EQ(reader.manifest().progress, progress_at(step));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kInput) << error.what();
        continue;
      }
      for (const double content : {kOld, kNew, kNext})
        if (rank_.others_than(content) == 0) return content;
      ADD_FAILURE() << "the snapshot of step " << step << " is a mixture";
    }
    return 0;
  }

 private:
  std::unique_ptr<Communicator> self_ = make_self_communicator();
  Rank rank_{*self_, 1, 0};
};

// All files and folders, hidden ones included.
inline std::set<std::string> everything_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    names.insert(std::filesystem::relative(entry.path(), folder).string());
  return names;
}

inline std::set<std::string> one_snapshot(const CrashScene& scene, int64_t step) {
  const std::string name = std::filesystem::path(SnapshotFolder("x").of_step(step)).filename().string();
  std::set<std::string> names{name, name + "/manifest.json", name + "/rank-00000.safetensors"};
  if (scene.layout.ranks == 2) names.insert(name + "/rank-00001.safetensors");
  return names;
}

// The folder that the save is into: "snapshots" in a folder of its own.
class SceneFolder {
 public:
  explicit SceneFolder(const CrashScene& scene) {
    for (const int64_t step : scene.before) save_good(scene, first(), step, kOld);
  }
  // As it was, with what a killed run may have left.
  std::string again() const {
    namespace fs = std::filesystem;
    fs::remove_all(folder_.file("work"));
    fs::create_directories(folder_.file("work"));
    const std::string work = folder_.file("work/snapshots");
    if (!fs::exists(first())) return work;
    fs::copy(first(), work, fs::copy_options::recursive);
    folder_.write("work/snapshots/step-00000002.saving/rank-00000.safetensors", "half");
    folder_.write("work/snapshots/step-00000000.removed/rank-00000.safetensors", "gone");
    return work;
  }
  std::string work() const { return folder_.file("work"); }

 private:
  // In memory, where a flush takes no time.
  static std::filesystem::path place() {
    const std::filesystem::path memory = "/dev/shm";
    return std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
  }
  std::string first() const { return folder_.file("first/snapshots"); }

  TemporaryFolder folder_{place()};
};

}  // namespace recollect::test::snapshot_test
