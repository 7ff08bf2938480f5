// A text on its way through normalization. Where it is traced, every byte knows the code points of the original text
// that it stands for, as Hugging Face's NormalizedString has them. An edit reads the text once, from its beginning to
// its end, and writes it anew.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/data/tokenizer/unicode.h"

namespace recollect {

struct TextSpan {
  uint32_t begin = 0, end = 0;
};

struct TracedText {
  std::string bytes;
  std::vector<TextSpan> spans;  // of every byte, where traced
  bool traced = false;
  uint32_t base = 0;        // the code point of the original text that this one begins with
  bool continues = false;   // the text goes on from one that was encoded before
  std::string other_bytes;  // what an edit writes
  std::vector<TextSpan> other_spans;

  void assign(std::string_view text, uint32_t first_point, bool trace) {
    bytes.assign(text);
    traced = trace;
    base = first_point;
    spans.clear();
    if (trace) append_spans(text, first_point, spans);
  }
  static void append_spans(std::string_view text, uint32_t point, std::vector<TextSpan>& to) {
    for (std::size_t at = 0; at < text.size(); ++point) {
      const std::size_t length = utf8_length(text[at]);
      to.insert(to.end(), length, TextSpan{point, point + 1});
      at += length;
    }
  }
};

class TextEdit {
 public:
  explicit TextEdit(TracedText& text) : text_(text) {
    text_.other_bytes.clear();
    text_.other_spans.clear();
  }

  std::string_view source() const { return text_.bytes; }

  // Bytes that stay as they are.
  void keep(std::size_t begin, std::size_t end) {
    text_.other_bytes.append(text_.bytes, begin, end - begin);
    if (text_.traced)
      text_.other_spans.insert(text_.other_spans.end(),
                               text_.spans.begin() + static_cast<std::ptrdiff_t>(begin),
                               text_.spans.begin() + static_cast<std::ptrdiff_t>(end));
  }
  // Stands for what the byte at `like` stands for; for nothing, at the text's beginning, where there is none.
  void put(std::string_view bytes, std::size_t like) {
    text_.other_bytes += bytes;
    if (text_.traced)
      text_.other_spans.insert(
          text_.other_spans.end(), bytes.size(),
          like < text_.spans.size() ? text_.spans[like] : TextSpan{text_.base, text_.base});
  }
  void put(uint32_t point, std::size_t like) {
    char_.clear();
    append_utf8(point, char_);
    put(std::string_view(char_), like);
  }
  void finish() {
    text_.bytes.swap(text_.other_bytes);
    text_.spans.swap(text_.other_spans);
  }

 private:
  TracedText& text_;
  std::string char_;
};

// What Hugging Face calls a transformation of part of a text: characters, each of which takes the place of the next
// one (0), is put behind the last one taken (1), or takes the place of several (-n: of n more).
class Transformation {
 public:
  Transformation(TextEdit& edit, std::size_t from) : edit_(edit), at_(from) {}

  void put(uint32_t point, int32_t change) {
    if (change > 0) return edit_.put(point, at_ == 0 ? std::string_view::npos : at_ - 1);
    edit_.put(point, std::min(at_, edit_.source().size() - 1));
    for (int32_t taken = change; taken <= 0 && at_ < edit_.source().size(); ++taken)
      at_ += utf8_length(edit_.source()[at_]);
  }

 private:
  TextEdit& edit_;
  std::size_t at_;
};

}  // namespace recollect
