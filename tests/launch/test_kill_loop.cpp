// Runs that are killed at random times, a rank or the launcher, end as though nobody had touched them: the same bits of
// all that a snapshot holds, the same metrics. tests/long/kill_loop.py does it, here with few kills.
#include <gtest/gtest.h>

#include "tests/launch/process.h"
#include "tests/launch/python.h"

namespace recollect::test::kill_loop_test {
namespace {

TEST(KillLoop, FiftyKillsLoseNothing) {
  const std::string python = python_with("argparse, hashlib");
  if (python.empty()) GTEST_SKIP() << "no Python";
  const TemporaryFolder folder;
  Process loop(
      {python, RECOLLECT_SOURCE_DIR "/tests/long/kill_loop.py", "50", "--recollect", recollect_binary()},
      folder.path());
  const Finished finished = loop.wait(Workplace::kBound);
  EXPECT_EQ(finished.status, 0) << finished.out << finished.err;
  EXPECT_NE(finished.out.find("each ended with the bits and the metrics of one left alone"),
            std::string::npos)
      << finished.out;
}

}  // namespace
}  // namespace recollect::test::kill_loop_test
