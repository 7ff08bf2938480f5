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
    std::string content;
    std::u32string points;
    if (in_normalized && normalizer)
      normalizer->apply(token.content, content, points);
    else
      content = token.content;
    if (content.empty())
      throw Error(ExitCode::kInput, fmt::format("{}: nothing of the added token {} could be found in a text",
                                                source, escaped_name(token.content)));
    tokens.push_back({std::move(content), token.id});
  }
  return tokens;
}

}  // namespace

Tokenizer::Tokenizer(std::vector<std::string> tokens, std::unique_ptr<WordEncoder> encoder,
                     std::optional<BertOptions> bert, const std::vector<Added>& added,
                     const std::string& source)
    : tokens_(std::move(tokens)),
      encoder_(std::move(encoder)),
      normalizer_(bert ? std::optional<BertNormalizer>(std::in_place, characters_, *bert) : std::nullopt),
      added_(looked_for(added, false, normalizer_, source)),
      added_normalized_(looked_for(added, true, normalizer_, source)) {
  for (const Added& token : added)
    for (std::size_t at = 0; at < token.content.size();)
      can_cut_ &= !characters_.is_blank(decode_utf8(token.content, at));
}

std::optional<uint32_t> Tokenizer::find(std::string_view token) const {
  const auto found = std::find(tokens_.begin(), tokens_.end(), token);
  return found == tokens_.end() ? std::nullopt
                                : std::optional(static_cast<uint32_t>(found - tokens_.begin()));
}

void Tokenizer::encode(std::string_view text, EncodingMemory& memory, std::vector<uint32_t>& ids) const {
  added_.split(
      text, [&](std::string_view piece) { encode_piece(piece, memory, ids); },
      [&](uint32_t id) { ids.push_back(id); });
}

void Tokenizer::encode_piece(std::string_view text, EncodingMemory& memory,
                             std::vector<uint32_t>& ids) const {
  if (normalizer_) {
    memory.normalized.clear();
    normalizer_->apply(text, memory.normalized, memory.points);
    text = memory.normalized;
  }
  added_normalized_.split(
      text, [&](std::string_view piece) { encode_words(piece, memory.words, ids); },
      [&](uint32_t id) { ids.push_back(id); });
}

void Tokenizer::encode_words(std::string_view text, WordCache& cache, std::vector<uint32_t>& ids) const {
  const auto encode_word = [&](std::string_view word) {
    WordCache::Entry* place = cache.place(word);
    if (place && WordCache::holds(*place, word)) {
      ids.insert(ids.end(), place->ids, place->ids + place->count);
      return;
    }
    const std::size_t before = ids.size();
    encoder_->encode(word, ids);
    if (place) WordCache::put(*place, word, ids.data() + before, ids.size() - before);
  };
  if (normalizer_)
    for_each_bert_word(characters_, text, encode_word);
  else
    for_each_gpt2_word(characters_, text, encode_word);
}

// A word that is not blank ends where a blank follows, whatever comes behind; no added token lies across a
// blank.
std::size_t Tokenizer::safe_cut(std::string_view text, std::size_t from) const {
  if (!can_cut_) return text.size();
  for (std::size_t at = std::max<std::size_t>(from, 1); at < text.size(); ++at) {
    if (text[at] != ' ' && text[at] != '\n') continue;
    std::size_t before = at - 1;
    while (before > 0 && (text[before] & 0xc0) == 0x80) --before;
    const bool valid = first_invalid_utf8(text.substr(before, at - before)) == std::string_view::npos;
    if (valid && characters_.class_of(decode_utf8(text, before)) != CharacterClass::kSpace) return at;
  }
  return text.size();
}

}  // namespace recollect
