// A map from two numbers to two numbers, filled once and then only read, by any thread: the merges of a BPE
// (left, right -> rank, result) and the edges of a trie (node, byte -> node, token).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace recollect {

class PairMap {
 public:
  struct Entry {
    uint32_t first = kEmpty, second = kEmpty;  // the key
    uint32_t a = 0, b = 0;
  };

  PairMap() : slots_(16) {}

  const Entry* find(uint32_t first, uint32_t second) const {
    for (std::size_t at = slot(first, second);; at = (at + 1) & (slots_.size() - 1)) {
      const Entry& entry = slots_[at];
      if (entry.first == first && entry.second == second) return &entry;
      if (entry.first == kEmpty) return nullptr;
    }
  }

  // The entry of that key, a new one where there was none; good until the next insertion. `first` is not
  // kEmpty.
  std::pair<Entry*, bool> insert(const Entry& entry) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    std::size_t at = slot(entry.first, entry.second);
    for (; slots_[at].first != kEmpty; at = (at + 1) & (slots_.size() - 1))
      if (slots_[at].first == entry.first && slots_[at].second == entry.second) return {&slots_[at], false};
    ++size_;
    slots_[at] = entry;
    return {&slots_[at], true};
  }

 private:
  static constexpr uint32_t kEmpty = UINT32_MAX;

  std::size_t slot(uint32_t first, uint32_t second) const {
    const uint64_t mixed = (uint64_t{first} << 32 | second) * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>(mixed >> 32) & (slots_.size() - 1);
  }

  void grow() {
    std::vector<Entry> old(2 * slots_.size());
    old.swap(slots_);
    size_ = 0;
    for (const Entry& entry : old)
      if (entry.first != kEmpty) insert(entry);
  }

  std::vector<Entry> slots_;  // a power of two, at most half of them taken
  std::size_t size_ = 0;
};

}  // namespace recollect
