#include "engine/data/tokenizer/normalizer.h"

#include <array>

#include "engine/data/tokenizer/normal_form.h"
#include "engine/data/tokenizer/word_encoder.h"

namespace recollect {
namespace {

// Characters that go, and characters that become another one.
constexpr uint32_t kGone = UINT32_MAX;

template <typename F>
void map_points(TracedText& text, F become) {
  TextEdit edit(text);
  const std::string_view whole = edit.source();
  std::size_t kept = 0;
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t here = at;
    const uint32_t point = decode_utf8(whole, at), other = become(point);
    if (other == point) continue;
    edit.keep(kept, here);
    if (other != kGone) edit.put(other, here);
    kept = at;
  }
  if (kept == 0) return;
  edit.keep(kept, whole.size());
  edit.finish();
}

class BertNormalizer final : public Normalizer {
 public:
  BertNormalizer(const Characters& characters, const BertOptions& options)
      : characters_(characters), options_(options) {
    for (uint32_t c = 0; c < ascii_.size(); ++c) {
      const bool upper = options.lowercase && c >= 'A' && c <= 'Z';
      ascii_[c] = static_cast<char>(upper ? c + 'a' - 'A' : c);
      if (options.clean && characters.is_blank(c)) ascii_[c] = ' ';
      gone_[c] = options.clean && characters.is_dropped(c);
    }
  }

  void apply(TracedText& text, StepMemory&) const override {
    if (!clean(text)) return;
    if (options_.strip_accents) {
      apply_normal_form(characters_, NormalForm::kNfd, text);
      map_points(text, [&](uint32_t point) { return characters_.is_accent(point) ? kGone : point; });
    }
    if (options_.lowercase) lower_foreign(text);
  }

 private:
  // ASCII is done with all at once. Whether there is anything else.
  bool clean(TracedText& text) const {
    TextEdit edit(text);
    const std::string_view whole = edit.source();
    bool foreign = false;
    for (std::size_t at = 0; at < whole.size();) {
      if (is_ascii(whole[at])) {
        at = clean_ascii(text, edit, at);
        continue;
      }
      foreign = true;
      const std::size_t here = at;
      const uint32_t point = decode_utf8(whole, at);
      if (options_.clean && characters_.is_dropped(point)) continue;
      const bool spaced = options_.space_cjk && characters_.is_cjk(point);
      if (spaced) edit.put(" ", here);
      if (options_.clean && characters_.is_blank(point))
        edit.put(" ", here);
      else
        edit.keep(here, at);
      if (spaced) edit.put(" ", here);
    }
    edit.finish();
    return foreign;
  }

  std::size_t clean_ascii(TracedText& text, TextEdit& edit, std::size_t at) const {
    const std::string_view whole = edit.source();
    const std::size_t end = first_foreign(whole, at), before = text.other_bytes.size();
    text.other_bytes.resize(before + end - at);
    char* to = text.other_bytes.data() + before;
    for (; at < end; ++at) {
      const auto c = static_cast<unsigned char>(whole[at]);
      *to = ascii_[c];
      if (gone_[c]) continue;
      ++to;
      if (text.traced) text.other_spans.push_back(text.spans[at]);
    }
    text.other_bytes.resize(static_cast<std::size_t>(to - text.other_bytes.data()));
    return end;
  }

  // Accents may have stood on capitals of ASCII.
  void lower_foreign(TracedText& text) const {
    TextEdit edit(text);
    const std::string_view whole = edit.source();
    std::size_t kept = 0;
    std::string lower;
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t here = at;
      const uint32_t point = decode_utf8(whole, at);
      if (!characters_.has_lower(point) && point != Characters::kDottedI) continue;
      lower.clear();
      characters_.append_lower(point, lower);
      edit.keep(kept, here);
      edit.put(lower, here);
      kept = at;
    }
    edit.keep(kept, whole.size());
    edit.finish();
  }

  const Characters& characters_;
  BertOptions options_;
  std::array<char, 128> ascii_;
  std::array<bool, 128> gone_;
};

class FormNormalizer final : public Normalizer {
 public:
  FormNormalizer(const Characters& characters, NormalForm form) : characters_(characters), form_(form) {}
  void apply(TracedText& text, StepMemory&) const override { apply_normal_form(characters_, form_, text); }

 private:
  const Characters& characters_;
  NormalForm form_;
};

class Lowercase final : public Normalizer {
 public:
  explicit Lowercase(const Characters& characters) : characters_(characters) {}
  void apply(TracedText& text, StepMemory&) const override {
    TextEdit edit(text);
    const std::string_view whole = edit.source();
    std::string lower;
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t here = at;
      lower.clear();
      characters_.append_lower(decode_utf8(whole, at), lower);
      edit.put(lower, here);
    }
    edit.finish();
  }

 private:
  const Characters& characters_;
};

