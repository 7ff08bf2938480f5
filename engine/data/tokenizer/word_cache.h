// The tokens of words met before. A word has one place, by its hash, and the newest word there stays: memory
// is bounded, nothing is allocated, and what is found is what encoding would give. One per thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace recollect {

class WordCache {
 public:
  struct Entry {
    static constexpr std::size_t kMaxBytes = 26, kMaxIds = 9;
    uint32_t ids[kMaxIds];
    uint8_t bytes, count;  // count 0: empty
    char word[kMaxBytes];
  };

  WordCache() : entries_(kEntries) {}

  // The word's place: `holds` says whether the word is there. Null for a word too long to be kept.
  Entry* place(std::string_view word) {
    return word.size() > Entry::kMaxBytes ? nullptr : &entries_[hash(word) >> (64 - kBits)];
  }
  static bool holds(const Entry& entry, std::string_view word) {
    return entry.count != 0 && entry.bytes == word.size() &&
           std::memcmp(entry.word, word.data(), word.size()) == 0;
  }
  static void put(Entry& entry, std::string_view word, const uint32_t* ids, std::size_t count) {
    if (count == 0 || count > Entry::kMaxIds) return;
    entry.bytes = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(count);
    std::memcpy(entry.word, word.data(), word.size());
    std::memcpy(entry.ids, ids, count * sizeof(uint32_t));
  }

 private:
  static constexpr int kBits = 15;
  static constexpr std::size_t kEntries = std::size_t{1} << kBits;

  static uint64_t hash(std::string_view word) {
    uint64_t value = word.size();
    const char* p = word.data();
    std::size_t left = word.size();
    for (; left >= 8; p += 8, left -= 8) value = mix(value, load(p, 8));
    return left == 0 ? value : mix(value, load(p, left));
  }
  static uint64_t load(const char* p, std::size_t bytes) {
    uint64_t value = 0;
    std::memcpy(&value, p, bytes);
    return value;
  }
  static uint64_t mix(uint64_t value, uint64_t next) {
    value = (value ^ next) * 0x9e3779b97f4a7c15u;
    return value ^ value >> 29;
  }

  std::vector<Entry> entries_;
};
static_assert(sizeof(WordCache::Entry) == 64, "one cache line");

}  // namespace recollect
