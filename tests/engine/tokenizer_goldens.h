// What tests/golden/make_tokenizer_goldens.py left, and the long texts that it and these tests make alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/json.h"

namespace recollect::test {

std::string tokenizer_golden_folder();
const nlohmann::json read_tokenizer_goldens();

// FNV-1a, of bytes and of ids as little-endian uint32.
std::string fnv(std::string_view bytes);
std::string fnv(const std::vector<uint32_t>& ids);

// Knuth's MMIX generator; its high bits.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % bound;
  }

 private:
  uint64_t state_;
};

std::string every_code_point();
// Short ones: words between everything that is odd.
std::vector<std::string> odd_texts(std::size_t count);
// The same with what is odd to tokenizers of other kinds, as make_tokenizer_kinds.py has them.
std::vector<std::string> odd_texts_of_kinds(std::size_t count);
std::string mixed_text(const std::string& novel);

// A file of RECOLLECT_TEST_DATA, or of ../shared/data beside the source; none where it is absent.
std::optional<std::string> test_data(const std::string& name);

}  // namespace recollect::test
