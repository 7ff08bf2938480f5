#include "engine/data/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <array>

#include "engine/data/tokenizer/split_words.h"
#include "engine/data/tokenizer/word_encoder.h"

namespace recollect {

void Pieces::start(std::string_view text, const TextSpan* spans, uint32_t base) {
  text_ = text;
  spans_ = spans;
  base_ = base;
  pieces_.clear();
  if (!text.empty()) pieces_.push_back({0, static_cast<uint32_t>(text.size())});
}

namespace {

constexpr std::string_view kBlank = " ";

struct Match {
  std::size_t begin, end;
  bool found;  // not what lies between
};

// Joins matches and what lies between them, as the behavior says, and adds what is left.
template <typename Add>
void add_delimited(std::vector<Match>& matches, Delimiter behavior, std::size_t base, Add add) {
  std::size_t count = 0;
  bool previous = false;
  const auto joins = [&](const Match& match) {
    const bool joined =
        behavior == Delimiter::kContiguous ? match.found == previous : match.found && !previous;
    previous = match.found;
    return joined && count > 0;
  };
  switch (behavior) {
    case Delimiter::kRemoved:
      for (const Match& match : matches)
        if (!match.found) add(base + match.begin, base + match.end);
      return;
    case Delimiter::kIsolated:
      count = matches.size();
      break;
    case Delimiter::kContiguous:
    case Delimiter::kMergedWithPrevious:
      for (const Match match : matches) {
        if (joins(match))
          matches[count - 1].end = match.end;
        else
          matches[count++] = match;
      }
      break;
    case Delimiter::kMergedWithNext:
      std::reverse(matches.begin(), matches.end());
      for (const Match match : matches) {
        if (joins(match))
          matches[count - 1].begin = match.begin;
        else
          matches[count++] = match;
      }
      std::reverse(matches.begin(), matches.begin() + static_cast<std::ptrdiff_t>(count));
      break;
  }
  for (std::size_t i = 0; i < count; ++i) add(base + matches[i].begin, base + matches[i].end);
}

// Every character for which is(point) is a match.
template <typename Is>
void split_characters(Pieces& pieces, Delimiter behavior, Is is) {
  std::vector<Match> matches;
  pieces.split([&](const Pieces::Piece& piece, auto add) {
    const std::string_view text = pieces.of(piece);
    matches.clear();
    std::size_t last = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t here = at;
      if (!is(decode_utf8(text, at))) continue;
      if (last < here) matches.push_back({last, here, false});
      matches.push_back({here, at, true});
      last = at;
    }
    if (last < text.size()) matches.push_back({last, text.size(), false});
    add_delimited(matches, behavior, piece.begin, add);
  });
}

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(const Characters& characters, const ByteLevelOptions& options)
      : characters_(characters), options_(options) {}
  AtBlank at_blank(std::string_view blank) const override {
    if (blank != kBlank) return AtBlank::kUnknown;
    return options_.uses_regex ? AtBlank::kEndsWord : AtBlank::kNothing;
  }
  bool ends_at_line() const override { return options_.uses_regex && !options_.prefix_space; }

  void apply(Pieces& pieces, StepMemory&) const override {
    const auto lacks_blank = [&](const Pieces::Piece& piece) { return pieces.text()[piece.begin] != ' '; };
    if (options_.prefix_space && std::any_of(pieces.all().begin(), pieces.all().end(), lacks_blank))
      pieces.rewrite([&](const Pieces::Piece& piece, TextEdit& edit) {
        if (edit.source()[piece.begin] != ' ') edit.put(" ", piece.begin);
        edit.keep(piece.begin, piece.end);
      });
    if (options_.uses_regex)
      pieces.split([&](const Pieces::Piece& piece, auto add) {
        const std::string_view text = pieces.of(piece);
        for (std::size_t at = 0; at < text.size();) {
          const std::size_t end = gpt2_word_end(characters_, text, at);
          add(piece.begin + at, piece.begin + end);
          at = end;
        }
      });
    if (options_.spells_bytes)
      pieces.rewrite([&](const Pieces::Piece& piece, TextEdit& edit) {
        for (std::size_t at = piece.begin; at < piece.end; ++at)
          edit.put(std::string_view(alphabet_[static_cast<unsigned char>(edit.source()[at])]), at);
      });
  }

