// A list of numbers in few bits: every number comes back, whatever its neighbours are, and takes the bits that it should.
#include "engine/data/number_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "engine/core/philox.h"

namespace recollect::test::number_list_test {
namespace {

uint64_t random_number(uint64_t i) {
  return static_cast<uint64_t>(random_unit({.seed = 3}, i) * 18446744073709549568.0);
}

TEST(NumberList, GivesBackEveryNumber) {
  const std::function<uint64_t(uint64_t)> kinds[] = {
      [](uint64_t) { return uint64_t{7}; },
      [](uint64_t i) { return i * 180; },
      [](uint64_t i) { return random_number(i); },
      [](uint64_t i) { return i % 2 == 0 ? 0 : ~uint64_t{0}; },
      [](uint64_t i) { return random_number(i) >> (i / 64 % 64); },  // a block of each number of bits
  };
  for (const auto& kind : kinds)
    for (const std::size_t size : {0u, 1u, 63u, 64u, 65u, 64u * 64u + 17u}) {
      NumberList list;
      std::vector<uint64_t> numbers;
      for (std::size_t i = 0; i < size; ++i) {
        numbers.push_back(kind(i));
        list.push_back(numbers.back());
        ASSERT_EQ(list.back(), numbers.back());
      }
      ASSERT_EQ(list.size(), size);
      for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(list[i], numbers[i]) << i << " of " << size;
    }
}

TEST(NumberList, IsReadAgainWhereItWasWritten) {
  for (const std::size_t size : {0u, 1u, 64u, 64u * 64u + 17u}) {
    NumberList list, second;
    for (std::size_t i = 0; i < size; ++i) list.push_back(random_number(i) >> (i / 64 % 64));
    second.push_back(5);
    const auto write = [&](IndexWriter& to) {
      list.write(to);
      to.text("seventeen letters");
      second.write(to);
    };
    IndexWriter counted;
    write(counted);
    const std::shared_ptr<SharedMemory> memory = SharedMemory::make(counted.bytes());
    ASSERT_TRUE(memory);
    IndexWriter writer(memory->bytes());
    write(writer);
    NumberList read = second, after;
    {
      IndexReader reader(memory);
      read.read(reader);
      EXPECT_EQ(reader.text(), "seventeen letters");
      after.read(reader);
      EXPECT_THROW(reader.number(), OtherIndex);
    }
    ASSERT_EQ(read.size(), size);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(read[i], list[i]) << i << " of " << size;
    EXPECT_EQ(after.back(), 5u);
  }
}

TEST(NumberList, TakesAByteOrTwoForWhereLinesBegin) {
  NumberList begins, lengths;
  uint64_t begin = 0;
  constexpr std::size_t kLines = 100'000;
  for (std::size_t i = 0; i < kLines; ++i) {
    begins.push_back(begin);
    begin += 20 + random_number(i) % 400;
    lengths.push_back(random_number(i) % 128);
  }
  EXPECT_LT(begins.bytes(), 3 * kLines);  // 14 bits, and a quarter byte for the block
  EXPECT_LT(lengths.bytes(), 5 * kLines / 4);
}

}  // namespace
}  // namespace recollect::test::number_list_test
