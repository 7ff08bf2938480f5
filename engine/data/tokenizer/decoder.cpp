#include "engine/data/tokenizer/decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/core/error.h"
#include "engine/data/tokenizer/unicode.h"
#include "engine/data/tokenizer/word_encoder.h"

namespace recollect {
namespace {

using Replacement = std::pair<std::string_view, std::string_view>;
constexpr std::array<Replacement, 11> kTokenCleanups{{{" .", "."},
                                                      {" ?", "?"},
                                                      {" !", "!"},
                                                      {" ,", ","},
                                                      {" ' ", "'"},
                                                      {" n't", "n't"},
                                                      {" 'm", "'m"},
                                                      {" do not", " don't"},
                                                      {" 's", "'s"},
                                                      {" 've", "'ve"},
                                                      {" 're", "'re"}}};

void replace_all(std::string& text, const Replacement& replacement) {
  const auto& [from, to] = replacement;
  std::size_t at = text.find(from);
  if (at == std::string::npos) return;
  std::string result(text, 0, at);
  for (std::size_t next; at != std::string::npos; at = next) {
    result += to;
    next = text.find(from, at + from.size());
    result.append(text, at + from.size(), next == std::string::npos ? next : next - at - from.size());
  }
  text = std::move(result);
}

// Bytes at the front, at least one, that some character begins with, where they do not make one.
std::size_t broken_length(std::string_view text) {
  const auto begins_one = [](std::string head) {
    for (const char next : {'\x80', '\x90', '\xa0', '\xbf'})
      for (std::string whole = head + next; whole.size() <= 4; whole += '\x80')
        if (first_invalid_utf8(whole) == std::string_view::npos) return true;
    return false;
  };
  std::size_t length = 1;
  while (length < std::min<std::size_t>(3, text.size()) &&
         begins_one(std::string(text.substr(0, length + 1))))
    ++length;
  return length;
}

}  // namespace

std::string repair_utf8(std::string_view bytes) {
  std::string text;
  while (true) {
    const std::size_t bad = first_invalid_utf8(bytes);
    text += bytes.substr(0, bad);
    if (bad == std::string_view::npos) return text;
    bytes.remove_prefix(bad);
    text += "\ufffd";
    bytes.remove_prefix(broken_length(bytes));
  }
}

Decoder::Decoder(DecoderOptions options) : options_(std::move(options)) {
  if (options_.kind != DecoderOptions::Kind::kByteLevel) return;
  const auto alphabet = gpt2_byte_alphabet();
  for (std::size_t byte = 0; byte < alphabet.size(); ++byte) {
    std::size_t at = 0;
    bytes_.emplace(decode_utf8(alphabet[byte], at), static_cast<char>(byte));
  }
}

std::string Decoder::decode(std::span<const std::string_view> tokens) const {
  if (!options_.refused.empty()) throw Error(ExitCode::kInput, options_.refused);
  if (options_.kind == DecoderOptions::Kind::kByteLevel) return from_bytes(tokens);
  std::string text = from_pieces(tokens);
  if (options_.clean_text)
    for (const Replacement& one : kTokenCleanups)
      if (one.first != " do not") replace_all(text, one);
  return text;
}

// A token with a character that spells no byte stands as it is.
std::string Decoder::from_bytes(std::span<const std::string_view> tokens) const {
  std::string whole, bytes;
  for (const std::string_view token : tokens) {
    bytes.clear();
    bool spelled = true;
    for (std::size_t at = 0; at < token.size() && spelled;) {
      const auto found = bytes_.find(decode_utf8(token, at));
      spelled = found != bytes_.end();
      if (spelled) bytes += found->second;
    }
    whole += spelled ? std::string_view(bytes) : token;
  }
  return repair_utf8(whole);
}

std::string Decoder::from_pieces(std::span<const std::string_view> tokens) const {
  const bool pieces = options_.kind == DecoderOptions::Kind::kWordPiece;
  std::string text, one;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    one.clear();
    const bool within = pieces && i > 0 && tokens[i].starts_with(options_.prefix);
    if (i > 0 && !within) one += ' ';
    one += within ? tokens[i].substr(options_.prefix.size()) : tokens[i];
    if (pieces && options_.cleanup)
      for (const Replacement& cleanup : kTokenCleanups) replace_all(one, cleanup);
    text += one;
  }
  return text;
}

}  // namespace recollect