 private:
  const Characters& characters_;
  ByteLevelOptions options_;
  std::array<std::string, 256> alphabet_ = gpt2_byte_alphabet();
};

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(const std::string& replacement, PrependScheme scheme, bool splits)
      : replacement_(replacement), scheme_(scheme), splits_(splits) {}
  AtBlank at_blank(std::string_view blank) const override {
    if (blank != kBlank) return AtBlank::kUnknown;
    return splits_ ? AtBlank::kEndsWord : AtBlank::kNothing;
  }
  std::string blank_after(std::string_view) const override { return replacement_; }
  bool needs_origins() const override { return scheme_ == PrependScheme::kFirst; }

  void apply(Pieces& pieces, StepMemory&) const override {
    pieces.rewrite([&](const Pieces::Piece& piece, TextEdit& edit) {
      const std::string_view text = edit.source().substr(0, piece.end);
      const std::string_view begin = text.substr(piece.begin);
      const bool wanted = scheme_ == PrependScheme::kAlways ||
                          (scheme_ == PrependScheme::kFirst && pieces.begins_original(piece));
      if (wanted && !begin.starts_with(replacement_) && !begin.starts_with(' '))
        edit.put(replacement_, piece.begin);
      std::size_t kept = piece.begin;
      for (std::size_t at = kept; (at = text.find(' ', at)) != std::string_view::npos; kept = ++at) {
        edit.keep(kept, at);
        edit.put(replacement_, at);
      }
      edit.keep(kept, piece.end);
    });
    if (!splits_) return;
    std::vector<Match> matches;
    pieces.split([&](const Pieces::Piece& piece, auto add) {
      const std::string_view text = pieces.of(piece);
      matches.clear();
      std::size_t last = 0;
      for (std::size_t at = 0; (at = text.find(replacement_, at)) != std::string_view::npos; last = at) {
        if (last < at) matches.push_back({last, at, false});
        matches.push_back({at, at + replacement_.size(), true});
        at += replacement_.size();
      }
      if (last < text.size()) matches.push_back({last, text.size(), false});
      add_delimited(matches, Delimiter::kMergedWithNext, piece.begin, add);
    });
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool splits_;
};

// Expressions of well-known tokenizers, which end a word before a blank and before a line break behind a letter.
constexpr std::array<std::string_view, 9> kKnownPatterns{
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}};
// Those that match neither blanks nor what lies beside them.
constexpr std::array<std::string_view, 6> kDigitPatterns{
    {R"(\p{N}{1,3})", R"(\p{N})", R"(\d)", R"(\d{1,3})", "[0-9][0-9][0-9]", "[一-龥぀-ゟ゠-ヿ]+"}};

