// Nothing is lost whatever call of a save fails, and wherever the process or one rank of it dies: the newest snapshot that
// loads is the old one or the new one, bit for bit; training goes on; the next save is good and leaves nothing else.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/io/folders.h"
#include "tests/engine/expect_error.h"
#include "tests/parallel/crash_scenes.h"
#include "tests/parallel/file_calls.h"

namespace recollect::test::snapshot_test {
namespace {

// What may become of a call.
std::vector<PlannedFault> faults_of(const FileCall& call, int lane, int number) {
  const auto errors = [&](std::initializer_list<int> all) {
    std::vector<PlannedFault> faults;
    for (const int error : all) faults.push_back({lane, number, Fault::kError, error});
    return faults;
  };
  const std::string& what = call.function;
  if (what == "pwrite") {
    std::vector<PlannedFault> faults = errors({ENOSPC, EIO});
    faults.push_back({lane, number, Fault::kInterrupted, 0});
    faults.push_back({lane, number, Fault::kShort, 0});
    faults.push_back({lane, number, Fault::kShortThenError, ENOSPC});
    return faults;
  }
  if (what == "posix_fallocate") {
    std::vector<PlannedFault> faults = errors({ENOSPC, EIO, EOPNOTSUPP});
    faults.push_back({lane, number, Fault::kInterrupted, 0});
    return faults;
  }
  if (what == "open" || what == "openat") return errors({call.creates ? ENOSPC : EMFILE, EIO});
  if (what == "renameat2") return errors({EIO, ENOSPC, EINVAL});
  if (what == "rename" || what == "mkdir") return errors({EIO, ENOSPC});
  if (what == "fsync") return errors({EIO, ENOSPC, EINVAL});
  if (what == "flock") return errors({ENOLCK});
  return errors({EIO});
}

// The name under which a user knows a file: a temporary one has that of the file that it becomes.
std::string known_name(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  if (const auto end = name.find(".0.recollect.tmp"); end != std::string::npos)
    name = name.substr(1, end - 1);
  return name;
}

std::string told(const CrashScene& scene, const PlannedFault& fault, const FileCall& call) {
  return std::string(scene.name) + ": call " + std::to_string(fault.call) + " of lane " +
         std::to_string(fault.lane) + ", " + call.function + " " + call.path + ", fault " +
         std::to_string(static_cast<int>(fault.fault)) + " " + std::to_string(fault.error);
}

// A save that meets a fault, or none, and a good one behind it.
struct Attempt {
  std::vector<FileCall> calls;
  std::optional<FileCall> met;
  std::vector<SnapshotOutcome> outcomes;  // by rank
  double found = 0;                       // between the two
};

Attempt attempt(const CrashScene& scene, const std::string& folder, const std::string& work,
                const SnapshotFinder& finder, const std::optional<PlannedFault>& fault) {
  Attempt attempt;
  attempt.outcomes.resize(static_cast<std::size_t>(scene.layout.ranks));
  std::unique_ptr<FileCalls> calls;
  expect_fine(run_as_threads(scene.layout.ranks, [&](Communicator& world) {
    const Rank rank(world, scene.layout.tensor, kNew);
    SnapshotSaver saver(crash_options(folder, scene.asynchronous), rank.state(), rank.mesh());
    if (world.rank() == 0) calls = std::make_unique<FileCalls>(work, fault, scene.exchanges);
    world.barrier();
    attempt.outcomes[static_cast<std::size_t>(world.rank())] = save_now(saver, 2);
    world.barrier();
    if (world.rank() == 0) {
      attempt.calls = calls->calls();
      attempt.met = calls->met();
      calls.reset();
      attempt.found = finder.newest(folder);
    }
    world.barrier();
    rank.fill(kNext);
    const SnapshotOutcome next = save_now(saver, 3);
    EXPECT_FALSE(next.failed) << next.failed->what();
    EXPECT_FALSE(next.left) << next.left->what();
  }));
  return attempt;
}

// A file whose flush has failed is flushed no more and takes no name.
void expect_not_flushed_again(const std::vector<FileCall>& calls) {
  std::string failed;
  for (const FileCall& call : calls) {
    if (call.creates && call.path == failed) failed.clear();
    const bool uses = call.function == "fsync" || call.function == "rename" || call.function == "renameat2";
    EXPECT_FALSE(uses && !failed.empty() && call.path == failed) << call.function << " " << call.path;
    if (call.function == "fsync" && call.failed && call.path.ends_with(".tmp")) failed = call.path;
  }
}

class SnapshotFaults : public testing::TestWithParam<CrashScene> {};

TEST_P(SnapshotFaults, EveryCallFailsOnce) {
  const CrashScene& scene = GetParam();
  const SceneFolder folder(scene);
  const SnapshotFinder finder;
  const Attempt good = attempt(scene, folder.again(), folder.work(), finder, {});
  EXPECT_EQ(good.found, kNew);
  std::map<int, int> counts;
  int tried = 0, failed = 0, left = 0;
  for (const FileCall& call : good.calls) {
    std::vector<PlannedFault> faults = faults_of(call, call.lane, counts[call.lane]++);
    // How ranks tell each other does not depend on the reason, nor does how two names are exchanged.
    if (scene.layout.ranks > 1 || !scene.exchanges) faults.resize(1);
    if (call.function == "rename" && !scene.exchanges) {  // what it was called, it cannot be called again
      faults.push_back(faults.front());
      faults.back().fault = Fault::kErrorsSince;
    }
    for (const PlannedFault& fault : faults) {
      SCOPED_TRACE(told(scene, fault, call));
      const std::string snapshots = folder.again();
      const Attempt bad = attempt(scene, snapshots, folder.work(), finder, fault);
      ++tried;
      ASSERT_TRUE(bad.met);
      EXPECT_EQ(bad.met->function, call.function);
      EXPECT_EQ(bad.met->path, call.path);
      expect_not_flushed_again(bad.calls);
      for (const SnapshotOutcome& outcome : bad.outcomes) {
        ASSERT_EQ(outcome.failed.has_value(), bad.outcomes[0].failed.has_value());
        if (!outcome.failed) continue;
        EXPECT_STREQ(outcome.failed->what(), bad.outcomes[0].failed->what());
        const std::string what = outcome.failed->what();
        EXPECT_TRUE(what.find(known_name(call.path)) != std::string::npos ||
                    (!call.to.empty() && what.find(known_name(call.to)) != std::string::npos))
            << what;
      }
      if (bad.outcomes[0].failed) {
        ++failed;
        EXPECT_NE(bad.found, 0) << "nothing loads";
      } else {
        EXPECT_EQ(bad.found, kNew);
        left += bad.outcomes[0].left.has_value();
      }
      EXPECT_EQ(finder.newest(snapshots), kNext);
      EXPECT_EQ(everything_in(snapshots), one_snapshot(scene, 3));
    }
  }
  EXPECT_GT(failed, 0);
  EXPECT_GT(left, 0) << "an older snapshot that stays is no failure, and is said";
  std::printf("%s: %zu calls, %d faults, of which %d failed the save\n", scene.name, good.calls.size(), tried,
              failed);
}

// The process, with all ranks in it, ends at the call; the first calls look at what is there when a run begins.
TEST_P(SnapshotFaults, TheProcessDiesAtEveryCall) {
  const CrashScene& scene = GetParam();
  const SceneFolder folder(scene);
  const SnapshotFinder finder;
  for (int lane = 0; lane < scene.layout.ranks; ++lane)
    for (int number = 0, code = kDeathCode; code == kDeathCode; ++number) {
      const PlannedFault fault{lane, number, Fault::kDeath};
      const std::string snapshots = folder.again();
      SCOPED_TRACE(told(scene, fault, {}));
      const pid_t child = ::fork();
      if (child == 0) {
        const FileCalls calls(folder.work(), fault, scene.exchanges);
        save_good(scene, snapshots, 2, kNew);
        ::_exit(testing::Test::HasFailure() ? 1 : 0);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      code = WEXITSTATUS(status);
      ASSERT_TRUE(code == kDeathCode || code == 0) << code;
      const double found = finder.newest(snapshots);
      EXPECT_TRUE(found == kNew || (found == kOld && code != 0)) << found;
      save_good(scene, snapshots, 3, kNext);
      EXPECT_EQ(finder.newest(snapshots), kNext);
      EXPECT_EQ(everything_in(snapshots), one_snapshot(scene, 3));
      if (code == 0) std::printf("%s: lane %d died at %d calls\n", scene.name, lane, number);
    }
}

INSTANTIATE_TEST_SUITE_P(All, SnapshotFaults, testing::ValuesIn(crash_scenes()),
                         [](const auto& info) { return std::string(info.param.name); });

// The first call of it, or the last one; there is one lane.
int number_of(const std::vector<FileCall>& calls, const std::string& function, const std::string& path,
              bool last) {
  int found = -1;
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (calls[i].function == function && calls[i].path.find(path) != std::string::npos && (last || found < 0))
      found = static_cast<int>(i);
  return found;
}

// What the disk has of two names that were exchanged nobody knows behind a failed flush: neither the next save that
// fails nor a second try at the same step removes the former one.
TEST(FailedFlush, OfANameKeepsTheFormerOne) {
  const CrashScene& scene = crash_scenes()[1];
  const SceneFolder folder(scene);
  const auto self = make_self_communicator();
  const Rank rank(*self, 1, kNew);
  const auto save = [&](SnapshotSaver& saver, int64_t step, std::vector<FileCall>& made,
                        std::optional<PlannedFault> fault) {
    const FileCalls calls(folder.work(), fault);
    const bool failed = save_now(saver, step).failed.has_value();
    made = calls.calls();
    return failed;
  };
  std::vector<FileCall> first, second, ignored;
  SnapshotSaver good(crash_options(folder.again(), false), rank.state(), rank.mesh());
  ASSERT_FALSE(save(good, 2, first, {}));
  for (const int64_t later : {2, 3})
    for (const bool fails : {false, true}) {
      const std::string snapshots = folder.again();
      const std::string former = SnapshotFolder(snapshots).being_saved(2) + "/manifest.json";
      SnapshotSaver saver(crash_options(snapshots, false), rank.state(), rank.mesh());
      ASSERT_TRUE(save(saver, 2, ignored,
                       PlannedFault{0, number_of(first, "fsync", "snapshots", true), Fault::kError, EIO}));
      ASSERT_TRUE(std::filesystem::exists(former));
      const int call = number_of(second, later == 2 ? "fsync" : "pwrite", "snapshots", false);
      ASSERT_EQ(save(saver, later, fails ? ignored : second,
                     fails ? std::optional(PlannedFault{0, call, Fault::kError, EIO}) : std::nullopt),
                fails);
      EXPECT_EQ(std::filesystem::exists(former), fails) << later;
    }
}

TEST(FolderNames, AreWrittenAnewWhereTheyWereNotFlushed) {
  const TemporaryFolder place;
  const std::string folder = place.file("run/snapshots");
  std::vector<FileCall> good;
  {
    const FileCalls calls(place.path());
    make_folders(folder);
    good = calls.calls();
  }
  std::filesystem::remove_all(place.file("run"));
  const FileCalls calls(place.path(),
                        PlannedFault{0, number_of(good, "fsync", "run", false), Fault::kError, EIO});
  EXPECT_THROW(make_folders(folder), Error);
  EXPECT_FALSE(std::filesystem::exists(folder));
  make_folders(folder);
  // Somebody else's, who may have died before the flush.
  const std::size_t before = calls.calls().size();
  make_folders(folder);
  std::set<std::string> flushed;
  for (std::size_t i = before; i < calls.calls().size(); ++i)
    if (calls.calls()[i].function == "fsync") flushed.insert(calls.calls()[i].path);
  EXPECT_EQ(flushed, (std::set<std::string>{"", "run"}));
}

// Whoever passed it over would remove it later.
// The reason is the system's, and not that something is in the way.
TEST(HalfSavedSnapshots, ThatCannotBeRemovedAreNamed) {
  const TemporaryFolder place;
  const SnapshotFolder folder(place.file("snapshots"));
  const auto leave = [&] {
    folder.begin(1);
    place.write("snapshots/step-00000001.saving/rank-00000.safetensors", "half");
  };
  leave();
  std::vector<FileCall> good;
  {
    const FileCalls calls(place.path());
    folder.begin(1);
    good = calls.calls();
  }
  leave();
  const FileCalls calls(
      place.path(), PlannedFault{0, number_of(good, "unlinkat", "rank-00000", false), Fault::kError, EIO});
  expect_error(ExitCode::kStorage, {"cannot remove " + folder.being_saved(1) + ": Input/output error"},
               [&] { folder.begin(1); });
}

TEST(UnreadableSnapshots, AreNotDamaged) {
  const CrashScene& scene = crash_scenes()[0];
  const SceneFolder folder(scene);
  const std::string snapshot = SnapshotFolder(folder.again()).of_step(1);
  const auto self = make_self_communicator();
  const Rank rank(*self, 1, kNew);
  std::vector<FileCall> good;
  {
    const FileCalls calls(folder.work());
    SnapshotReader(snapshot).load(rank.state());
    good = calls.calls();
  }
  for (const char* file : {"manifest.json", "rank-00000.safetensors"})
    for (const auto& [error, code] : {std::pair{EMFILE, ExitCode::kStorage},
                                      {EIO, ExitCode::kStorage},
                                      {EACCES, ExitCode::kStorage},
                                      {EBUSY, ExitCode::kStorage},
                                      {EREMOTEIO, ExitCode::kStorage},
                                      {ENOENT, ExitCode::kInput}}) {
      const FileCalls calls(folder.work(),
                            PlannedFault{0, number_of(good, "open", file, false), Fault::kError, error});
      try {
        SnapshotReader(snapshot).load(rank.state());
        ADD_FAILURE() << file << " was read";
      } catch (const Error& wrong) {
        EXPECT_EQ(wrong.code(), code) << wrong.what();
      }
    }
}

TEST(UnknownFiles, AreNoErrorWhereTheFolderCannotBeRead) {
  const CrashScene& scene = crash_scenes()[0];
  const SceneFolder folder(scene);
  const SnapshotReader reader(SnapshotFolder(folder.again()).of_step(1));
  for (int call = 0; call < 5; ++call) {
    const FileCalls calls(folder.work(), PlannedFault{0, call, Fault::kError, EIO});
    EXPECT_NO_THROW(EXPECT_TRUE(reader.unknown_files().empty()));
    EXPECT_TRUE(calls.met());
  }
}

// One of two processes ends, and the other one loses its peer. At every so-manieth call.
class SnapshotDeaths : public testing::TestWithParam<int> {};

TEST_P(SnapshotDeaths, OneRankDies) {
  const CrashScene& scene = crash_scenes()[2];
  ASSERT_EQ(scene.layout.ranks, 2);
  const SceneFolder folder(scene);
  const SnapshotFinder finder;
  for (int lane = 0; lane < 2; ++lane)
    for (int number = 0, died = 1; died > 0; number += GetParam()) {
      const PlannedFault fault{lane, number, Fault::kDeath};
      const std::string snapshots = folder.again();
      SCOPED_TRACE(told(scene, fault, {}));
      const std::vector<Outcome> outcomes = run_as_processes(2, [&](Communicator& world) {
        const Rank rank(world, scene.layout.tensor, kNew);
        const FileCalls calls(folder.work(), fault);
        SnapshotSaver saver(crash_options(snapshots, true), rank.state(), rank.mesh());
        save_now(saver, 2);
      });
      died = 0;
      for (const Outcome& outcome : outcomes) {
        died += outcome.code == static_cast<ExitCode>(kDeathCode);
        EXPECT_TRUE(outcome.code == static_cast<ExitCode>(kDeathCode) || outcome.code == ExitCode::kOk ||
                    outcome.code == ExitCode::kPeerLost)
            << outcome.message;
      }
      const double found = finder.newest(snapshots);
      EXPECT_TRUE(found == kNew || (found == kOld && died > 0)) << found;
      save_good(scene, snapshots, 3, kNext);
      EXPECT_EQ(everything_in(snapshots), one_snapshot(scene, 3));
    }
}

INSTANTIATE_TEST_SUITE_P(Some, SnapshotDeaths, testing::Values(9));
INSTANTIATE_TEST_SUITE_P(Long, SnapshotDeaths, testing::Values(1));

}  // namespace
}  // namespace recollect::test::snapshot_test
