// Ranks that fit on their device alone, and not together, are refused before anything is reserved.
#include <gtest/gtest.h>

#include <thread>

#include "comm/local.h"
#include "launch/config/read.h"
#include "launch/limits.h"

namespace recollect::test {
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
      MemoryLedger foretold;
      foretold.transient_bytes = needed[static_cast<std::size_t>(rank)];
      try {
        check_limits(Config{}, foretold, "the table", share_of(device, foretold.arena_bytes(), *world));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kDeviceMemory);
        results[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(Limits, CountWhatSharesADevice) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(told({1000}), Texts{""});
  EXPECT_EQ(told({1001}),
            Texts{"the run needs 1001 bytes on this rank; its device has 1000 free\nthe table"});
  EXPECT_EQ(told({400, 1000, 600}), (Texts{"", "", ""}));
  const std::string shared = "; its device has 1000 free, and the 2 ranks there need 1001\nthe table";
  EXPECT_EQ(told({400, 1000, 601}), (Texts{"the run needs 400 bytes on this rank" + shared, "",
                                           "the run needs 601 bytes on this rank" + shared}));
}

}  // namespace
}  // namespace recollect::test