class SplitByPattern final : public PreTokenizer {
 public:
  SplitByPattern(Pattern pattern, Delimiter behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {
    const auto is_one = [&](const auto& list) {
      return !pattern_.is_literal() && std::find(list.begin(), list.end(), pattern_.text()) != list.end();
    };
    const bool keeps = behavior == Delimiter::kIsolated || behavior == Delimiter::kRemoved;
    known_ = is_one(kKnownPatterns) &&
             (behavior == Delimiter::kIsolated || (behavior == Delimiter::kRemoved && invert));
    digits_ = is_one(kDigitPatterns) && keeps && !invert;
    blank_ = pattern_.is_literal() && pattern_.text() == " " && !invert &&
             (keeps || behavior == Delimiter::kMergedWithNext);
  }
  AtBlank at_blank(std::string_view blank) const override {
    if (blank == kBlank && (known_ || blank_)) return AtBlank::kEndsWord;
    const bool elsewhere = pattern_.is_literal() && pattern_.text().find(blank) == std::string::npos &&
                           blank.find(pattern_.text()) == std::string::npos;
    return (digits_ && blank == kBlank) || elsewhere ? AtBlank::kNothing : AtBlank::kUnknown;
  }
  bool ends_at_line() const override { return known_; }

  void apply(Pieces& pieces, StepMemory& memory) const override {
    const std::string_view whole = pattern_.prepare(pieces.text(), memory.regex);
    if (behavior_ == Delimiter::kIsolated) return isolate(pieces, whole, memory);
    std::vector<Match> matches;
    pieces.split([&](const Pieces::Piece& piece, auto add) {
      const std::string_view text = whole.substr(piece.begin, piece.end - piece.begin);
      matches.clear();
      std::size_t last = 0;
      pattern_.for_each_match_prepared(text, memory.regex, [&](std::size_t begin, std::size_t end) {
        if (last != begin) matches.push_back({last, begin, invert_});
        matches.push_back({begin, end, !invert_});
        last = end;
      });
      if (last != text.size()) matches.push_back({last, text.size(), invert_});
      add_delimited(matches, behavior_, piece.begin, add);
    });
  }

 private:
  void isolate(Pieces& pieces, std::string_view whole, StepMemory& memory) const {
    pieces.split([&](const Pieces::Piece& piece, auto add) {
      std::size_t last = piece.begin;
      pattern_.for_each_match_prepared(whole.substr(piece.begin, piece.end - piece.begin), memory.regex,
                                       [&](std::size_t begin, std::size_t end) {
                                         add(last, piece.begin + begin);
                                         add(piece.begin + begin, piece.begin + end);
                                         last = piece.begin + end;
                                       });
      add(last, piece.end);
    });
  }

  Pattern pattern_;
  Delimiter behavior_;
  bool invert_;
  bool known_ = false, digits_ = false, blank_ = false;
};

class CharDelimiter final : public PreTokenizer {
 public:
  explicit CharDelimiter(const std::string& delimiter) {
    std::size_t at = 0;
    delimiter_ = decode_utf8(delimiter, at);
  }
  AtBlank at_blank(std::string_view blank) const override {
    if (blank != kBlank) return AtBlank::kUnknown;
    return delimiter_ == ' ' ? AtBlank::kEndsWord : AtBlank::kNothing;
  }
  void apply(Pieces& pieces, StepMemory&) const override {
    split_characters(pieces, Delimiter::kRemoved, [&](uint32_t point) { return point == delimiter_; });
  }

 private:
  uint32_t delimiter_;
};

class BertWords final : public PreTokenizer {
 public:
  explicit BertWords(const Characters& characters) : characters_(characters) {}
  AtBlank at_blank(std::string_view blank) const override {
    return blank == kBlank ? AtBlank::kEndsWord : AtBlank::kUnknown;
  }
  bool ends_at_line() const override { return true; }
  // Words lie between blanks, and a character of punctuation is one.
  void apply(Pieces& pieces, StepMemory&) const override {
    pieces.split([&](const Pieces::Piece& piece, auto add) {
      const std::string_view text = pieces.text().substr(0, piece.end);
      std::size_t begin = piece.begin;
      for (std::size_t at = begin; at < text.size();) {
        const std::size_t here = at;
        const uint32_t point = decode_utf8(text, at);
        const bool punctuation = characters_.is_punctuation(point);
        if (!punctuation && !characters_.is_white(point)) continue;
        add(begin, here);
        if (punctuation) add(here, at);
        begin = at;
      }
      add(begin, text.size());
    });
  }

 private:
  const Characters& characters_;
};

// Runs of word characters, and runs of what is neither that nor blank.
class Whitespace final : public PreTokenizer {
 public:
  explicit Whitespace(const Characters& characters) : characters_(characters) {}
  AtBlank at_blank(std::string_view blank) const override {
    return blank == kBlank ? AtBlank::kEndsWord : AtBlank::kUnknown;
  }
  bool ends_at_line() const override { return true; }
  void apply(Pieces& pieces, StepMemory&) const override {
    enum { kNone, kWord, kOther };
    pieces.split([&](const Pieces::Piece& piece, auto add) {
      const std::string_view text = pieces.text().substr(0, piece.end);
      std::size_t begin = piece.begin;
      auto kind = kNone;
      for (std::size_t at = begin; at < text.size();) {
        const std::size_t here = at;
        const uint32_t point = decode_utf8(text, at);
        const auto next = characters_.is_word(point) ? kWord : characters_.is_white(point) ? kNone : kOther;
        if (next == kind) continue;
        if (kind != kNone) add(begin, here);
        begin = here;
        kind = next;
      }
      if (kind != kNone) add(begin, text.size());
    });
  }

