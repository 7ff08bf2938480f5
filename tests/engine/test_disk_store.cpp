// A disk store gives back what was written, whatever the system does on the way; and where it cannot, it says
// which value, why and where.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <vector>

#include "engine/core/arena.h"
#include "engine/io/disk_store.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect {
namespace {

using test::expect_error;
using test::TemporaryFolder;

constexpr std::size_t kSizes[] = {1, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1, (9 << 20) + 12345};

// A system that does what a test tells it.
class Calls final : public DiskCalls {
 public:
  int set_direct(int file) override {
    if (!direct) return errno = EINVAL, -1;
    return DiskCalls::set_direct(file);
  }
  int reserve(int file, uint64_t bytes) override {
    if (reserve_error) return errno = reserve_error, -1;
    return DiskCalls::reserve(file, bytes);
  }
  ssize_t write(int file, const void* from, std::size_t bytes, off_t offset) override {
    return call([&](std::size_t some) { return DiskCalls::write(file, from, some, offset); }, bytes);
  }
  ssize_t read(int file, void* to, std::size_t bytes, off_t offset) override {
    return call([&](std::size_t some) { return DiskCalls::read(file, to, some, offset); }, bytes);
  }

  bool direct = true, interrupts = false, shortens = false, moves_nothing = false;
  int reserve_error = 0;
  int failing = -1, failure = 0;  // the call, counted from 0, that fails
  std::atomic<int> calls = 0;

 private:
  template <typename Call>
  ssize_t call(const Call& go, std::size_t bytes) {
    const int number = calls++;
    if (number == failing) return errno = failure, -1;
    if (interrupts && number % 3 == 0) return errno = EINTR, -1;
    if (moves_nothing) return 0;
    // Where it is free to, it stops in the middle of a block.
    if (shortens && bytes > DiskStore::kBlock) bytes = direct ? DiskStore::kBlock : DiskStore::kBlock + 100;
    return go(bytes);
  }
};

class DiskStoreTest : public ::testing::Test {
 protected:
  DiskStoreTest() : store_(folder_.path()), ring_(DiskStore::kRingBytes) { store_.replace_calls(calls_); }

  void write(const std::vector<std::byte>& data, uint64_t offset) {
    store_.write("layer1/value", data.data(), data.size(), offset, ring_.at(0));
  }
  std::vector<std::byte> read(std::size_t bytes, uint64_t offset) {
    std::vector<std::byte> data(bytes);
    store_.read("layer1/value", data.data(), bytes, offset, ring_.at(0));
    return data;
  }

  void expect_what_was_written() {
    uint64_t bytes = 0;
    for (std::size_t size : kSizes) bytes += size + DiskStore::kBlock;
    store_.open(bytes);
    std::mt19937 random(1);
    std::vector<std::vector<std::byte>> values;
    std::vector<uint64_t> offsets;
    uint64_t offset = 0;
    for (std::size_t size : kSizes) {
      values.emplace_back(size);
      for (std::byte& byte : values.back()) byte = static_cast<std::byte>(random());
      offsets.push_back(offset);
      write(values.back(), offset);
      offset += (size + DiskStore::kBlock - 1) / DiskStore::kBlock * DiskStore::kBlock;
    }
    for (std::size_t i = values.size(); i-- > 0;)
      EXPECT_TRUE(read(values[i].size(), offsets[i]) == values[i]) << i;
  }

