#include "engine/data/tokenizer/decoder.h"

#include <algorithm>
#include <array>
#include <optional>
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

void clean(std::string& text) {
  for (const Replacement& cleanup : kTokenCleanups) replace_all(text, cleanup);
}

std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  uint32_t value = 0;
  for (std::string_view digits = token.substr(3, 2); const char c : digits) {
    const char low = static_cast<char>(c | 0x20);
    const bool letter = low >= 'a' && low <= 'f' && c >= 'A';
    if (!letter && (c < '0' || c > '9')) return std::nullopt;
    value = value * 16 + static_cast<uint32_t>(letter ? low - 'a' + 10 : c - '0');
  }
  return static_cast<char>(value);
}

// Bytes behind each other become a text, or, where they are none, a U+FFFD each.
void join_fallback(std::vector<std::string>& texts) {
  std::vector<std::string> joined;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (first_invalid_utf8(bytes) == std::string_view::npos)
      joined.push_back(bytes);
    else
      joined.insert(joined.end(), bytes.size(), "\ufffd");
    bytes.clear();
  };
  for (std::string& text : texts) {
    if (const std::optional<char> byte = byte_of(text)) {
      bytes += *byte;
      continue;
    }
    flush();
    joined.push_back(std::move(text));
  }
  flush();
  texts = std::move(joined);
}

std::string replaced(const std::string& text, const Pattern& pattern, const std::string& content) {
  RegexMemory memory;
  std::string result;
  std::size_t kept = 0;
  pattern.for_each_match(text, memory, [&](std::size_t begin, std::size_t end) {
    result.append(text, kept, begin - kept) += content;
    kept = end;
  });
  return result.append(text, kept);
}

std::string stripped(std::string_view text, const DecoderStep& step) {
  const std::string_view whole = text;
  for (uint64_t i = 0; i < step.left && text.starts_with(step.text); ++i)
    text.remove_prefix(step.text.size());
  std::string_view end = whole;
  for (uint64_t i = 0; i < step.right && end.ends_with(step.text); ++i) end.remove_suffix(step.text.size());
  const std::size_t begin = whole.size() - text.size();
  return begin < end.size() ? std::string(end.substr(begin)) : std::string();
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
  using Kind = DecoderOptions::Kind;
  if (options_.kind == Kind::kByteLevel) steps_ = {{.kind = DecoderStep::Kind::kByteLevel}};
  if (options_.kind == Kind::kWordPiece)
    steps_ = {{.kind = DecoderStep::Kind::kWordPiece, .text = options_.prefix, .flag = options_.cleanup}};
  if (options_.kind == Kind::kSteps) steps_ = options_.steps;
}

std::string Decoder::decode(std::span<const std::string_view> tokens) const {
  if (!options_.refused.empty()) throw Error(ExitCode::kInput, options_.refused);
  std::vector<std::string> texts(tokens.begin(), tokens.end());
  for (const DecoderStep& step : steps_) apply(step, texts);
  std::string whole;
  const bool joined = options_.kind == DecoderOptions::Kind::kJoined;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (joined && i > 0) whole += ' ';
    whole += texts[i];
  }
  if (options_.clean_text)
    for (const Replacement& one : kTokenCleanups)
      if (one.first != " do not") replace_all(whole, one);
  return whole;
}

// A token with a character that spells no byte stands as it is.
void Decoder::join_bytes(std::vector<std::string>& texts) const {
  std::string whole;
  for (const std::string& text : texts) whole += bytes_of_gpt2_spelling(text).value_or(text);
  texts = {repair_utf8(whole)};
}

void Decoder::apply(const DecoderStep& step, std::vector<std::string>& texts) const {
  using Kind = DecoderStep::Kind;
  switch (step.kind) {
    case Kind::kByteLevel:
      return join_bytes(texts);
    case Kind::kByteFallback:
      return join_fallback(texts);
    case Kind::kWordPiece:
      for (std::size_t i = 0; i < texts.size(); ++i) {
        if (i > 0)
          texts[i] = texts[i].starts_with(step.text) ? texts[i].substr(step.text.size()) : " " + texts[i];
        if (step.flag) clean(texts[i]);
      }
      return;
    case Kind::kMetaspace:
      for (std::size_t i = 0; i < texts.size(); ++i)
        replace_all(texts[i], {step.text, i == 0 && step.flag ? "" : " "});
      return;
    case Kind::kReplace:
      for (std::string& text : texts) text = replaced(text, *step.pattern, step.text);
      return;
    case Kind::kStrip:
      for (std::string& text : texts) text = stripped(text, step);
      return;
    case Kind::kFuse: {
      std::string whole;
      for (const std::string& text : texts) whole += text;
      texts = {std::move(whole)};
      return;
    }
    case Kind::kSuffix:
      for (std::size_t i = 0; i < texts.size(); ++i)
        replace_all(texts[i], {step.text, i + 1 == texts.size() ? "" : " "});
      return;
    case Kind::kCtc:
      texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
      for (std::string& text : texts) {
        replace_all(text, {step.text, ""});
        if (step.flag) clean(text), replace_all(text, {step.delimiter, " "});
      }
      std::erase_if(texts, [](const std::string& text) { return text.empty(); });
      return;
  }
}

}  // namespace recollect
