// Files that replace others and files that grow: what stands in their way, and what dead writers have left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <functional>

#include "engine/core/error.h"
#include "engine/io/files.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace {
std::atomic<int> interruptions = 0;  // of reservations still to come
}

// In the C library's place.
extern "C" int posix_fallocate(int file, off_t offset, off_t bytes) {
  if (interruptions > 0) {
    --interruptions;
    return EINTR;
  }
  return ::fallocate(file, 0, offset, bytes) == 0 ? 0 : errno;
}

namespace recollect {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TemporaryFolder;

TEST(ReplacementFile, RemovesWhatADeadWriterLeft) {
  const TemporaryFolder folder;
  for (const char* left : {".a.txt.0.recollect.tmp", ".a.txt.1.recollect.tmp", ".b.0.recollect.tmp"})
    folder.write(left, "half of a text");
  folder.write(".a.txt.0.tmp", "somebody else's");
  write_text_file(folder.file("a.txt"), "whole");
  EXPECT_EQ(TemporaryFolder::read(folder.file("a.txt")), "whole");
  EXPECT_FALSE(fs::exists(folder.file(".a.txt.0.recollect.tmp")));
  remove_stale_temporaries(folder.path());
  EXPECT_EQ(folder.count(), 2u);
  EXPECT_TRUE(fs::exists(folder.file(".a.txt.0.tmp")));
  remove_stale_temporaries(folder.file("nowhere"));
}

TEST(ReplacementFile, LeavesALivingWriterAlone) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.txt"), first_text = "first";
  ReplacementFile first(path);
  remove_stale_temporaries(folder.path());
  write_text_file(path, "second");
  first.write_at(0, std::as_bytes(std::span(first_text)));
  first.commit();
  EXPECT_EQ(TemporaryFolder::read(path), "first");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(ReplacementFile, FollowsNoLinkAndReplacesNoDevice) {
  const TemporaryFolder folder;
  const std::string target = folder.write("target", "kept");
  fs::create_symlink(target, folder.file("link"));
  fs::create_symlink(target, folder.file(".other.0.recollect.tmp"));
  write_text_file(folder.file("link"), "new");
  write_text_file(folder.file("other"), "new");
  EXPECT_EQ(TemporaryFolder::read(target), "kept");
  EXPECT_FALSE(fs::is_symlink(folder.file("link")));
  expect_error(ExitCode::kStorage, {"/dev/null", "a device or a pipe"},
               [] { write_text_file("/dev/null", "x"); });
}

TEST(ReplacementFile, TakesItsNameOnlyAsItWasWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.txt", "old"), temporary = folder.file(".a.txt.0.recollect.tmp");
  const std::function<void()> spoil[] = {[&] { fs::remove(temporary); },
                                         [&] { fs::resize_file(temporary, 2); },
                                         [&] { fs::resize_file(temporary, 20); },
                                         [&] {
                                           fs::remove(temporary);
                                           folder.write(".a.txt.0.recollect.tmp", "new");
                                         }};
  for (const auto& change : spoil) {
    ReplacementFile file(path);
    file.reserve(3);
    file.write_at(0, std::as_bytes(std::span("new", 3)));
    change();
    expect_error(ExitCode::kStorage, {path, "somebody has removed or changed " + temporary},
                 [&] { file.commit(); });
    EXPECT_EQ(TemporaryFolder::read(path), "old");
    EXPECT_EQ(folder.count(), 1u);
  }
}

TEST(ReplacementFile, SparesWhoCameLaterWhereItIsTold) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.txt");
  {
    ReplacementFile file(path);
    file.spare_newcomers();
    folder.write("a.txt", "theirs");
    expect_error(ExitCode::kStorage, {path, "a file of that name has appeared"}, [&] { file.commit(); });
    EXPECT_EQ(TemporaryFolder::read(path), "theirs");
    EXPECT_EQ(folder.count(), 1u);
  }
  ReplacementFile file(path);
  file.spare_newcomers();  // this one was there before
  file.write_at(0, std::as_bytes(std::span("ours", 4)));
  file.commit();
  EXPECT_EQ(TemporaryFolder::read(path), "ours");
}

TEST(ReplacementFile, ReservesWhateverSignalsCome) {
  const TemporaryFolder folder;
  ReplacementFile file(folder.file("a.txt"));
  interruptions = 3;
  file.reserve(4096);
  EXPECT_EQ(interruptions, 0);
  EXPECT_EQ(fs::file_size(folder.file(".a.txt.0.recollect.tmp")), 4096u);
}

TEST(GrowingFile, LeavesTheOldFileToItsOtherNames) {
  const TemporaryFolder folder;
  const std::string path = folder.write("log", "of another run");
  fs::create_hard_link(path, folder.file("snapshot"));
  GrowingFile file(path);
  EXPECT_TRUE(file.append("a\n"));
  EXPECT_EQ(TemporaryFolder::read(path), "a\n");
  EXPECT_EQ(TemporaryFolder::read(folder.file("snapshot")), "of another run");
}

TEST(GrowingFile, BeginsEmptyAndFollowsNoLink) {
  const TemporaryFolder folder;
  const std::string path = folder.write("log", "of another run");
  GrowingFile file(path);
  EXPECT_TRUE(file.append("a\n"));
  EXPECT_TRUE(file.append("b\n"));
  EXPECT_EQ(TemporaryFolder::read(path), "a\nb\n");
  const std::string target = folder.write("target", "kept");
  fs::create_symlink(target, folder.file("link"));
  expect_error(ExitCode::kStorage, {folder.file("link")}, [&] { GrowingFile(folder.file("link")); });
  EXPECT_EQ(TemporaryFolder::read(target), "kept");
}

TEST(GrowingFile, HoldsWholeLinesWhateverFails) {
  const TemporaryFolder folder;
  GrowingFile file(folder.file("log"));
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit low = limit;
  low.rlim_cur = 10;
  EXPECT_TRUE(file.append("1234567\n"));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const bool appended = file.append("1234567\n");
  const int reason = errno;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_FALSE(appended);
  EXPECT_EQ(reason, EFBIG);
  EXPECT_TRUE(file.append("the last\n"));
  EXPECT_EQ(TemporaryFolder::read(folder.file("log")), "1234567\nthe last\n");
  std::signal(SIGXFSZ, before);
}

}  // namespace
}  // namespace recollect