 private:
  const Characters& characters_;
};

class WhitespaceSplit final : public PreTokenizer {
 public:
  explicit WhitespaceSplit(const Characters& characters) : characters_(characters) {}
  AtBlank at_blank(std::string_view blank) const override {
    return blank == kBlank ? AtBlank::kEndsWord : AtBlank::kUnknown;
  }
  bool ends_at_line() const override { return true; }
  void apply(Pieces& pieces, StepMemory&) const override {
    split_characters(pieces, Delimiter::kRemoved,
                     [&](uint32_t point) { return characters_.is_white(point); });
  }

 private:
  const Characters& characters_;
};

class Digits final : public PreTokenizer {
 public:
  Digits(const Characters& characters, bool individual) : characters_(characters), individual_(individual) {}
  AtBlank at_blank(std::string_view blank) const override {
    return blank == kBlank ? AtBlank::kNothing : AtBlank::kUnknown;
  }
  void apply(Pieces& pieces, StepMemory&) const override {
    split_characters(pieces, individual_ ? Delimiter::kIsolated : Delimiter::kContiguous,
                     [&](uint32_t point) { return characters_.is_numeric(point); });
  }

 private:
  const Characters& characters_;
  bool individual_;
};

class Punctuation final : public PreTokenizer {
 public:
  Punctuation(const Characters& characters, Delimiter behavior)
      : characters_(characters), behavior_(behavior) {}
  AtBlank at_blank(std::string_view blank) const override {
    return blank == kBlank ? AtBlank::kNothing : AtBlank::kUnknown;
  }
  void apply(Pieces& pieces, StepMemory&) const override {
    split_characters(pieces, behavior_, [&](uint32_t point) { return characters_.is_punctuation(point); });
  }

 private:
  const Characters& characters_;
  Delimiter behavior_;
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(std::size_t characters) : characters_(characters) {}
  AtBlank at_blank(std::string_view) const override { return AtBlank::kUnknown; }
  void apply(Pieces& pieces, StepMemory&) const override {
    pieces.split([&](const Pieces::Piece& piece, auto add) {
      std::size_t begin = piece.begin, count = 0;
      for (std::size_t at = begin; at < piece.end;) {
        at += utf8_length(pieces.text()[at]);
        if (++count % characters_ != 0 && at < piece.end) continue;
        add(begin, at);
        begin = at;
      }
    });
  }

 private:
  std::size_t characters_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_byte_level(const Characters& characters, const ByteLevelOptions& options) {
  return std::make_unique<ByteLevel>(characters, options);
}
std::unique_ptr<PreTokenizer> make_metaspace(const std::string& replacement, PrependScheme scheme,
                                             bool splits) {
  return std::make_unique<Metaspace>(replacement, scheme, splits);
}
std::unique_ptr<PreTokenizer> make_split(Pattern pattern, Delimiter behavior, bool invert) {
  return std::make_unique<SplitByPattern>(std::move(pattern), behavior, invert);
}
std::unique_ptr<PreTokenizer> make_char_delimiter(const std::string& delimiter) {
  return std::make_unique<CharDelimiter>(delimiter);
}
std::unique_ptr<PreTokenizer> make_bert_words(const Characters& characters) {
  return std::make_unique<BertWords>(characters);
}
std::unique_ptr<PreTokenizer> make_whitespace(const Characters& characters) {
  return std::make_unique<Whitespace>(characters);
}
std::unique_ptr<PreTokenizer> make_whitespace_split(const Characters& characters) {
  return std::make_unique<WhitespaceSplit>(characters);
}
std::unique_ptr<PreTokenizer> make_digits(const Characters& characters, bool individual) {
  return std::make_unique<Digits>(characters, individual);
}
std::unique_ptr<PreTokenizer> make_punctuation(const Characters& characters, Delimiter behavior) {
  return std::make_unique<Punctuation>(characters, behavior);
}
std::unique_ptr<PreTokenizer> make_fixed_length(std::size_t characters) {
  return std::make_unique<FixedLength>(characters);
}

}  // namespace recollect
