// What tests/golden/make_tokenizer_goldens.py left, and the long texts that it and these tests make alike.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace recollect::test {

std::string tokenizer_golden_folder();
const nlohmann::json read_tokenizer_goldens();

// FNV-1a, of bytes and of ids as little-endian uint32.
std::string fnv(std::string_view bytes);
std::string fnv(const std::vector<uint32_t>& ids);

std::string every_code_point();
std::string mixed_text(const std::string& novel);

// A file of RECOLLECT_TEST_DATA, or of ../shared/data beside the source; none where it is absent.
std::optional<std::string> test_data(const std::string& name);

}  // namespace recollect::test
