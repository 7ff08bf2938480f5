// Host memory that cannot be pinned: a warning and plain memory, or the end where it must be. The CUDA runtime that pins it
// is made up.
#include "engine/runtime/pinned_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/expect_error.h"

namespace recollect::test::pinned_memory_test {
namespace {

constexpr std::size_t kBytes = 1000;
int released = 0;

void release(std::byte* memory, std::size_t bytes) {
  EXPECT_EQ(bytes, kBytes);
  delete[] memory;
  ++released;
}

std::byte* give(std::size_t bytes, std::string&) {
  auto* memory = new std::byte[bytes];
  std::fill_n(memory, bytes, std::byte{7});
  return memory;
}

std::byte* refuse(std::size_t, std::string& why) {
  why = "out of memory";
  return nullptr;
}

bool is_clear(const Arena& arena) {
  return std::all_of(arena.at(0), arena.at(kBytes), [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(PinnedMemory, IsClearAndGivenBackAsItCame) {
  released = 0;
  {
    const Arena arena = reserve_pinned(kBytes, true, {give, release});
    EXPECT_TRUE(is_clear(arena));
  }
  EXPECT_EQ(released, 1);
}

TEST(PinnedMemory, IsPlainWithAWarningOrAnError) {
  released = 0;
  testing::internal::CaptureStderr();
  {
    const Arena arena = reserve_pinned(kBytes, false, {refuse, release});
    EXPECT_TRUE(is_clear(arena));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "recollect: cannot pin 1000 bytes of host memory (out of memory); copies will be slower\n");
  EXPECT_EQ(released, 0);
  expect_error(ExitCode::kHostMemory, {"cannot pin 1000 bytes of host memory: out of memory"}, [] {
    reserve_pinned(kBytes, true, {refuse, release});
  });
}

}  // namespace
}  // namespace recollect::test::pinned_memory_test
