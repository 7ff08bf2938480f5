// Durations are in the unit that people would choose.
#include <gtest/gtest.h>

#include "engine/core/duration.h"

namespace recollect::test::duration_test {
namespace {

TEST(Duration, HasOneUnitAndAboutThreeDigits) {
  struct Case {
    double seconds;
    const char* text;
  };
  for (const Case& c :
       {Case{0, "0 ms"},         Case{1e-9, "0 ms"},     Case{1.2e-6, "0.001 ms"}, Case{374e-6, "0.374 ms"},
        Case{0.0356, "35.6 ms"}, Case{0.3, "300 ms"},    Case{0.99949, "999 ms"},  Case{0.9996, "1 s"},
        Case{3.2, "3.2 s"},      Case{3.241, "3.24 s"},  Case{9.996, "10 s"},      Case{99.4, "99.4 s"},
        Case{99.6, "1.7 min"},   Case{600, "10 min"},    Case{2474.527, "41 min"}, Case{9000, "2.5 h"},
        Case{46 * 3600, "46 h"}, Case{48 * 3600, "2 d"}, Case{1e6, "12 d"},        Case{-0.5, "-500 ms"}})
    EXPECT_EQ(duration_text(c.seconds), c.text) << c.seconds;
  EXPECT_EQ(duration_text(std::chrono::milliseconds(2474527)), "41 min");
}

TEST(Duration, HasAUnitForAWholeTable) {
  EXPECT_STREQ(duration_unit_for(0).name, "ms");
  EXPECT_STREQ(duration_unit_for(99).name, "ms");
  EXPECT_STREQ(duration_unit_for(2474.527).name, "s");
  EXPECT_STREQ(duration_unit_for(1e6).name, "min");
  EXPECT_STREQ(duration_unit_for(1e12).name, "min");
  EXPECT_DOUBLE_EQ(duration_unit_for(1e6)(90), 1.5);
  EXPECT_DOUBLE_EQ(duration_unit_for(1)(0.25), 250);
}

}  // namespace
}  // namespace recollect::test::duration_test
