// Normals that are drawn many at once, with every set of instructions, are those of engine/core/normals.h, rounded.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/core/normals.h"
#include "engine/ops/cpu_level.h"

namespace recollect::test::draw_normals_test {
namespace {

TEST(DrawNormals, HaveTheBitsOfTheirDefinition) {
  constexpr uint64_t kFar = (uint64_t{1} << 34) - 50'000;  // the words of blocks carry there
  for (const CpuLevel& level : cpu_levels()) {
    if (!can_run(level.isa)) continue;
    for (const DrawKey& key :
         {DrawKey{.seed = 7, .place = 0}, DrawKey{.seed = 0x123456789abcdef, .place = 291}})
      for (const double scale : {1.0, 0.02, 1e-42})
        for (const uint64_t first : {uint64_t{0}, uint64_t{3}, kFar}) {
          std::vector<float> drawn(200'003);
          level.draw_normals(key, first, static_cast<int64_t>(drawn.size()), scale, drawn.data());
          std::size_t others = 0;
          for (std::size_t i = 0; i < drawn.size(); ++i)
            others += drawn[i] != static_cast<float>(scale * normals(key, (first + i) / 4)[(first + i) % 4]);
          EXPECT_EQ(others, 0u) << name_of(level.isa) << " " << key.seed << " " << scale << " " << first;
        }
  }
}

TEST(DrawNormals, AreStandardNormals) {
  constexpr int64_t kCount = 1 << 20;
  std::vector<float> drawn(kCount);
  cpu_level().draw_normals({.seed = 5, .place = 1}, 0, kCount, 1, drawn.data());
  double sum = 0, squares = 0;
  for (const float z : drawn) {
    sum += z;
    squares += double{z} * z;
    ASSERT_LT(std::abs(z), 6.8f);  // sqrt(-2 log(2^-33))
  }
  EXPECT_NEAR(sum / kCount, 0, 4e-3);
  EXPECT_NEAR(squares / kCount, 1, 6e-3);
}

}  // namespace
}  // namespace recollect::test::draw_normals_test
