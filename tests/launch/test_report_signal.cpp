// SIGUSR2: every rank that gets it prints its own report after the step in progress, and training goes on.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>

#include "launch/report/report_signal.h"
#include "tests/launch/process.h"
#include "tests/launch/traces.h"

namespace recollect::test::report_signal_test {
namespace {

using namespace std::chrono_literals;

const Words kEndless = {"training.max_steps=2000000",
                        "logging.steps=1000000",
                        "parallelism.tensor_parallel_size=2",
                        "activation_checkpointing.mode=full",
                        "memory_report.at=[end]",  // the end never comes
                        "activation_checkpointing.cpu_checkpointing=true"};

// Sends the signal twice to the process that was started, with training in between and behind.
void expect_reports(const Workplace& place, const Words& command) {
  const Traces traces;
  Process run(command, place.folder().path(), traces.environment());
  const auto output = [&] { return test::TemporaryFolder::read(place.file("stdout.txt")); };
  const auto trained = [&](std::uintmax_t bytes) {
    return wait_until([&] {
      return std::filesystem::exists(place.file("out/metrics.jsonl")) &&
             std::filesystem::file_size(place.file("out/metrics.jsonl")) > bytes;
    });
  };
  ASSERT_TRUE(trained(1000)) << output() << run.wait(1s).err;
  for (int times = 1; times <= 2; ++times) {
    ASSERT_EQ(::kill(run.pid(), SIGUSR2), 0);
    for (const char* rank : {"rank 0", "rank 1"}) {
      ASSERT_TRUE(wait_until([&] { return times_in(output(), std::string(rank) + " after step ") == times; }))
          << output();
      for (const std::string line : {", MiB", ", mode: ", ", cpu_checkpointing: "})
        ASSERT_TRUE(wait_until([&] { return times_in(output(), rank + line) == times; }))
            << rank << line << output();
    }
    ASSERT_TRUE(wait_until([&] { return times_in(output(), "\nstep: measured ") == 2 * times; }))
        << output();
    ASSERT_TRUE(trained(std::filesystem::file_size(place.file("out/metrics.jsonl")) + 1000))
        << "training stopped";
    for (const char* file : {"out/memory.rank0.json", "out/memory.rank1.json"}) {
      const auto report = nlohmann::json::parse(test::TemporaryFolder::read(place.file(file)));
      EXPECT_GT(report.at("steps_done"), 0) << file;
      EXPECT_EQ(report.at("predicted"), report.at("measured")) << file;
    }
  }
  ASSERT_EQ(::kill(run.pid(), SIGTERM), 0);  // mpirun then takes its own shared memory away
  EXPECT_NE(run.wait(60s).status, 0);
  traces.expect_none();
}

TEST(ReportOnSignal, OfTwoRankThreads) {
  const Workplace place;
  expect_reports(place,
                 Words{recollect_binary(), "train", "c.yaml", "parallelism.ranks_per_process=2"} + kEndless);
}

#ifndef __SANITIZE_THREAD__  // it knows nothing of the MPI library's locks
TEST(ReportOnSignal, OfTwoProcessesUnderMpirunWhichPassesItOn) {
  const Workplace place;
  expect_reports(place, mpirun() + Words{"-np", "2", recollect_binary(), "train", "c.yaml"} + kEndless);
}
#endif

TEST(ReportSignal, CountsWhileItLivesAndNeverEndsTheProcess) {
  struct sigaction before {
  }, after{};
  sigaction(SIGUSR2, nullptr, &before);
  {
    const ReportSignal signal;
    EXPECT_EQ(signal.count(), 0u);
    ::raise(SIGUSR2);
    ::raise(SIGUSR2);
    EXPECT_EQ(signal.count(), 2u);
    const ReportSignal nested;
    EXPECT_EQ(nested.count(), 0u);
  }
  sigaction(SIGUSR2, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler == SIG_DFL ? SIG_IGN : before.sa_handler);
  sigaction(SIGUSR2, &before, nullptr);
}

}  // namespace
}  // namespace recollect::test::report_signal_test
