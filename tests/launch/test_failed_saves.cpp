// A disk that takes no snapshot costs no step: each failure is said with the file's name, and only several in a row, or
// that of the last step, end the run.
#include <gtest/gtest.h>

#include <filesystem>

#include "launch/config/read.h"
#include "launch/ranks/world.h"
#include "launch/train/snapshot_lock.h"
#include "launch/train/snapshots.h"
#include "tests/engine/expect_error.h"
#include "tests/launch/process.h"
#include "tests/launch/run_support.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::failed_saves_test {
namespace {

namespace fs = std::filesystem;

// As on a disk where files cannot become as large as a rank's part.
Finished train(const Workplace& place, const std::string& launcher, const std::string& words) {
  return Process(shell("ulimit -f 64; exec " + launcher + recollect_binary() +
                       " train c.yaml snapshot.every_steps=1 memory_report.at=[] profiling.step=0 " + words),
                 place.folder().path())
      .wait(Workplace::kBound);
}

TEST(FailedSaves, CostNoStep) {
  const Workplace place, whole;
  const Words three = {"training.max_steps=3", "memory_report.at=[]", "profiling.step=0"};
  ASSERT_EQ(whole.train(three).status, 0);
  const Finished run = train(place, "", "training.max_steps=3");
  EXPECT_EQ(run.status, 6) << run.err;  // behind the last step: its state is lost
  EXPECT_EQ(place.metrics().size(), 3u);
  for (const std::string step : {"1", "2", "3"}) {
    const std::string said = "the snapshot of step " + step + " could not be saved: rank 0: ";
    EXPECT_EQ(times_in(run.err, said), 1) << run.err;
  }
  const std::string full = "rank-00000.safetensors: File too large; ";
  EXPECT_EQ(times_in(run.err, full + "training goes on"), 1) << run.err;
  EXPECT_EQ(times_in(run.err, full + "another try follows"), 2) << run.err;  // of step 2, and of step 3
  EXPECT_EQ(times_in(run.err, "all steps are done, and the snapshot of the last one, 3, could not be saved"),
            1)
      << run.err;
  EXPECT_TRUE(fs::is_empty(place.file("out/snapshots")));
  // There is nothing to go on from, and nothing in the way.
  ASSERT_EQ(place.train(three + Words{"snapshot.every_steps=2"}).status, 0);
  const auto metrics = place.metrics(), expected = whole.metrics();
  ASSERT_EQ(metrics.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(metrics[i]["loss"], expected[i]["loss"]);
  EXPECT_TRUE(fs::exists(place.file("out/snapshots/step-00000003/manifest.json")));
}

TEST(FailedSaves, ThreeInARowEndTheRun) {
  const Workplace place;
  const Finished run =
      train(place, recollect_binary() + " run --standalone --nproc-per-node 2 ",
            "training.max_steps=9 parallelism.tensor_parallel_size=2 parallelism.communicator=tcp");
  EXPECT_EQ(run.status, 6) << run.err;
  EXPECT_NE(run.err.find("3 snapshots in a row could not be saved, the last one of step "), std::string::npos)
      << run.err;
  EXPECT_NE(run.err.find("rank-0000"), std::string::npos) << run.err;
  EXPECT_TRUE(fs::is_empty(place.file("out/snapshots")));
}

// There is nothing to go on from, and what it has written is its own.
TEST(FailedSaves, ARunThatEndedBeforeItsFirstSnapshotBeginsAgain) {
  const Workplace place;
  EXPECT_EQ(train(place, "", "training.max_steps=9 overwrite=false").status, 6);
  EXPECT_TRUE(fs::is_empty(place.file("out/snapshots")));
  const Words same = {"training.max_steps=9", "overwrite=false", "snapshot.every_steps=1",
                      "memory_report.at=[]", "profiling.step=0"};
  const Finished again = place.train(same);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_FALSE(fs::exists(place.file("out/earlier")));
  EXPECT_EQ(place.metrics().size(), 9u);
}

// Nothing but a snapshot is too large.
TEST(FailedSaves, OfTheLastStepCostNoModel) {
  const Workplace place, whole;
  const Words words = {"train",
                       "c.yaml",
                       "training.max_steps=3",
                       "snapshot.every_steps=1",
                       "checkpoint.save_model=true",
                       "memory_report.at=[]",
                       "profiling.step=0"};
  ASSERT_EQ(whole.recollect(words).status, 0);
  const uint64_t model = fs::file_size(whole.file("out/model.safetensors")),
                 snapshot = fs::file_size(whole.file("out/snapshots/step-00000003/rank-00000.safetensors"));
  ASSERT_LT(model + 65536, snapshot);
  const std::string limit = "ulimit -f " + std::to_string((model + snapshot) / 2 / 1024);
  const Finished run =
      Process(Words{"bash", "-c", limit + "; exec \"$0\" \"$@\"", recollect_binary()} + words,
              place.folder().path())
          .wait(Workplace::kBound);
  EXPECT_EQ(run.status, 6) << run.err;
  EXPECT_NE(run.err.find("the snapshot of the last one, 3, could not be saved"), std::string::npos)
      << run.err;
  EXPECT_TRUE(TemporaryFolder::read(place.file("out/model.safetensors")) ==
              TemporaryFolder::read(whole.file("out/model.safetensors")));
}

// The disk takes the second try, or none.
TEST(FailedSaves, TheLastStepsIsTriedOnceMore) {
  for (const bool good : {true, false}) {
    const TemporaryFolder folder;
    const Config config = read_config_text("test.yaml", kTinyYaml,
                                           {"snapshot.every_steps=1", "snapshot.path=" + folder.path()});
    on_ranks(config, [&](const Config& mine, Session& session) {
      int tries = 0;
      Snapshots snapshots(mine, session, [&] {
        if (tries++ == 0 || !good) throw Error(ExitCode::kStorage, "the disk is away");
      });
      session.step();
      snapshots.after_step();
      snapshots.finish();
      EXPECT_EQ(tries, 2);
      EXPECT_EQ(snapshots.failure().empty(), good) << snapshots.failure();
      EXPECT_EQ(fs::exists(folder.file("step-00000001/manifest.json")), good);
      if (good)
        snapshots.check_saved();
      else
        expect_error(ExitCode::kStorage, {"of the last one, 1, could not be saved", "the disk is away"},
                     [&] { snapshots.check_saved(); });
    });
  }
}

// What only the first rank can find out, all say.
TEST(FailedSaves, AFolderThatCannotBeMadeIsEverybodysError) {
  const Config config = read_config_text(
      "test.yaml", kTinyYaml,
      {"snapshot.every_steps=1", "snapshot.path=/proc/snapshots", "parallelism.ranks_per_process=2"});
  std::unique_ptr<MpiEnvironment> mpi;
  std::vector<std::string> said(2);
  run_ranks(config, mpi, [&](Communicator& world) {
    SnapshotLock lock(config, world);
    try {
      lock.make();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kStorage);
      said[static_cast<std::size_t>(world.rank())] = error.what();
    }
  });
  for (const std::string& rank : said)
    EXPECT_EQ(rank.find("snapshot.path, rank 0: cannot make the folder /proc/snapshots"), 0u) << rank;
}

}  // namespace
}  // namespace recollect::test::failed_saves_test
