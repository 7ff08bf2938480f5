// What docs/reliability.md promises it proves: each of the 46 faults has its row, and every test that a row names is there.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "tests/engine/temporary_folder.h"

namespace recollect::test::documents_test {
namespace {

namespace fs = std::filesystem;

const std::string kSource = RECOLLECT_SOURCE_DIR;
constexpr int kFaults = 46;

std::vector<std::string> found_in(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
    found.push_back((*at)[1].str() + ((*at).size() > 2 ? "." + (*at)[2].str() : ""));
  return found;
}

// Suite.Name and Suite.* of the sources; and what CMake makes of programs that are no suites.
std::set<std::string> all_tests() {
  std::set<std::string> tests;
  for (const auto& entry : fs::recursive_directory_iterator(kSource + "/tests")) {
    const std::string file = entry.path().filename().string();
    if (entry.path().extension() != ".cpp") continue;
    if (file.starts_with("fuzz_")) tests.insert("replay_" + file.substr(5, file.size() - 9));
    for (const std::string& name :
         found_in(TemporaryFolder::read(entry.path()), R"(\nTEST(?:_F|_P)?\((\w+),\s*(\w+)\))")) {
      tests.insert(name);
      tests.insert(name.substr(0, name.find('.')) + ".*");
    }
  }
  const std::string cmake = TemporaryFolder::read(kSource + "/tests/CMakeLists.txt");
  for (const std::string& mode : found_in(cmake, R"(\b([a-z]+):\d+\b)")) tests.insert("comm_mpi_" + mode);
  return tests;
}

// A test's name between backquotes; the instance of a parameter before or behind it would not be found.
std::vector<std::string> named_tests(const std::string& text) {
  return found_in(text, R"(`([A-Z]\w*\.(?:\w+|\*)|replay_\w+|comm_mpi_\w+)`)");
}

TEST(ReliabilityPage, EveryFaultHasItsRowAndEveryTestIsThere) {
  const std::set<std::string> tests = all_tests();
  ASSERT_GT(tests.size(), 1000u);
  for (const char* known :
       {"ReliabilityPage.*", "SnapshotFaults.EveryCallFailsOnce", "replay_manifest", "comm_mpi_disagree"})
    EXPECT_TRUE(tests.contains(known)) << known;
  std::istringstream lines(TemporaryFolder::read(kSource + "/docs/reliability.md"));
  int row = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> named = named_tests(line);
    for (const std::string& name : named) EXPECT_TRUE(tests.contains(name)) << name << " is no test";
    for (const std::string& file : found_in(line, R"(`((?:tests|docs|launch)/[\w/.]+\.\w+)`)"))
      EXPECT_TRUE(fs::exists(kSource + "/" + file)) << file;
    if (!std::regex_search(line, std::regex(R"(^\| \d+ \|)"))) continue;
    EXPECT_EQ(std::stoi(line.substr(2)), ++row);
    EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 5) << line;
    EXPECT_FALSE(named.empty()) << "no test proves " << line;
  }
  EXPECT_EQ(row, kFaults);
}

}  // namespace
}  // namespace recollect::test::documents_test