  const TemporaryFolder folder_;
  Calls calls_;
  DiskStore store_;
  Arena ring_;
};

TEST_F(DiskStoreTest, GivesBackWhatWasWritten) {
  expect_what_was_written();
  EXPECT_EQ(folder_.count(), 0u) << "the file has a name";
  uint64_t bytes = 0;
  for (std::size_t size : kSizes) bytes += size;
  EXPECT_EQ(store_.written().bytes, bytes);
  EXPECT_EQ(store_.read().bytes, bytes);
  EXPECT_GT(store_.written().bytes_per_second(), 0);
}

TEST_F(DiskStoreTest, PiecesChangeNothingElse) {
  for (const int refusal : {0, EOPNOTSUPP}) {
    calls_.reserve_error = refusal;
    DiskStore store(folder_.path());
    store.replace_calls(calls_);
    std::vector<std::byte> whole(3 << 20), piece;  // as new: zeros
    store.open(whole.size());
    std::mt19937 random(7);
    for (int i = 0; i < 60; ++i) {
      const std::size_t most = i % 4 == 0 ? whole.size() : 10000, offset = random() % whole.size(),
                        bytes = std::min(whole.size() - offset, 1 + random() % most);
      piece.resize(bytes);
      for (std::byte& byte : piece) byte = static_cast<std::byte>(random());
      if (i % 2 == 0) {
        store.write_piece("state", piece.data(), bytes, offset, ring_.at(0));
        std::copy(piece.begin(), piece.end(), whole.begin() + static_cast<std::ptrdiff_t>(offset));
      }
      store.read_piece("state", piece.data(), bytes, offset, ring_.at(0));
      ASSERT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + static_cast<std::ptrdiff_t>(offset)))
          << i << ": " << bytes << " bytes at " << offset;
    }
    piece.resize(whole.size());
    store.read_piece("state", piece.data(), piece.size(), 0, ring_.at(0));
    EXPECT_TRUE(piece == whole);
  }
}

TEST_F(DiskStoreTest, ThroughThePageCacheWhereThereIsNoDirectWay) {
  calls_.direct = false;
  expect_what_was_written();
  EXPECT_FALSE(store_.direct());
}

TEST_F(DiskStoreTest, GoesOnAfterInterruptionsAndShortTransfers) {
  calls_.interrupts = calls_.shortens = true;
  expect_what_was_written();
  EXPECT_GT(calls_.calls, 2 * (12 << 20) / 4096);
}

TEST_F(DiskStoreTest, GoesOnAfterTransfersThatEndWithinABlock) {
  calls_.shortens = true;
  calls_.direct = false;
  expect_what_was_written();
}

TEST_F(DiskStoreTest, DoesWithoutAReservationWhereThereIsNone) {
  calls_.reserve_error = EOPNOTSUPP;
  expect_what_was_written();
}

TEST_F(DiskStoreTest, AFullDiskIsKnownAtOnce) {
  calls_.reserve_error = ENOSPC;
  expect_error(
      ExitCode::kStorage,
      {"need 1099511627776 bytes (1024.00 GiB) in " + folder_.path(), "are available", "No space left"},
      [&] { store_.open(uint64_t{1} << 40); });
}

// Of a program that may use the disk and does not.
TEST_F(DiskStoreTest, AnEmptyOneCanBeOpened) {
  DiskStore store(folder_.path());
  store.open(0);
}

TEST_F(DiskStoreTest, NamesTheValueTheReasonAndThePlace) {
  store_.open(16 << 20);
  calls_.failing = 3;
  calls_.failure = ENOSPC;
  const std::vector<std::byte> data(2 << 20);
  write(data, 4096);  // calls 0 and 1
  expect_error(ExitCode::kStorage,
               {"cannot write layer1/value to the disk: No space left on device, at offset "},
               [&] { write(data, 8 << 20); });
  calls_.calls = 0;
  calls_.failing = 0;
  calls_.failure = EIO;
  expect_error(ExitCode::kStorage,
               {"cannot read layer1/value from the disk: Input/output error, at offset 8192 of the file in ",
                folder_.path()},
               [&] { read(100, 8192); });
  EXPECT_EQ(read(data.size(), 4096), data) << "after an error the store still works";
}

TEST_F(DiskStoreTest, DoesNotTryForEver) {
  store_.open(1 << 20);
  calls_.moves_nothing = true;
  expect_error(ExitCode::kStorage, {"cannot write layer1/value to the disk: nothing is written"},
               [&] { write(std::vector<std::byte>(5000), 0); });
  expect_error(ExitCode::kStorage, {"cannot read layer1/value from the disk: the file ends there"},
               [&] { read(5000, 0); });
}

TEST_F(DiskStoreTest, AFolderThatIsNoneIsNamed) {
  DiskStore missing(folder_.file("missing"));
  expect_error(ExitCode::kStorage, {folder_.file("missing"), "No such file or directory"},
               [&] { missing.open(4096); });
  DiskStore file(folder_.write("file", "text"));
  expect_error(ExitCode::kStorage, {folder_.file("file"), "Not a directory"}, [&] { file.open(4096); });
}

}  // namespace
}  // namespace recollect
