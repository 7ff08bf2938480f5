#include "engine/io/file_digest.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect {
namespace {

TEST(FileDigest, SeesEveryByteOfASmallFile) {
  const test::TemporaryFolder folder;
  std::set<std::string> seen;
  const std::string content(70000, 'x');
  for (const std::size_t at : {0, 1, 65535, 65536, 69999}) {
    std::string changed = content;
    changed[at] = 'y';
    EXPECT_TRUE(seen.insert(file_digest(folder.write("a", changed), 1 << 20)).second) << at;
  }
  EXPECT_TRUE(seen.insert(file_digest(folder.write("a", content), 1 << 20)).second);
  EXPECT_FALSE(seen.insert(file_digest(folder.write("b", content), 1 << 20)).second);
  EXPECT_TRUE(seen.begin()->starts_with("70000 bytes, "));
  EXPECT_TRUE(file_digest(folder.write("empty", ""), 1 << 20).starts_with("0 bytes, "));
}

// Of four blocks of a file of sixteen: the first, the last, and two between.
TEST(FileDigest, SamplesALargeOneFromItsFirstByteToItsLast) {
  const test::TemporaryFolder folder;
  const std::size_t size = 1 << 20;
  const std::string content(size, 'x');
  const std::string before = file_digest(folder.write("a", content), 256 << 10);
  for (const std::size_t at : {std::size_t{0}, size / 3, size - 1}) {
    std::string changed = content;
    changed[at] = 'y';
    EXPECT_NE(file_digest(folder.write("a", changed), 256 << 10), before) << at;
  }
  EXPECT_NE(file_digest(folder.write("a", content + "x"), 256 << 10), before);
  test::expect_error(ExitCode::kInput, {"absent"}, [&] { file_digest(folder.file("absent"), 1 << 20); });
}

}  // namespace
}  // namespace recollect
