// Ranks that fit on their device alone, and not together, are refused before anything is reserved. Threads
// and memory that the system does not give later are no bugs of ours.
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <thread>

#include "comm/local.h"
#include "launch/cli/run_program.h"
#include "launch/config/read.h"
#include "launch/program/limits.h"
#include "tests/launch/run_support.h"
#include "tests/launch/without_threads.h"

namespace recollect::test::limits_test {
namespace {

// A device of which only this is asked.
class Described final : public Device {
 public:
  explicit Described(std::string hardware) : hardware_(std::move(hardware)) {}
  std::string name() const override { return "cuda:0"; }
  Arena reserve(MemorySpace, std::size_t) override { throw std::logic_error("nothing is reserved"); }
  void write(void*, const void*, std::size_t) override {}
  void read(void*, const void*, std::size_t) override {}
  std::unique_ptr<Streams> make_streams(StreamOps) override { return nullptr; }
  std::optional<Memory> memory() const override { return Memory{.free = 1000, .total = 5000}; }
  std::string hardware() const override { return hardware_; }

 private:
  const std::string hardware_;
};

// What each rank is told, by whether it fits, where the first and the last share a device.
std::vector<std::string> told(const std::vector<uint64_t>& needed) {
  const int ranks = static_cast<int>(needed.size());
  std::vector<std::string> results(needed.size());
  LocalGroup group(ranks, std::chrono::seconds(60));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Communicator> world = group.join(rank);
      const Described device(rank == 0 || rank == ranks - 1 ? "GPU-a" : "GPU-b");
      MemoryLedger predicted;
      predicted.transient_bytes = needed[static_cast<std::size_t>(rank)];
      try {
        check_limits(Config{}, predicted, "the table", share_of(device, predicted.arena_bytes(), *world));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kDeviceMemory);
        results[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

// The same of host memory, where the first and the last rank are in one control group.
std::vector<std::string> told_of_host(const std::vector<uint64_t>& needed, std::optional<uint64_t> left) {
  const int ranks = static_cast<int>(needed.size());
  std::vector<std::string> results(needed.size());
  LocalGroup group(ranks, std::chrono::seconds(60));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Communicator> world = group.join(rank);
      const MemoryGroup mine{.name = rank == 0 || rank == ranks - 1 ? 7u : 8u, .left = left};
      const uint64_t bytes = needed[static_cast<std::size_t>(rank)];
      try {
        check_host_share(bytes, share_of_group(mine, bytes, *world));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kHostMemory);
        results[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(Limits, CountWhatSharesAControlGroup) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(told_of_host({1000}, 1000), Texts{""});
  EXPECT_EQ(told_of_host({1001}, std::nullopt), Texts{""});
  EXPECT_EQ(told_of_host({1001}, 1000), Texts{"the run needs 1001 bytes of host memory on this rank; its "
                                              "control group has 1000 bytes left"});
  const std::string shared = "; its control group has 1000 bytes left, and the 2 ranks there need 1001 bytes";
  EXPECT_EQ(told_of_host({400, 1000, 601}, 1000),
            (Texts{"the run needs 400 bytes of host memory on this rank" + shared, "",
                   "the run needs 601 bytes of host memory on this rank" + shared}));
}

// A group of our own, where the system lets us make one.
TEST(Limits, ARunThatItsControlGroupWouldKillIsRefused) {
  const Workplace place;
  const std::string script =
      "g=$(awk -F: '$2 ~ /(^|,)memory(,|$)/ {print \"/sys/fs/cgroup/memory\" $3}' /proc/self/cgroup)\n"
      "[ -n \"$g\" ] || g=/sys/fs/cgroup$(awk -F: '$1 == 0 {print $3}' /proc/self/cgroup)\n"
      "[ -d \"$g\" ] || g=/sys/fs/cgroup/memory\n"
      "g=$g/recollect-test-$$; mkdir $g 2>/dev/null || exit 99\n"
      "{ echo 200000000 >$g/memory.limit_in_bytes || echo 200000000 >$g/memory.max; } 2>/dev/null || "
      "{ rmdir $g; exit 99; }\n"
      "sh -c \"echo \\$\\$ >$g/cgroup.procs && exec " +
      recollect_binary() +
      " train c.yaml model.n_embd=1024 model.n_layer=4 overwrite=false\"\n"
      "status=$?; sleep 0.1; rmdir $g; exit $status";
  const Finished run = Process({"sh", "-c", script}, place.folder().path()).wait(Workplace::kBound);
  if (run.status == 99) GTEST_SKIP() << "no control group can be made here";
  EXPECT_EQ(run.status, 5) << run.err;
  EXPECT_NE(run.err.find(" of host memory on this rank; its control group has "), std::string::npos)
      << run.err;
}

TEST(Limits, CountWhatSharesADevice) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(told({1000}), Texts{""});
  EXPECT_EQ(told({1001}),
            Texts{"the run needs 1001 bytes on this rank; its device has 1000 bytes free\nthe table"});
  EXPECT_EQ(told({400, 1000, 600}), (Texts{"", "", ""}));
  const std::string shared =
      "; its device has 1000 bytes free, and the 2 ranks there need 1001 bytes\nthe table";
  EXPECT_EQ(told({400, 1000, 601}), (Texts{"the run needs 400 bytes on this rank" + shared, "",
                                           "the run needs 601 bytes on this rank" + shared}));
}

TEST(Limits, AThreadThatCannotBeHadIsNoBug) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has threads of its own";
#endif
  const std::string checkpointing = "activation_checkpointing.";
  for (const Words& words :
       {Words{"device.backend=cpu", "training.precision=fp32", "device.threads=1"},
        Words{"parallelism.ranks_per_process=2", "parallelism.tensor_parallel_size=2"},
        Words{checkpointing + "mode=full", checkpointing + "cpu_checkpointing=true", "model.n_layer=4"},
        Words{checkpointing + "mode=full", checkpointing + "disk_checkpointing.path=.", "model.n_layer=4"}}) {
    const Workplace place;
    Finished run;
    if (!without_threads([&] { run = place.train(words); }))
      GTEST_SKIP() << "the kernel cannot refuse threads here";
    EXPECT_EQ(run.status, 5) << run.err;
    for (const char* part : {"the system gives no more threads or memory: Resource temporarily unavailable",
                             "ulimit -u", "pids.max"})
      EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
  }
}

// As in a container that was given little of it.
TEST(Limits, TooLittleSharedMemoryIsSaid) {
  const Workplace place;
  const Finished run =
      Process({"unshare", "--mount", "sh", "-c",
               "mount -t tmpfs -o size=64k tmpfs /dev/shm || exit 99; exec " + recollect_binary() +
                   " run --nproc-per-node 2 train c.yaml parallelism.tensor_parallel_size=2"},
              place.folder().path())
          .wait(Workplace::kBound);
  if (run.status == 99 || run.err.find("unshare") != std::string::npos)
    GTEST_SKIP() << "no mounts of one's own here";
  EXPECT_EQ(run.status, 5) << run.err;
  for (const char* part : {" of shared memory for 2 ranks: No space left on device", "--shm-size"})
    EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
}

TEST(Limits, TooSmallFilesAreSaid) {
  const Workplace place;
  const Finished run = Process(shell("ulimit -f 100; exec " + recollect_binary() +
                                     " run --nproc-per-node 2 train c.yaml parallelism.communicator=local "
                                     "parallelism.tensor_parallel_size=2"),
                               place.folder().path())
                           .wait(Workplace::kBound);
  EXPECT_EQ(run.status, 6) << run.err;
  for (const char* part : {"reserving a shared segment of ", " MiB): File too large",
                           "the limit on the size of files is below that", "ulimit -f unlimited"})
    EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("shm-size"), std::string::npos) << run.err;
}

TEST(Limits, TooFewOpenFilesAreSaid) {
  const Workplace place;
  const Finished run = Process(shell("ulimit -n 120; exec " + recollect_binary() +
                                     " run --nproc-per-node 2 train c.yaml parallelism.communicator=tcp"),
                               place.folder().path())
                           .wait(Workplace::kBound);
  EXPECT_EQ(run.status, 5) << run.err;
  for (const char* part : {"2 ranks over TCP need up to 144 open files each", "may have 120", "ulimit -n"})
    EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
}

TEST(Limits, TooFewOpenFilesForTheLauncherAreSaid) {
  const Workplace place;
  const Finished run =
      Process(shell("ulimit -n 16; exec " + recollect_binary() + " run --nproc-per-node 4 train c.yaml"),
              place.folder().path())
          .wait(Workplace::kBound);
  EXPECT_EQ(run.status, 5) << run.err;
  EXPECT_NE(
      run.err.find(
          "Too many open files\n  a process may have 16 files open here: raise that first, ulimit -n 1024\n"),
      std::string::npos)
      << run.err;
}

TEST(Limits, MemoryThatEndsWhereNothingMayThrowIsNoBug) {
  const auto end = [] {
    char name[] = "recollect", word[] = "--version";
    char* words[] = {name, word};
    run_program(2, words, "");
    const std::function<void()> allocate = [] { throw std::bad_alloc(); };
    [&]() noexcept { allocate(); }();
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(5), "recollect: out of host memory");
}

}  // namespace
}  // namespace recollect::test::limits_test
