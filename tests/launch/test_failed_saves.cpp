// A disk that takes no snapshot costs no step: each failure is said with the file's name, and only several in a row end
// the run.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/launch/process.h"
#include "tests/launch/run_support.h"

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
  const Finished run = train(place, "", "training.max_steps=2");
  ASSERT_EQ(run.status, 0) << run.err;
  for (const std::string step : {"1", "2"}) {
    const std::string said = "the snapshot of step " + step + " could not be saved: rank 0: ";
    EXPECT_EQ(times_in(run.err, said), 1) << run.err;
  }
  EXPECT_EQ(times_in(run.err, "rank-00000.safetensors: File too large; training goes on"), 2) << run.err;
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

}  // namespace
}  // namespace recollect::test::failed_saves_test
