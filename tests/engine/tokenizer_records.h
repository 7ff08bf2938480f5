// What a tokenizer makes of a text, as record() of tests/golden/make_tokenizer_kinds.py has it.
#pragma once

#include <string>
#include <string_view>

#include "engine/data/tokenizer/tokenizer.h"

namespace recollect::test {

// Ids and places without special tokens and with them, and decoded texts, as bytes.
inline std::string tokenizer_record(const Tokenizer& tokenizer, EncodingMemory& memory, std::string_view text) {
  std::string data;
  const auto put = [&](uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) data += static_cast<char>(value >> shift);
  };
  std::vector<Token> tokens;
  tokenizer.encode(text, memory, tokens);
  std::vector<uint32_t> ids;
  for (const bool special : {false, true}) {
    const auto window = tokenizer.assemble(tokens, {}, {.special_tokens = special}).front();
    put(static_cast<uint32_t>(window.size()));
    ids.clear();
    for (const Token& token : window) {
      put(token.id), put(token.begin), put(token.end);
      ids.push_back(token.id);
    }
  }
  for (const bool skip : {false, true}) (data += tokenizer.decode(ids, skip)) += '\0';
  return data;
}

}  // namespace recollect::test
