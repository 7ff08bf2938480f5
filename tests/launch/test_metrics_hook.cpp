// logging.hook: a command gets every line of metrics, and whatever becomes of it, the run goes on and is no slower.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "launch/train/metrics_hook.h"
#include "tests/launch/process.h"

namespace recollect::test::metrics_hook_test {
namespace {

const Words kQuick = {"memory_report.at=[]", "profiling.step=0", "training.max_steps=6"};

TEST(MetricsHook, GetsTheLinesOfMetrics) {
  const Workplace place;
  const Words hook = {"logging.hook=cat > lines; echo read them; echo all >&2", "evaluation.every_steps=3",
                      "evaluation.batches=1"};
  ASSERT_EQ(place.train(kQuick + hook).status, 0);
  const std::string lines = TemporaryFolder::read(place.file("lines"));
  EXPECT_EQ(times_in(lines, "\n"), 8);
  EXPECT_EQ(lines, TemporaryFolder::read(place.file("out/metrics.jsonl")));
  EXPECT_EQ(TemporaryFolder::read(place.file("out/hook.log")), "read them\nall\n");
  // Without metrics.jsonl, too.
  const Finished alone = place.train(kQuick + hook + Words{"logging.report_to=[]", "output_dir=alone"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(times_in(TemporaryFolder::read(place.file("lines")), "\"loss\""), 6);
}

TEST(MetricsHook, ThatEndsIsSpokenOfOnce) {
  const Workplace place;
  const Finished died = place.train(
      kQuick + Words{"logging.hook=read line; exit 3", "training.max_steps=300", "logging.steps=1000"});
  EXPECT_EQ(died.status, 0) << died.err;
  EXPECT_EQ(times_in(died.err, "logging.hook: ended with exit code 3; the run goes on"), 1) << died.err;
  EXPECT_EQ(times_in(died.err, "logging.hook"), 1) << died.err;
  EXPECT_EQ(place.metrics().size(), 300u);
  const Finished failed = place.train(kQuick + Words{"logging.hook=cat > /dev/null; exit 7"});
  EXPECT_EQ(failed.status, 0) << failed.err;
  EXPECT_EQ(times_in(failed.err, "logging.hook: ended with exit code 7\n"), 1) << failed.err;
}

// For ever, and whatever it has started goes on with that behind its end.
TEST(MetricsHook, ThatSaysTooMuchIsCutShort) {
  const TemporaryFolder folder;
  const std::string log = folder.file("log"), read = folder.file("read");
  const std::string cut = "\n[it has said more than 1 MiB: the rest is left out]\n";
  using Clock = std::chrono::steady_clock;
  int sent = 0;
  testing::internal::CaptureStderr();
  {
    MetricsHook hook("yes & cat > " + read, log, false);
    for (const auto start = Clock::now(); Clock::now() - start < std::chrono::seconds(60); ++sent) {
      hook.send("line\n");
      std::error_code none;
      if (const auto size = std::filesystem::file_size(log, none); !none && size > HookLog::kMost) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    hook.send("line\n");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "recollect: logging.hook: has said more than 1 MiB: the rest is not in " + log + "\n");
  EXPECT_EQ(times_in(TemporaryFolder::read(read), "\n"), sent + 2) << "it goes on all the same";
  const std::string kept = TemporaryFolder::read(log);
  EXPECT_EQ(kept.size(), HookLog::kMost + cut.size());
  EXPECT_TRUE(kept.starts_with("y\ny\n") && kept.ends_with(cut));
}

// More than a pipe and the memory beside it hold.
TEST(MetricsHook, ThatReadsTooSlowlyHoldsNothingUp) {
  using Clock = std::chrono::steady_clock;
  const TemporaryFolder folder;
  const std::string line(200, 'x'), first = folder.file("first"), child = folder.file("child");
  testing::internal::CaptureStderr();
  const auto start = Clock::now();
  Clock::time_point sent;
  {
    MetricsHook hook(
        "trap '' TERM; read line; echo $line > " + first + "; sleep 1000 & echo $! > " + child + "; wait",
        folder.file("log"), false);
    for (int i = 0; i < 20000; ++i) hook.send(std::to_string(i) + line + "\n");
    sent = Clock::now();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "recollect: logging.hook: reads too slowly: lines are left out, and the run goes on\n");
  EXPECT_LT(sent - start, std::chrono::seconds(60)) << "what it has started sleeps a thousand";
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(120));
  EXPECT_EQ(TemporaryFolder::read(first), "0" + line + "\n");
  const pid_t started = std::stoi(TemporaryFolder::read(child));
  for (const auto told = Clock::now(); is_running(started) && Clock::now() - told < std::chrono::seconds(60);)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // it dies when it is next scheduled
  EXPECT_FALSE(is_running(started)) << "nothing that it started is left";
}

}  // namespace
}  // namespace recollect::test::metrics_hook_test
