// What the system says of cores and the threads on them, and a team of threads that makes the others sleep.
#include <gtest/gtest.h>

#include <omp.h>
#include <unistd.h>

#include <filesystem>

#include "engine/io/core_times.h"
#include "engine/runtime/passive_waits.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test::core_times_test {
namespace {

class CoreTimesTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) { proc_.write(path, text); }

  const TemporaryFolder proc_;
};

TEST_F(CoreTimesTest, AreOfAllThreadsAndOfTheMachine) {
  write("self/task/7/schedstat", "1500000000 250000000 12\n");
  write("self/task/31/schedstat", "500000000 1000000000 3\n");
  write("stat", "cpu  100 20 30 4000 500 6 7 800 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n");
  write("loadavg", "8.12 2.48 1.83 9/95 10998\n");
  CoreClock clock(proc_.path());
  for (int look = 0; look < 2; ++look) {
    const std::optional<CoreTimes> times = clock.read();
    ASSERT_TRUE(times);
    EXPECT_DOUBLE_EQ(times->running, 2.0);
    EXPECT_DOUBLE_EQ(times->waiting, 1.25);
    EXPECT_DOUBLE_EQ(times->of_machine, 163.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)));
    EXPECT_GT(times->of_process, 0);
  }
  write("self/task/44/schedstat", "1000000000 0 1\n");  // a thread that came later
  EXPECT_DOUBLE_EQ(clock.read()->running, 3.0);
  EXPECT_DOUBLE_EQ(clock.load()->average, 8.12);
  EXPECT_EQ(clock.load()->now, 9);
}

TEST_F(CoreTimesTest, AreNothingWhereTheSystemDoesNotSay) {
  EXPECT_FALSE(CoreClock(proc_.file("nowhere")).read());
  EXPECT_FALSE(CoreClock(proc_.file("nowhere")).load());
  std::filesystem::create_directories(proc_.file("self/task/7"));
  write("stat", "cpu  100 20 30 4000 500 6 7 800 0 0\n");
  EXPECT_FALSE(CoreClock(proc_.path()).read()) << "a kernel without these statistics";
  write("self/task/7/schedstat", "0 0 0\n");
  EXPECT_TRUE(CoreClock(proc_.path()).read());
  write("stat", "cpu  100 20\n");
  EXPECT_FALSE(CoreClock(proc_.path()).read());
  write("loadavg", "much\n");
  EXPECT_FALSE(CoreClock(proc_.path()).load());
}

int threads_here() {
  int count = 0;
  for ([[maybe_unused]] const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

TEST(PassiveWaits, KeepMoreThreadsThanThereAreCores) {
  if (omp_get_thread_limit() <= omp_get_num_procs()) GTEST_SKIP() << "OpenMP may not have so many";
  const int before = threads_here();
  PassiveWaits waits;
  EXPECT_FALSE(waits.are_on());
  ASSERT_TRUE(waits.begin(1));
  EXPECT_TRUE(waits.are_on());
  EXPECT_TRUE(waits.begin(1)) << "once";
  int sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 100; ++i) sum += i;
  EXPECT_EQ(sum, 4950);
  waits.end();
  EXPECT_FALSE(waits.are_on());
  waits.end();
  ASSERT_TRUE(waits.begin(omp_get_num_procs())) << "again, beside a team that has all cores";
  waits.end();
  // OpenMP's threads are gone soon after the one that they belonged to.
  for (int look = 0; look < 1000 && threads_here() > before + omp_get_max_threads(); ++look) ::usleep(1000);
  EXPECT_LE(threads_here(), before + omp_get_max_threads());
}

}  // namespace
}  // namespace recollect::test::core_times_test