class Strip final : public Normalizer {
 public:
  Strip(const Characters& characters, bool left, bool right)
      : characters_(characters), left_(left), right_(right) {}
  bool allows_cuts() const override { return false; }
  void apply(TracedText& text, StepMemory&) const override {
    TextEdit edit(text);
    const std::string_view whole = edit.source();
    std::size_t begin = whole.size(), end = 0;  // of what lies between blanks
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t here = at;
      if (characters_.is_white(decode_utf8(whole, at))) continue;
      begin = std::min(begin, here);
      end = at;
    }
    if (!left_) begin = 0;
    if (!right_) end = whole.size();
    edit.keep(begin, std::max(begin, end));
    edit.finish();
  }

 private:
  const Characters& characters_;
  bool left_, right_;
};

class StripAccents final : public Normalizer {
 public:
  explicit StripAccents(const Characters& characters) : characters_(characters) {}
  void apply(TracedText& text, StepMemory&) const override {
    map_points(text, [&](uint32_t point) { return characters_.is_mark(point) ? kGone : point; });
  }

 private:
  const Characters& characters_;
};

// Of neural machine translation: control characters go, everything like a blank becomes one.
class Nmt final : public Normalizer {
 public:
  void apply(TracedText& text, StepMemory&) const override { map_points(text, become); }

 private:
  static uint32_t become(uint32_t point) {
    const auto within = [point](uint32_t first, uint32_t last) { return point >= first && point <= last; };
    if (within(0x1, 0x8) || point == 0xb || within(0xe, 0x1f) || point == 0x7f || point == 0x8f ||
        point == 0x9f)
      return kGone;
    const bool blank = within(0x9, 0xa) || within(0xc, 0xd) || point == 0x1680 || within(0x200b, 0x200f) ||
                       within(0x2028, 0x2029) || point == 0x2581 || point == 0xfeff || point == 0xfffd;
    return blank ? ' ' : point;
  }
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(const std::string& text) : text_(text) {}
  void apply(TracedText& text, StepMemory&) const override {
    if (text.continues) return;
    TextEdit edit(text);
    edit.put(text_, 0);
    edit.keep(0, edit.source().size());
    edit.finish();
  }

 private:
  std::string text_;
};

class Replace final : public Normalizer {
 public:
  Replace(Pattern pattern, const std::string& content) : pattern_(std::move(pattern)), content_(content) {}
  // Runs of blanks do not lie across a single one; of a literal, no part may.
  bool allows_cuts() const override {
    return pattern_.is_literal() ? pattern_.text() == " " || pattern_.text().find(' ') == std::string::npos
                                 : pattern_.text() == " {2,}";
  }
  std::string blank_after(std::string_view blank) const override {
    return pattern_.is_literal() && pattern_.text() == blank ? content_ : std::string(blank);
  }
  void apply(TracedText& text, StepMemory& memory) const override {
    TextEdit edit(text);
    const std::string_view whole = edit.source();
    std::size_t kept = 0;
    bool any = false;
    pattern_.for_each_match(whole, memory.regex, [&](std::size_t begin, std::size_t end) {
      edit.keep(kept, begin);
      edit.put(content_, end == 0 ? std::string_view::npos : end - 1);
      kept = end;
      any = true;
    });
    if (!any) return;
    edit.keep(kept, whole.size());
    edit.finish();
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class ByteSpelling final : public Normalizer {
 public:
  bool allows_cuts() const override { return false; }  // blanks are none any more
  void apply(TracedText& text, StepMemory&) const override {
    TextEdit edit(text);
    const std::string_view whole = edit.source();
    for (std::size_t at = 0; at < whole.size(); ++at)
      edit.put(std::string_view(alphabet_[static_cast<unsigned char>(whole[at])]), at);
    edit.finish();
  }

 private:
  std::array<std::string, 256> alphabet_ = gpt2_byte_alphabet();
};

}  // namespace

std::unique_ptr<Normalizer> make_bert_normalizer(const Characters& characters, const BertOptions& options) {
  return std::make_unique<BertNormalizer>(characters, options);
}
std::unique_ptr<Normalizer> make_form_normalizer(const Characters& characters, NormalForm form) {
  return std::make_unique<FormNormalizer>(characters, form);
}
std::unique_ptr<Normalizer> make_lowercase(const Characters& characters) {
  return std::make_unique<Lowercase>(characters);
}
std::unique_ptr<Normalizer> make_strip(const Characters& characters, bool left, bool right) {
  return std::make_unique<Strip>(characters, left, right);
}
std::unique_ptr<Normalizer> make_strip_accents(const Characters& characters) {
  return std::make_unique<StripAccents>(characters);
}
std::unique_ptr<Normalizer> make_nmt() { return std::make_unique<Nmt>(); }
std::unique_ptr<Normalizer> make_prepend(const std::string& text) { return std::make_unique<Prepend>(text); }
std::unique_ptr<Normalizer> make_replace(Pattern pattern, const std::string& content) {
  return std::make_unique<Replace>(std::move(pattern), content);
}
std::unique_ptr<Normalizer> make_byte_spelling() { return std::make_unique<ByteSpelling>(); }

}  // namespace recollect
