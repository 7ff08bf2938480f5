// The lock of a folder of snapshots is of the folder, and what is saved goes by its name: a run saves nothing where another
// folder has the name.
#include <gtest/gtest.h>

#include <filesystem>

#include "launch/config/read.h"
#include "launch/ranks/world.h"
#include "launch/train/snapshot_lock.h"
#include "tests/engine/expect_error.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::snapshot_lock_test {
namespace {

namespace fs = std::filesystem;

class SnapshotLocks : public testing::Test {
 protected:
  // `act` of a run that saves there, with the lock that it begins with.
  void run(const std::function<void(SnapshotLock&)>& act) const {
    std::unique_ptr<MpiEnvironment> mpi;
    run_ranks(config_, mpi, [&](Communicator& world) {
      SnapshotLock lock(config_, world);
      act(lock);
    });
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.file("snapshots"), away_ = folder_.file("away");
  const Config config_ =
      read_config_text("test.yaml", kTinyYaml, {"snapshot.every_steps=1", "snapshot.path=" + path_});
};

TEST_F(SnapshotLocks, AreOfOneFolder) {
  run([&](SnapshotLock& lock) {
    lock.make();
    lock.check();
    fs::rename(path_, away_);
    fs::create_directory(path_);
    expect_error(ExitCode::kStorage, {path_ + " is another folder"}, [&] { lock.check(); });
    fs::remove(path_);
    lock.check();  // nobody has the name: it is made anew, and nobody else's
    EXPECT_TRUE(fs::is_directory(path_));
    expect_error(ExitCode::kStorage, {"another run saves its snapshots in " + path_},
                 [&] { lock_snapshots(path_); });
  });
  EXPECT_TRUE(lock_snapshots(path_));
}

// Neither of two runs has seen the folder when it began; the other one has saved there, and ended.
TEST_F(SnapshotLocks, OfTwoRunsThatBeginAtOnceAreOfOne) {
  run([&](SnapshotLock& lock) {
    fs::create_directories(path_ + "/step-00000001");
    expect_error(ExitCode::kStorage, {"another run has saved its snapshots in " + path_ + " meanwhile"},
                 [&] { lock.make(); });
  });
}

}  // namespace
}  // namespace recollect::test::snapshot_lock_test
