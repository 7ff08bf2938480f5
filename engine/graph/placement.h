// A Placement says what the ranks along each mesh axis hold of a value. Along an axis that is not named here
// they are replicas: all hold the same. Along a named axis each holds a shard: of the rows, of the columns,
// or of a sum. (Ranks that run other samples have activations of the same name that are different values, not
// shards of one.)
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace recollect {

inline constexpr std::string_view kTensorAxis = "tensor";
inline constexpr std::string_view kDataAxis = "data";

class Placement {
 public:
  Placement() = default;  // replicated over all axes
  static Placement sharded_over(std::string_view axis) { return Placement().and_over(axis); }

  bool is_sharded_over(std::string_view axis) const {
    return std::find(axes_.begin(), axes_.end(), axis) != axes_.end();
  }
  Placement and_over(std::string_view axis) const {
    Placement more = *this;
    if (is_sharded_over(axis)) return more;
    more.axes_.insert(std::upper_bound(more.axes_.begin(), more.axes_.end(), axis), std::string(axis));
    return more;
  }
  Placement but_not_over(std::string_view axis) const {
    Placement less = *this;
    std::erase(less.axes_, axis);
    return less;
  }
  const std::vector<std::string>& axes() const { return axes_; }  // in alphabetical order
  bool operator==(const Placement&) const = default;

 private:
  std::vector<std::string> axes_;
};

}  // namespace recollect
