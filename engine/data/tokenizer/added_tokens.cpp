#include "engine/data/tokenizer/added_tokens.h"

#include <algorithm>

namespace recollect {
namespace {

// The character that ends before `end`.
uint32_t point_before(std::string_view text, std::size_t end, std::size_t& begin) {
  begin = end - 1;
  while (continues_utf8(text[begin])) --begin;
  std::size_t at = begin;
  return decode_utf8(text, at);
}

}  // namespace

AddedTokens::AddedTokens(const Characters& characters, std::vector<AddedToken> tokens)
    : characters_(characters), tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    trie_.add(tokens_[i].content, static_cast<uint32_t>(i));
    bool& begins = begins_[static_cast<unsigned char>(tokens_[i].content.front())];
    if (!begins) first_bytes_ += tokens_[i].content.front();
    begins = true;
  }
}

std::size_t AddedTokens::next(std::string_view whole, std::size_t at) const {
  if (first_bytes_.size() <= 1)  // the common case, and the library's search for one byte is far quicker
    return first_bytes_.empty() ? whole.size() : std::min(whole.find(first_bytes_.front(), at), whole.size());
  while (at < whole.size() && !begins_[static_cast<unsigned char>(whole[at])]) ++at;
  return at;
}

bool AddedTokens::accept(std::string_view whole, std::size_t begin, std::size_t end, const AddedToken& token,
                         std::size_t free, AddedMatch& match) const {
  match = {token.id, begin, end};
  if (token.single_word) {
    std::size_t at = end, unused = 0;
    if (begin > 0 && characters_.is_word(point_before(whole, begin, unused))) return false;
    if (end < whole.size() && characters_.is_word(decode_utf8(whole, at))) return false;
  }
  if (token.takes_left) {
    std::size_t left = begin;
    for (std::size_t at = 0; left > 0 && characters_.is_white(point_before(whole, left, at));) left = at;
    match.begin = std::min(std::max(left, free), end);
    match.blanks_left = begin - std::min(match.begin, begin);
  }
  if (token.takes_right) {
    for (std::size_t at = end; at < whole.size() && characters_.is_white(decode_utf8(whole, at));)
      match.end = at;
    match.blanks_right = match.end - end;
  }
  return true;
}

bool AddedTokens::ends_with_one(std::string_view text) const {
  return std::any_of(tokens_.begin(), tokens_.end(),
                     [&](const AddedToken& token) { return text.ends_with(token.content); });
}

}  // namespace recollect
