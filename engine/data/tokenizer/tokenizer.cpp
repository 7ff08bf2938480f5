#include "engine/data/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/core/error.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

std::vector<AddedToken> looked_for(const std::vector<Tokenizer::Added>& added, bool in_normalized,
                                   const std::optional<BertNormalizer>& normalizer,
                                   const std::string& source) {
  std::vector<AddedToken> tokens;
  for (const Tokenizer::Added& token : added) {
    if (token.normalized != in_normalized) continue;
    std::string content = token.content;
    if (in_normalized && normalizer) {
      BertNormalizer::Memory memory;
      normalizer->apply(token.content, memory, false);
      content = std::move(memory.text);
    }
    if (content.empty())
      throw Error(ExitCode::kInput, fmt::format("{}: nothing of the added token {} could be found in a text",
                                                source, escaped_name(token.content)));
    tokens.push_back({std::move(content), token.id});
  }
  return tokens;
}

}  // namespace

Tokenizer::Tokenizer(Parts parts)
    : tokens_(std::move(parts.tokens)),
      encoder_(std::move(parts.encoder)),
      normalizer_(parts.bert ? std::optional<BertNormalizer>(std::in_place, characters_, *parts.bert)
                             : std::nullopt),
      prefix_space_(parts.prefix_space),
      added_(looked_for(parts.added, false, normalizer_, parts.source)),
      added_normalized_(looked_for(parts.added, true, normalizer_, parts.source)),
      post_processor_(std::move(parts.post_processor)),
      special_(parts.special),
      habits_(parts.habits),
      remarks_(std::move(parts.remarks)),
      decoder_(std::move(parts.decoder)),
      left_out_(tokens_.size()) {
  for (const Added& token : parts.added) {
    left_out_[token.id] = token.special;
    if (token.normalized && normalizer_) {
      BertNormalizer::Memory memory;
      normalizer_->apply(token.content, memory, false);
      respelled_.emplace_back(token.id, std::move(memory.text));
    }
    for (std::size_t at = 0; at < token.content.size();)
      can_cut_ &= !characters_.is_blank(decode_utf8(token.content, at));
  }
}

std::optional<uint32_t> Tokenizer::find(std::string_view token) const {
  const auto found = std::find(tokens_.begin(), tokens_.end(), token);
  return found == tokens_.end() ? std::nullopt
                                : std::optional(static_cast<uint32_t>(found - tokens_.begin()));
}

void Tokenizer::encode(std::string_view text, EncodingMemory& memory, std::vector<uint32_t>& ids) const {
  added_.split(
      text, [&](std::string_view piece) { encode_piece(piece, memory, ids); },
      [&](uint32_t id, std::string_view) { ids.push_back(id); });
}

void Tokenizer::encode_piece(std::string_view text, EncodingMemory& memory,
                             std::vector<uint32_t>& ids) const {
  if (normalizer_) {
    normalizer_->apply(text, memory.normalized, false);
    text = memory.normalized.text;
  }
  added_normalized_.split(
      text, [&](std::string_view piece) { encode_words(piece, memory, ids); },
      [&](uint32_t id, std::string_view) { ids.push_back(id); });
}

void Tokenizer::encode_words(std::string_view text, EncodingMemory& memory,
                             std::vector<uint32_t>& ids) const {
  for_each_word(with_prefix_space(text, memory),
                [&](std::string_view word) { encode_word(word, memory.words, ids); });
}

void Tokenizer::encode_word(std::string_view word, WordCache& cache, std::vector<uint32_t>& ids) const {
  WordCache::Entry* place = cache.place(word);
  if (place && WordCache::holds(*place, word)) {
    ids.insert(ids.end(), place->ids, place->ids + place->count);
    return;
  }
  const std::size_t before = ids.size();
  encoder_->encode(word, ids);
  if (place) WordCache::put(*place, word, ids.data() + before, ids.size() - before);
}

std::string_view Tokenizer::with_prefix_space(std::string_view text, EncodingMemory& memory) const {
  if (!prefix_space_ || text.starts_with(' ')) return text;
  memory.prefixed.assign(1, ' ').append(text);
  return memory.prefixed;
}

std::string Tokenizer::decode(std::span<const uint32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string_view> tokens;
  for (const uint32_t id : ids) {
    if (id >= tokens_.size() || (skip_special_tokens && left_out_[id])) continue;
    const auto other = std::find_if(respelled_.begin(), respelled_.end(),
                                    [id](const auto& respelled) { return respelled.first == id; });
    tokens.push_back(other == respelled_.end() ? tokens_[id] : other->second);
  }
  return decoder_.decode(tokens);
}

// A word that is not blank ends where a blank follows, whatever comes behind; no added token lies across a
// blank. A text that gets a blank put before it gets none where it begins with one.
std::size_t Tokenizer::safe_cut(std::string_view text, std::size_t from) const {
  if (!can_cut_) return text.size();
  for (std::size_t at = std::max<std::size_t>(from, 1); at < text.size(); ++at) {
    if (text[at] != ' ' && (text[at] != '\n' || prefix_space_)) continue;
    std::size_t before = at - 1;
    while (before > 0 && (text[before] & 0xc0) == 0x80) --before;
    const bool valid = first_invalid_utf8(text.substr(before, at - before)) == std::string_view::npos;
    if (valid && characters_.class_of(decode_utf8(text, before)) != CharacterClass::kSpace) return at;
  }
  return text.size();
}

}  // namespace recollect
