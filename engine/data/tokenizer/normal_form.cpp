// Only what is not stable is decomposed and put in order: the run of such characters, and, where they may be composed,
// the stable character before it.
#include "engine/data/tokenizer/normal_form.h"

#include <optional>
#include <vector>

namespace recollect {
namespace {

struct Part {
  uint32_t point, combining_class;
  int32_t change;
};

class FormWriter {
 public:
  FormWriter(const Characters& characters, NormalForm form)
      : characters_(characters),
        compatible_(form == NormalForm::kNfkc || form == NormalForm::kNfkd),
        composed_(form == NormalForm::kNfc || form == NormalForm::kNfkc) {}

  bool composes() const { return composed_; }

  void write(TextEdit& edit, std::size_t begin, std::size_t end) {
    decompose(edit.source().substr(0, end), begin);
    if (composed_) compose();
    Transformation to(edit, begin);
    for (const Part& part : parts_) to.put(part.point, part.change);
  }

 private:
  void decompose(std::string_view text, std::size_t at) {
    parts_.clear();
    std::size_t marks = 0;  // the first of those that are still to be put in order
    const auto in_order = [&] {
      std::stable_sort(parts_.begin() + static_cast<std::ptrdiff_t>(marks), parts_.end(),
                       [](const Part& a, const Part& b) { return a.combining_class < b.combining_class; });
      marks = parts_.size();
    };
    while (at < text.size()) {
      points_.clear();
      characters_.decompose(decode_utf8(text, at), compatible_, points_);
      for (std::size_t i = 0; i < points_.size(); ++i) {
        const uint32_t combining = characters_.combining_class(points_[i]);
        if (combining == 0) in_order();
        parts_.push_back({points_[i], combining, i == 0 ? 0 : 1});
        if (combining == 0) marks = parts_.size();
      }
    }
    in_order();
  }

  // A part that is composed with an earlier one gives its place to it.
  void compose() {
    std::size_t kept = 0;
    std::optional<std::size_t> base;  // the place of the last starter
    uint32_t last_class = 0;          // of the last mark behind it
    for (const Part part : parts_) {
      const bool blocked = last_class != 0 && last_class >= part.combining_class;
      const uint32_t composed = base && !blocked ? characters_.compose(parts_[*base].point, part.point) : 0;
      if (composed != 0) {
        parts_[*base].point = composed;
        parts_[*base].change += part.change - 1;
        continue;
      }
      if (part.combining_class == 0) {
        base = kept;
        last_class = 0;
      } else if (base) {
        last_class = part.combining_class;
      }
      parts_[kept++] = part;
    }
    parts_.resize(kept);
  }

  const Characters& characters_;
  bool compatible_, composed_;
  std::vector<Part> parts_;
  std::vector<uint32_t> points_;
};

}  // namespace

void apply_normal_form(const Characters& characters, NormalForm form, TracedText& text) {
  const std::string_view whole = text.bytes;
  FormWriter writer(characters, form);
  std::optional<TextEdit> edit;
  std::size_t kept = 0, before = 0;  // `before`: where the last stable character begins
  for (std::size_t at = 0; at < whole.size();) {
    if (is_ascii(whole[at])) {
      at = first_foreign(whole, at);
      before = at - 1;
      continue;
    }
    std::size_t end = at;
    if (characters.is_stable(decode_utf8(whole, end), form)) {
      before = at;
      at = end;
      continue;
    }
    const std::size_t begin = writer.composes() && at > kept ? before : at;
    for (std::size_t next = end; next < whole.size(); end = next)
      if (characters.is_stable(decode_utf8(whole, next), form)) break;
    if (!edit) edit.emplace(text);
    edit->keep(kept, begin);
    writer.write(*edit, begin, end);
    kept = at = end;
  }
  if (!edit) return;
  edit->keep(kept, whole.size());
  edit->finish();
}

}  // namespace recollect
