// Entities in sequences of tagged tokens, by seqeval's default rules: an entity is what a lenient reader of IO, IOB2 and
// IOBES takes for one, and it is right where first token, last token and type are. Sequences are read one by one; the
// counts add up over sequences and ranks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace recollect {

class EntityCounts {
 public:
  void add_hit() { ++numbers_[0]; }
  void add_true() { ++numbers_[1]; }
  void add_predicted() { ++numbers_[2]; }
  void clear() { numbers_ = {}; }
  std::array<int64_t, 3>& numbers() { return numbers_; }  // what adds up over ranks

  // A quotient by zero is zero.
  double precision() const;
  double recall() const;
  double f1() const;

 private:
  std::array<int64_t, 3> numbers_{};  // right, true, predicted
};

// What the names of classes say of entities.
class EntityTags {
 public:
  explicit EntityTags(std::span<const std::string> names);

  // Of one sequence: the class of each token, as it is and as it was predicted.
  void count(std::span<const int32_t> truth, std::span<const int32_t> predicted, EntityCounts& counts) const;

 private:
  struct Tag {
    char32_t mark = U'O';  // the name's first character: B, I, E, S, O, or any other
    int32_t type = 0;      // what follows it: equal numbers for equal types; 0: nothing does
  };
  struct Entity {
    int64_t first = 0;
    int32_t type = 0;
    bool operator==(const Entity&) const = default;
  };
  class Reader;

  std::vector<Tag> tags_;  // by class
};

}  // namespace recollect
