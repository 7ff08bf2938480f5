// examples/report: every command of its text runs, one after the other, and the bytes that it shows are those
// that come out.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/launch/process.h"

namespace recollect::test::report_example_test {
namespace {

const std::string kRoot = RECOLLECT_SOURCE_DIR;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Words words_of(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

TEST(ReportExample, RunsAsItIsWritten) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory_symlink(kRoot + "/examples", folder.file("examples"));
  const std::vector<std::string> readme =
      lines_of(test::TemporaryFolder::read(kRoot + "/examples/report/README.md"));
  int commands = 0;
  std::string out;
  for (const std::string& line : readme) {
    if (!line.starts_with("    recollect ")) continue;
    Words words = words_of(line);
    words.front() = recollect_binary();
    if (words[1] == "train") words.emplace_back("logging.progress=off");
    const Finished finished = Process(words, folder.path()).wait(Workplace::kBound);
    ASSERT_EQ(finished.status, 0) << line << '\n' << finished.err;
    out += finished.out;
    ++commands;
  }
  EXPECT_EQ(commands, 5);
  for (const char* file : {"full/report.html", "both.html", "predicted.html", "predicted.json", "trace.json",
                           "full/trace.rank1.json"})
    EXPECT_TRUE(std::filesystem::exists(folder.file(std::string("runs/report/") + file))) << file;
  // What does not depend on the machine: workspaces are as large as its kernels want them, which also decides
  // what lives at the peak.
  int shown = 0;
  for (const std::string& line : readme)
    for (const char* row : {"parameters ", "gradients ", "optimizer ", "input ", "host arena "}) {
      if (!line.starts_with(row)) continue;
      EXPECT_NE(out.find(line + "\n"), std::string::npos) << line;
      ++shown;
    }
  EXPECT_EQ(shown, 5);
}

}  // namespace
}  // namespace recollect::test::report_example_test
