// Every command in the pages of examples/ works as it stands there. What is fenced as `sh` is run, block by
// block, in a folder that has the repository's examples and the program on its PATH; "sh needs: MODULES"
// where Python must have those modules, or the block is left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/launch/process.h"
#include "tests/launch/python.h"

namespace recollect::test::examples_test {
namespace {

namespace fs = std::filesystem;

const std::string kSource = RECOLLECT_SOURCE_DIR;

struct Block {
  std::string needs, commands;
};

std::vector<Block> blocks_of(const std::string& page) {
  const std::string fence = "```", needs = "```sh needs: ";
  std::vector<Block> blocks;
  bool inside = false, ours = false;
  std::istringstream lines(test::TemporaryFolder::read(page));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(fence)) {
      ours = !inside && (line == "```sh" || line.starts_with(needs));
      if (ours) blocks.push_back({line.starts_with(needs) ? line.substr(needs.size()) : "", ""});
      inside = !inside;
    } else if (inside && ours) {
      blocks.back().commands += line + '\n';
    }
  }
  EXPECT_FALSE(inside) << page;
  return blocks;
}

std::vector<std::string> pages() {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(kSource + "/examples"))
    if (fs::exists(entry.path() / "README.md") && !blocks_of(entry.path() / "README.md").empty())
      found.push_back(entry.path().filename());
  std::sort(found.begin(), found.end());
  return found;
}

Environment environment() {
  const char* path = std::getenv("PATH");
  return {{"PATH", fs::path(recollect_binary()).parent_path().string() + ":" + (path ? path : "") + ":" +
                       fs::path(RECOLLECT_MPIRUN).parent_path().string()},
          {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
          {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
          {"OMPI_MCA_hwloc_base_binding_policy", "none"},
          {"OMPI_MCA_mpi_yield_when_idle", "1"},
          {"OMP_THREAD_LIMIT", "1"},  // threads of a kernel wait for each other badly on a busy machine
          {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"}};
}

// Rows that depend on no machine, as the page of examples/memory has them: workspaces are as large as kernels want them.
void expect_rows_of_page(const std::string& out) {
  std::istringstream lines(test::TemporaryFolder::read(kSource + "/examples/memory/README.md"));
  int shown = 0;
  for (std::string line; std::getline(lines, line);)
    for (const char* row : {"parameters  ", "gradients  ", "optimizer  ", "input  ", "peak in  ",
                            "host arena  ", "difference, bytes  ", "rank 0, keep_last: ", "memory: all "}) {
      if (!line.starts_with(row)) continue;
      EXPECT_NE(out.find(line + "\n"), std::string::npos) << line;
      ++shown;
    }
  EXPECT_EQ(shown, 3 * 4 + 6);
}

class Example : public ::testing::TestWithParam<std::string> {};

TEST_P(Example, EveryCommandOfItsPageWorks) {
  const test::TemporaryFolder folder;
  for (const char* name : {"examples", "launch"})
    fs::create_directory_symlink(kSource + "/" + name, folder.file(name));
  int left_out = 0;
  std::string out;
  for (const Block& block : blocks_of(kSource + "/examples/" + GetParam() + "/README.md")) {
#ifdef __SANITIZE_THREAD__
    if (block.commands.find("mpirun") != std::string::npos) {
      ++left_out;
      continue;
    }
#endif
    if (!block.needs.empty() && python_with(block.needs) != "python3") {
      ++left_out;
      continue;
    }
    const Finished finished =
        Process({"bash", "-euo", "pipefail", "-c", block.commands}, folder.path(), environment())
            .wait(Workplace::kBound);
    ASSERT_EQ(finished.status, 0) << block.commands << finished.out << finished.err;
    out += finished.out;
  }
  if (GetParam() == "memory") expect_rows_of_page(out);
  if (left_out > 0) GTEST_SKIP() << left_out << " blocks need what is not here; all others work";
}

INSTANTIATE_TEST_SUITE_P(All, Example, ::testing::ValuesIn(pages()),
                         [](const ::testing::TestParamInfo<std::string>& info) { return info.param; });

TEST(Examples, AllPagesHaveCommandsThatAreRun) {
  const std::vector<std::string> found = pages();
  for (const char* name : {"adapters", "finetune", "memory", "memory_methods", "switches", "tour"})
    EXPECT_TRUE(std::count(found.begin(), found.end(), name)) << name;
}

}  // namespace
}  // namespace recollect::test::examples_test
