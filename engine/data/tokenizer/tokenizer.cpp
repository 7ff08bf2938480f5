#include "engine/data/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/core/error.h"
#include "engine/io/strict_json.h"

namespace recollect {

Tokenizer::Tokenizer(Parts parts)
    : characters_(parts.characters ? std::move(parts.characters) : std::make_shared<const Characters>()),
      tokens_(std::move(parts.tokens)),
      encoder_(std::move(parts.encoder)),
      post_processor_(std::move(parts.post_processor)),
      special_(parts.special),
      habits_(parts.habits),
      remarks_(std::move(parts.remarks)),
      decoder_(std::move(parts.decoder)),
      left_out_(tokens_.size()),
      there_(tokens_.size()) {
  set_steps(parts);
  added_.emplace(*characters_, looked_for(parts, false));
  added_normalized_.emplace(*characters_, looked_for(parts, true));
  for (std::size_t id = 0; id < tokens_.size(); ++id) there_[id] = !tokens_[id].empty();
  for (const Added& token : parts.added) {
    there_[token.id] = true;
    std::string other = token.normalized ? normalized(token.content) : token.content;
    left_out_[token.id] = token.special && other == token.content;
    if (other != token.content) respelled_.emplace(token.id, std::move(other));
  }
  set_cuts(parts);
}

void Tokenizer::set_steps(Parts& parts) {
  if (parts.normalizers)
    normalizers_ = std::move(*parts.normalizers);
  else if (parts.bert)
    normalizers_.push_back(make_bert_normalizer(*characters_, *parts.bert));
  if (parts.pre_tokenizers)
    pre_tokenizers_ = std::move(*parts.pre_tokenizers);
  else if (parts.bert)
    pre_tokenizers_.push_back(make_bert_words(*characters_));
  else
    pre_tokenizers_.push_back(
        make_byte_level(*characters_, {.prefix_space = parts.prefix_space, .spells_bytes = false}));
  traces_always_ =
      !normalizers_.empty() && std::any_of(pre_tokenizers_.begin(), pre_tokenizers_.end(),
                                           [](const auto& step) { return step->needs_origins(); });
}

// Where a text may be cut into parts that are encoded by themselves: every step must say that a blank between letters
// does not bind them, and a step, or the model, that a word begins with it.
void Tokenizer::set_cuts(const Parts& parts) {
  std::string blank = " ";
  bool ends = false;
  can_cut_lines_ = !pre_tokenizers_.empty();
  for (const auto& step : normalizers_) {
    can_cut_ &= step->allows_cuts();
    blank = step->blank_after(blank);
  }
  for (const auto& step : pre_tokenizers_) {
    const PreTokenizer::AtBlank here = step->at_blank(blank);
    can_cut_ &= here != PreTokenizer::AtBlank::kUnknown;
    ends |= here == PreTokenizer::AtBlank::kEndsWord;
    blank = step->blank_after(blank);
  }
  can_cut_lines_ = std::any_of(pre_tokenizers_.begin(), pre_tokenizers_.end(),
                               [](const auto& step) { return step->ends_at_line(); });
  if (!ends && encoder_->ends_words_before(blank)) words_begin_with_ = blank;
  can_cut_ &= ends || !words_begin_with_.empty();
  for (const Added& token : parts.added) can_cut_ &= !reaches_back(token, blank);
}

// Whether it may be found, or not be found, because of what stands before a blank that it has.
bool Tokenizer::reaches_back(const Added& token, std::string_view blank) const {
  const auto other = respelled_.find(token.id);
  const std::string_view text = other == respelled_.end() ? token.content : other->second;
  bool first = true, after_blank = false;
  for (std::size_t at = 0; at < text.size(); first = false) {
    const bool respelled = token.normalized && text.substr(at).starts_with(blank);
    const bool is_blank = characters_->is_white(decode_utf8(text, at)) || respelled;
    if (is_blank && (first ? token.single_word : !after_blank)) return true;
    after_blank = is_blank;
  }
  return false;
}

std::string Tokenizer::normalized(const std::string& text) const {
  EncodingMemory memory;
  normalize(text, 0, false, false, memory);
  return memory.text.bytes;
}

std::vector<AddedToken> Tokenizer::looked_for(const Parts& parts, bool in_normalized) const {
  std::vector<AddedToken> tokens;
  for (const Added& token : parts.added) {
    if (token.normalized != in_normalized) continue;
    std::string content = in_normalized ? normalized(token.content) : token.content;
    if (content.empty())
      throw Error(ExitCode::kInput, fmt::format("{}: nothing of the added token {} could be found in a text",
                                                parts.source, escaped_name(token.content)));
    tokens.push_back({std::move(content), token.id, token.single_word, token.takes_left, token.takes_right});
  }
  return tokens;
}

void Tokenizer::normalize(std::string_view text, uint32_t base, bool trace, bool continues,
                          EncodingMemory& memory) const {
  memory.text.assign(text, base, trace);
  memory.text.continues = continues;
  for (const auto& step : normalizers_)
    if (!memory.text.bytes.empty()) step->apply(memory.text, memory.steps);
}

void Tokenizer::cut(std::string_view text, const TextSpan* spans, uint32_t base,
                    EncodingMemory& memory) const {
  memory.pieces.start(text, spans, base);
  for (const auto& step : pre_tokenizers_) step->apply(memory.pieces, memory.steps);
}

std::optional<uint32_t> Tokenizer::find(std::string_view token) const {
  const auto found = std::find(tokens_.begin(), tokens_.end(), token);
  return found == tokens_.end() ? std::nullopt
                                : std::optional(static_cast<uint32_t>(found - tokens_.begin()));
}

void Tokenizer::encode(std::string_view text, EncodingMemory& memory, std::vector<uint32_t>& ids,
                       bool continues) const {
  added_->split(
      text,
      [&](std::size_t begin, std::size_t end) {
        encode_piece(text.substr(begin, end - begin), static_cast<uint32_t>(begin), continues && begin == 0,
                     memory, ids);
      },
      [&](const AddedMatch& match) { ids.push_back(match.id); });
}

void Tokenizer::encode_piece(std::string_view text, uint32_t base, bool continues, EncodingMemory& memory,
                             std::vector<uint32_t>& ids) const {
  if (!normalizers_.empty()) {
    normalize(text, base, traces_always_, continues, memory);
    text = memory.text.bytes;
  }
  added_normalized_->split(
      text,
      [&](std::size_t begin, std::size_t end) {
        const TextSpan* spans = traces_always_ ? memory.text.spans.data() + begin : nullptr;
        cut(text.substr(begin, end - begin), spans, base + static_cast<uint32_t>(begin), memory);
        encode_words(memory, ids);
      },
      [&](const AddedMatch& match) { ids.push_back(match.id); });
}

void Tokenizer::encode_words(EncodingMemory& memory, std::vector<uint32_t>& ids) const {
  const std::string_view begin = words_begin_with_;
  for (const Pieces::Piece& piece : memory.pieces.all()) {
    std::string_view rest = memory.pieces.of(piece);
    while (!begin.empty() && !rest.empty()) {  // the blanks that a word begins with, and what follows them
      std::size_t at = 0;
      while (rest.substr(at).starts_with(begin)) at += begin.size();
      const std::size_t end = std::min(rest.find(begin, at), rest.size());
      encode_word(rest.substr(0, end), memory.words, ids);
      rest.remove_prefix(end);
    }
    if (begin.empty()) encode_word(rest, memory.words, ids);
  }
}

void Tokenizer::encode_word(std::string_view word, WordCache& cache, std::vector<uint32_t>& ids) const {
  WordCache::Entry* place = cache.place(word);
  if (place && WordCache::holds(*place, word)) {
    ids.insert(ids.end(), place->ids, place->ids + place->count);
    return;
  }
  const std::size_t before = ids.size();
  encoder_->encode(word, ids, nullptr);
  if (place) WordCache::put(*place, word, ids.data() + before, ids.size() - before);
}

std::string Tokenizer::decode(std::span<const uint32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string_view> tokens;
  for (const uint32_t id : ids) {
    if (id >= tokens_.size() || !there_[id] || (skip_special_tokens && left_out_[id])) continue;
    const auto other = respelled_.find(id);
    tokens.push_back(other == respelled_.end() ? tokens_[id] : other->second);
  }
  return decoder_.decode(tokens);
}

// Before a blank between characters that nothing binds to it, and, where words end there, before a line break that
// follows a letter or a digit. No added token lies across a blank, and none ends where the text is cut.
std::size_t Tokenizer::safe_cut(std::string_view text, std::size_t from) const {
  if (!can_cut_) return text.size();
  const auto of_word = [&](uint32_t point) {
    const CharacterClass kind = characters_->class_of(point);
    return (kind == CharacterClass::kLetter || kind == CharacterClass::kNumber) &&
           characters_->is_stable(point, NormalForm::kNfkc);
  };
  const auto stands_free = [&](uint32_t point) { return (point > ' ' && point < 0x7f) || of_word(point); };
  for (std::size_t at = std::max<std::size_t>(from, 1); at + 1 < text.size(); ++at) {
    if (text[at] != ' ' && (text[at] != '\n' || !can_cut_lines_)) continue;
    std::size_t before = at - 1, behind = at + 1;
    while (before > 0 && continues_utf8(text[before])) --before;
    const std::size_t length = std::min(utf8_length(text[behind]), text.size() - behind);
    if (first_invalid_utf8(text.substr(before, at - before)) != std::string_view::npos ||
        first_invalid_utf8(text.substr(behind, length)) != std::string_view::npos)
      continue;
    const uint32_t left = decode_utf8(text, before);
    if (text[at] == ' ' ? !stands_free(left) || !stands_free(decode_utf8(text, behind)) : !of_word(left))
      continue;
    const std::string_view part = text.substr(0, at);
    if (!added_->ends_with_one(part) && !added_normalized_->ends_with_one(part)) return at;
  }
  return text.size();
}

}  // namespace recollect
