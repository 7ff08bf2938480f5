// What a run says, and what it is asked to say, never ends it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/launch/run_support.h"

namespace recollect::test::diagnostics_test {
namespace {

namespace fs = std::filesystem;

// Starts `command`, which reads its configuration from a pipe, and asks for a report before it has read any.
void expect_to_outlive_an_early_signal(const Words& command) {
  const Workplace place;
  const std::string pipe = place.file("c.fifo");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Process run(command, place.folder().path());
  int end = -1;  // refused as long as nobody reads
  ASSERT_TRUE(wait_until([&] { return (end = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK)) >= 0; }));
  ASSERT_EQ(::kill(run.pid(), SIGUSR2), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // a launcher passes it on
  const std::string text = TemporaryFolder::read(place.file("c.yaml"));
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(::write(end, text.data(), text.size()), static_cast<ssize_t>(text.size())) << "it has ended";
  std::signal(SIGPIPE, before);
  ::close(end);
  const Finished finished = run.wait(Workplace::kBound);
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(times_in(finished.out, "rank 0 after step 1/2"), 1) << finished.out;
}

TEST(Diagnostics, AReportMayBeAskedForBeforeThereIsOne) {
  expect_to_outlive_an_early_signal({recollect_binary(), "train", "c.fifo"});
  expect_to_outlive_an_early_signal({recollect_binary(), "run", "train", "c.fifo"});
}

TEST(Diagnostics, AClosedOutputIsNoFileOfTheRun) {
  const Workplace place;
  for (const char* closed : {">&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    const Finished run =
        Process(shell("exec " + recollect_binary() + " train c.yaml " + closed), place.folder().path())
            .wait(Workplace::kBound);
    EXPECT_EQ(run.status, 0) << closed << run.err;
    EXPECT_EQ(place.metrics().size(), 2u) << closed;  // throws where a line is none of them
  }
}

// A stack that is too small is reported, if the program starts at all.
TEST(Diagnostics, ASmallStackIsNamed) {
  const Workplace place;
  const Finished run =
      Process(shell("ulimit -s 300; exec " + recollect_binary() + " train c.yaml"), place.folder().path())
          .wait(Workplace::kBound);
  EXPECT_EQ(run.status, 5);
  EXPECT_EQ(run.err,
            "recollect: a thread's stack may have 300 KiB here, and this program needs 512\n"
            "  raise the limit: ulimit -s 8192\n");
}

TEST(Diagnostics, NobodyNeedsToReadOnOrHaveRoom) {
  const Workplace place;
  const std::string train = recollect_binary() + " train c.yaml training.max_steps=30 ";
  for (const std::string& script :
       {train + ">/dev/full", train + ">/dev/full 2>/dev/full",
        "( " + train + "; echo $? >status ) 2>err | true; exit $(cat status)",
        "( " + train + "logging.progress=on; echo $? >status ) 2>err | true; exit $(cat status)"}) {
    fs::remove_all(place.file("out"));
    const Finished run = Process(shell(script), place.folder().path()).wait(Workplace::kBound);
    EXPECT_EQ(run.status, 0) << script << run.err << TemporaryFolder::read(place.file("err"));
    EXPECT_EQ(place.metrics().size(), 30u);
    EXPECT_TRUE(fs::exists(place.file("out/train_results.json")));
  }
}

TEST(Diagnostics, AReportThatCannotBeWrittenIsComplainedOfOnce) {
  const Workplace place;
  for (const char* name : {"memory.rank1.json", "trace.rank0.json", "report.html", "train_results.json"})
    fs::create_directories(place.file(std::string("out/") + name));
  const Finished run = place.train({"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2",
                                    "training.max_steps=3", "memory_report.at=[start,end,step:1,step:2]"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(place.metrics().size(), 3u);
  EXPECT_EQ(times_in(run.err, "a report is missing: cannot write out/"), 2) << run.err;  // by each rank
  EXPECT_TRUE(fs::is_regular_file(place.file("out/memory.rank0.json")));
}

}  // namespace
}  // namespace recollect::test::diagnostics_test
