// Labels of files: their order, and the class that each names.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/data/labels.h"

namespace recollect {
namespace {

using Labels = std::vector<std::string>;

TEST(Labels, NumbersAreSortedAsNumbers) {
  const std::pair<Labels, Labels> cases[] = {
      {{"10", "9", "2", "0", "1"}, {"0", "1", "2", "9", "10"}},
      {{"3", "-1", "20"}, {"-1", "3", "20"}},
      {{"10", "9", "x"}, {"10", "9", "x"}},
      {{"10", "9", "01"}, {"01", "10", "9"}},
      {{"10", "9", "1.0"}, {"1.0", "10", "9"}},
      {{"LABEL_10", "LABEL_9", "LABEL_0"}, {"LABEL_0", "LABEL_9", "LABEL_10"}},
      {{"LABEL_10", "LABEL_9", "OTHER"}, {"LABEL_10", "LABEL_9", "OTHER"}},
      {{"good", "bad", "Bad"}, {"Bad", "bad", "good"}}};
  for (auto [labels, sorted] : cases) {
    sort_labels(labels);
    EXPECT_EQ(labels, sorted);
  }
}

TEST(Labels, ANameGoesBeforeANumber) {
  struct Case {
    Labels names;
    const char* label;
    std::optional<int32_t> found;
  };
  const Case cases[] = {{{"bad", "good"}, "good", 1}, {{"bad", "good"}, "1", 1},   {{"bad", "good"}, "2", {}},
                        {{"bad", "good"}, "-1", {}},  {{"1", "0"}, "0", 1},        {{"1", "2", "3"}, "0", {}},
                        {{"1", "2", "3"}, "3", 2},    {{"0", "2", "10"}, "1", {}}, {{"a", "0"}, "0", 1},
                        {{"a", "0"}, "1", 1}};
  for (const Case& one : cases) EXPECT_EQ(find_class(one.label, one.names), one.found) << one.label;
}

}  // namespace
}  // namespace recollect
