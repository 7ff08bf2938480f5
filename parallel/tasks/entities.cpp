#include "parallel/tasks/entities.h"

#include <map>
#include <string_view>

#include "engine/core/error.h"
#include "engine/data/tokenizer/unicode.h"

namespace recollect {

namespace {

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// "-PER" is the type PER, and so is "PER"; a type may have more of these strokes.
std::string_view type_in(std::string_view behind_mark) {
  const std::size_t stroke = behind_mark.find('-');
  return stroke == std::string_view::npos ? behind_mark : behind_mark.substr(stroke + 1);
}

}  // namespace

double EntityCounts::precision() const { return share(numbers_[0], numbers_[2]); }
double EntityCounts::recall() const { return share(numbers_[0], numbers_[1]); }
double EntityCounts::f1() const {
  const double p = precision(), r = recall();
  return p + r == 0 ? 0 : 2 * p * r / (p + r);
}

EntityTags::EntityTags(std::span<const std::string> names) {
  std::map<std::string_view, int32_t> types{{"", 0}, {"_", 0}};
  for (const std::string& name : names) {
    require(!name.empty(), "a class without a name");
    std::size_t behind = 0;
    const uint32_t mark = decode_utf8(name, behind);
    const std::string_view type = type_in(std::string_view(name).substr(behind));
    const auto known = types.try_emplace(type, static_cast<int32_t>(types.size())).first;
    tags_.push_back({mark, known->second});
  }
}

// Goes along a sequence, and tells where an entity has ended before the tag that it is shown.
class EntityTags::Reader {
 public:
  std::optional<Entity> next(const Tag& tag, int64_t at) {
    const bool other_type = tag.type != last_.type;
    std::optional<Entity> ended;
    if (ends_before(tag.mark, other_type)) ended = Entity{first_, last_.type};
    if (starts_with(tag.mark, other_type)) first_ = at;
    last_ = tag;
    return ended;
  }

 private:
  static bool is_outside(char32_t mark) { return mark == U'O' || mark == U'.'; }
  bool ends_before(char32_t mark, bool other_type) const {
    if (last_.mark == U'E' || last_.mark == U'S') return true;
    if (last_.mark == U'B' || last_.mark == U'I')
      if (mark == U'B' || mark == U'S' || mark == U'O') return true;
    return !is_outside(last_.mark) && other_type;
  }
  bool starts_with(char32_t mark, bool other_type) const {
    if (mark == U'B' || mark == U'S') return true;
    if (mark == U'E' || mark == U'I')
      if (last_.mark == U'E' || last_.mark == U'S' || last_.mark == U'O') return true;
    return !is_outside(mark) && other_type;
  }

  Tag last_;
  int64_t first_ = 0;
};

void EntityTags::count(std::span<const int32_t> truth, std::span<const int32_t> predicted,
                       EntityCounts& counts) const {
  Reader reads_truth, reads_prediction;
  for (std::size_t i = 0; i <= truth.size(); ++i) {
    const bool over = i == truth.size();  // every sequence is followed by a token outside
    const auto tag = [&](std::span<const int32_t> classes) {
      return over ? Tag{} : tags_.at(static_cast<std::size_t>(classes[i]));
    };
    const auto at = static_cast<int64_t>(i);
    const std::optional<Entity> is = reads_truth.next(tag(truth), at),
                                said = reads_prediction.next(tag(predicted), at);
    if (is) counts.add_true();
    if (said) counts.add_predicted();
    if (is && is == said) counts.add_hit();
  }
}

}  // namespace recollect
