// Every test of every program ends within ten minutes: one that hangs ends its program, whose last line of
// output names it, long before the time is over that all tests have together.
#include <gtest/gtest.h>
#include <unistd.h>

namespace recollect::test {
namespace {

constexpr unsigned kMostSeconds = 600;

class TimeLimit final : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override { ::alarm(kMostSeconds); }
  void OnTestEnd(const ::testing::TestInfo&) override { ::alarm(0); }
};

// Owned by GoogleTest from here on.
[[maybe_unused]] const bool is_set = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new TimeLimit);
  return true;
}();

}  // namespace
}  // namespace recollect::test
