// A power cut at any moment of a save: every state of the folder that the calls so far allow is made, and looked at as a
// resumed run does. The newest snapshot that loads is the old one or the new one, never a mixture, and the new one from
// the moment on at which its name is flushed. And the proof sees what it looks for: without the flushes of any one file
// or folder there is a state in which something is lost.
#include <gtest/gtest.h>

#include "tests/parallel/crash_scenes.h"
#include "tests/parallel/crash_states.h"

namespace recollect::test::snapshot_test {
namespace {

std::vector<CrashScene> cut_scenes() {
  std::vector<CrashScene> scenes = crash_scenes();
  scenes.push_back({"IntoNothing", {1, 1}, {}});
  return scenes;
}

struct Findings {
  std::size_t states = 0, different = 0, saved_over = 0, bad = 0;
  std::string first_bad = {};
};

constexpr std::size_t kSavedOver = 4;  // of so many states, the next save is tried on one

class PowerCuts {
 public:
  // `made`: by a run that died before it flushed the name of the folder of snapshots.
  explicit PowerCuts(const CrashScene& scene, bool made = false) : scene_(scene), folder_(scene) {
    const std::string snapshots = folder_.again();
    start_ = std::make_unique<CrashStates>(folder_.work());
    if (made) {
      std::filesystem::create_directory(snapshots);
      start_->apply({.function = "mkdir", .path = "snapshots"});
    }
    const FileCalls calls(folder_.work(), {}, scene.exchanges);
    save_good(scene, snapshots, 2, kNew);
    calls_ = calls.calls();
  }

  const std::vector<FileCall>& calls() const { return calls_; }

  // All states, and the next save over some of them. Or, as though one file or folder were not flushed, until something
  // is lost.
  Findings examine(const std::optional<std::string>& unflushed = {}) {
    Findings findings;
    CrashStates states = *start_;
    bool named = false, promised = false;
    std::set<std::pair<bool, FileTree>> seen;
    for (std::size_t i = 0; i <= calls_.size() && !(unflushed && findings.bad > 0); ++i) {
      if (i > 0) {
        const FileCall& call = calls_[i - 1];
        if (call.function != "fsync" || call.path != unflushed) states.apply(call);
        named |= call.to == "snapshots/step-00000002" && !call.failed;
        promised |= named && call.function == "fsync" && call.path == "snapshots";
      }
      states.each([](const std::string& name) { return name == "snapshots" || step_of_folder(name) >= 0; },
                  [&](const FileTree& tree) {
                    if (unflushed && findings.bad > 0) return;
                    ++findings.states;
                    if (!seen.emplace(promised, tree).second) return;
                    look(tree, promised, i, findings);
                    if (!unflushed && findings.different % kSavedOver == 0) save_over(findings);
                  });
    }
    return findings;
  }

 private:
  void look(const FileTree& tree, bool promised, std::size_t call, Findings& findings) {
    ++findings.different;
    make_tree(tree, folder_.work());
    const double found = finder_.newest(snapshots());
    const double before = scene_.before.empty() ? 0 : kOld;
    if (found == kNew || (!promised && found == before)) return;
    if (findings.bad++ > 0) return;
    findings.first_bad = "before call " + std::to_string(call) + " " + std::to_string(found) + " is found in";
    for (const auto& [path, content] : tree)
      findings.first_bad += "\n  " + path + " " + std::to_string(content.size());
  }
  void save_over(Findings& findings) {
    ++findings.saved_over;
    save_good(scene_, snapshots(), 3, kNext);
    EXPECT_EQ(finder_.newest(snapshots()), kNext);
    EXPECT_EQ(everything_in(snapshots()), one_snapshot(scene_, 3));
  }
  std::string snapshots() const { return folder_.work() + "/snapshots"; }

  const CrashScene scene_;
  const SceneFolder folder_;
  const SnapshotFinder finder_;
  std::unique_ptr<CrashStates> start_;
  std::vector<FileCall> calls_;
};

class SnapshotPowerCuts : public testing::TestWithParam<CrashScene> {};

TEST_P(SnapshotPowerCuts, LeaveTheOldOrTheNew) {
  PowerCuts cuts(GetParam());
  const Findings findings = cuts.examine();
  EXPECT_EQ(findings.bad, 0u) << findings.first_bad;
  EXPECT_GT(findings.different, cuts.calls().size() / 8);
  EXPECT_GT(findings.saved_over, 0u);
  std::printf("%s: %zu calls, %zu states, %zu of them different\n", GetParam().name, cuts.calls().size(),
              findings.states, findings.different);
}

INSTANTIATE_TEST_SUITE_P(All, SnapshotPowerCuts, testing::ValuesIn(cut_scenes()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(SnapshotFlushes, NoneCanBeLeftOut) {
  PowerCuts cuts(crash_scenes()[2]), first(cut_scenes().back()), second(cut_scenes().back(), true);
  std::set<std::string> flushed;
  for (const FileCall& call : cuts.calls())
    if (call.function == "fsync" && !call.path.empty()) flushed.insert(call.path);
  EXPECT_EQ(flushed.size(), 5u);  // two shards, the manifest, the snapshot's folder, that of all
  for (const std::string& path : flushed) {
    const Findings findings = cuts.examine(path);
    EXPECT_GT(findings.bad, 0u) << path << " need not be flushed";
  }
  EXPECT_GT(first.examine("").bad, 0u) << "nor the folder around a new one";
  EXPECT_EQ(second.examine().bad, 0u) << "of a run that died before it flushed";
  EXPECT_GT(second.examine("").bad, 0u) << "nor that of one that is there";
}

}  // namespace
}  // namespace recollect::test::snapshot_test
