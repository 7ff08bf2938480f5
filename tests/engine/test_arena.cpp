// Whoever leaves an arena is stopped at once: memory before and after it cannot be touched.
#include "engine/core/arena.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace recollect {
namespace {

constexpr uintptr_t kGuarded = 65536;

struct Mapping {
  uintptr_t first = 0, end = 0;
  std::string rights;  // "rw-p"
};

std::vector<Mapping> mappings() {
  std::vector<Mapping> all;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    Mapping mapping;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &mapping.first, &mapping.end, rights) ==
        3) {
      mapping.rights = rights;
      all.push_back(mapping);
    }
  }
  return all;
}

// Whether all of [first, end) is mapped with these rights.
bool all_have(const std::vector<Mapping>& all, uintptr_t first, uintptr_t end, const std::string& rights) {
  for (const Mapping& mapping : all)
    if (mapping.first <= first && first < mapping.end && mapping.rights == rights)
      first = std::min(end, mapping.end);
  return first == end;
}

TEST(Arena, LiesBetweenPagesThatNobodyMayTouch) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{64}, std::size_t{4096}, std::size_t{65536},
                                  std::size_t{70000}, (std::size_t{5} << 20) + 64}) {
    const Arena arena(bytes), neighbour(bytes);
    const auto first = reinterpret_cast<uintptr_t>(arena.at(0));
    const uintptr_t end = (first + bytes + page - 1) / page * page;
    const std::vector<Mapping> all = mappings();
    EXPECT_TRUE(all_have(all, first, end, "rw-p")) << bytes;
    EXPECT_TRUE(all_have(all, first - kGuarded, first, "---p")) << bytes << " bytes: before it";
    EXPECT_TRUE(all_have(all, end, end + kGuarded, "---p")) << bytes << " bytes: after it";
  }
}

TEST(Arena, ATouchOutsideEndsTheProgram) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const Arena arena(3 * page);
  volatile char* const memory = reinterpret_cast<volatile char*>(arena.at(0));
  memory[0] = 1;
  memory[3 * page - 1] = 1;
  EXPECT_DEATH(memory[-1] = 1, "");
  EXPECT_DEATH(memory[3 * page] = 1, "");
  EXPECT_DEATH(static_cast<void>(memory[3 * page]), "");
}

}  // namespace
}  // namespace recollect
