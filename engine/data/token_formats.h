// Where the tokens of a binary file are and how wide they are, worked out from headers nobody vouches for. A
// layout that is returned fits the file to the byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace recollect {

enum class TokenType : uint8_t { kU8, kU16, kU32, kI32, kI64 };

std::size_t size_of(TokenType type);
std::string_view name_of(TokenType type);                       // "uint16", ...
std::optional<TokenType> token_type_of(std::string_view name);  // empty for any other name

struct TokenLayout {
  TokenType type = TokenType::kU16;
  uint64_t offset = 0;  // of the first token, bytes
  uint64_t count = 0;
};

// What the headers say, for those who read them and those who write them.
inline constexpr int32_t kLlmcGpt2Magic = 20240520, kLlmcLlama3Magic = 20240801;
inline constexpr int32_t kLlmcGpt2Version = 1, kLlmcLlama3Version = 7;
inline constexpr uint64_t kLlmcHeaderBytes = 256 * sizeof(int32_t);
inline constexpr std::string_view kMegatronMagic("MMIDIDX\0\0", 9);
inline constexpr uint64_t kMegatronHeaderBytes = 34;
inline constexpr uint8_t kMegatronI32 = 4, kMegatronU16 = 8;

using Bytes = std::span<const std::byte>;

// `begin`: so many of a file's `file_bytes` as hold any header of these two, or all.
inline constexpr uint64_t kMostHeaderBytes = 128 << 10;

// NumPy: little-endian uint8/16/32, int32/64, C order, one dim or two (read as one stream).
bool is_npy(Bytes begin);
TokenLayout parse_npy(Bytes begin, uint64_t file_bytes, const std::string& path);

// llm.c: 256 int32 of header, then uint16 (GPT-2) or uint32 (Llama 3).
bool is_llmc(Bytes begin);
TokenLayout parse_llmc(Bytes begin, uint64_t file_bytes, const std::string& path);

// Megatron: `index` is the .idx, the tokens are the bare .bin of `data_bytes` bytes. Documents must follow
// one another without gaps; they are read as one stream.
bool is_megatron_index(Bytes index);
TokenLayout parse_megatron_index(Bytes index, const std::string& index_path, uint64_t data_bytes,
                                 const std::string& data_path);

// No header: the whole file, whose size must be a multiple of the type's.
TokenLayout headerless_layout(uint64_t file_bytes, TokenType type, const std::string& path);

}  // namespace recollect
