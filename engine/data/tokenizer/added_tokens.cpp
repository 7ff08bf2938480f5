#include "engine/data/tokenizer/added_tokens.h"

#include <algorithm>

namespace recollect {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.content.size() > b.content.size();
  });
  for (const AddedToken& token : tokens_) {
    bool& begins = begins_[static_cast<unsigned char>(token.content.front())];
    if (!begins) first_bytes_ += token.content.front();
    begins = true;
  }
}

std::size_t AddedTokens::next(std::string_view whole, std::size_t at) const {
  if (first_bytes_.size() <= 1)  // the common case, and the library's search for one byte is far quicker
    return first_bytes_.empty() ? whole.size() : std::min(whole.find(first_bytes_.front(), at), whole.size());
  while (at < whole.size() && !begins_[static_cast<unsigned char>(whole[at])]) ++at;
  return at;
}

const AddedToken* AddedTokens::find_at(std::string_view text) const {
  for (const AddedToken& token : tokens_)
    if (text.starts_with(token.content)) return &token;
  return nullptr;
}

}  // namespace recollect
