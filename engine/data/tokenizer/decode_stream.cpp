#include "engine/data/tokenizer/decode_stream.h"

namespace recollect {
namespace {

bool is_unfinished(const std::string& text) { return text.ends_with("\xef\xbf\xbd"); }  // U+FFFD

}  // namespace

std::string DecodeStream::after_prefix(const std::string& text) const {
  return text.size() > prefix_.size() ? text.substr(prefix_.size()) : std::string();
}

std::string DecodeStream::add(int32_t id) {
  ids_.push_back(id);
  const std::string text = decode_(ids_);
  if (text.size() <= prefix_.size() || is_unfinished(text)) return "";
  std::string part = after_prefix(text);
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(in_prefix_));
  in_prefix_ = ids_.size();
  prefix_ = decode_(ids_);
  return part;
}

std::string DecodeStream::rest() const { return after_prefix(decode_(ids_)); }

}  // namespace recollect
