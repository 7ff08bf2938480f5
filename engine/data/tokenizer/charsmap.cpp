// SentencePiece's table of characters: a trie in one array, whose leaves are places in a text of replacements that end
// with a zero byte. As Hugging Face has it, the first that fits the beginning of a short grapheme stands for all of it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "engine/core/error.h"
#include "engine/data/tokenizer/normalizer.h"

namespace recollect {
namespace {

class Charsmap final : public Normalizer {
 public:
  Charsmap(const Characters& characters, const std::string& bytes, const std::string& where)
      : where_(where), graphemes_(Regex::graphemes(characters)) {
    uint32_t size = 0;
    if (bytes.size() >= sizeof(size)) std::memcpy(&size, bytes.data(), sizeof(size));
    if (bytes.size() < sizeof(size) || size < sizeof(uint32_t) || size > bytes.size() - sizeof(size))
      damaged("its length says another size");
    units_.resize(size / sizeof(uint32_t));
    std::memcpy(units_.data(), bytes.data() + sizeof(size), units_.size() * sizeof(uint32_t));
    replacements_ = bytes.substr(sizeof(size) + units_.size() * sizeof(uint32_t));
    if (first_invalid_utf8(replacements_) != std::string_view::npos) damaged("a replacement is not UTF-8");
    for (std::size_t c = 0; c < ascii_.size(); ++c) ascii_[c] = find(std::string(1, static_cast<char>(c)));
  }

  // A blank stays one, alone and before anything that is no mark.
  bool allows_cuts() const override { return !ascii_[' '] || *ascii_[' '] == " "; }

  void apply(TracedText& text, StepMemory& memory) const override {
    const std::string_view whole = text.bytes, shown = graphemes_.prepare(whole, memory.regex);
    Writer writer(text);
    for (std::size_t at = 0; at < whole.size();) {
      if (is_ascii(whole[at]) && (at + 1 == whole.size() || is_ascii(whole[at + 1])) &&
          !whole.substr(at).starts_with("\r\n")) {
        writer.put(whole.substr(at, 1), ascii_[static_cast<unsigned char>(whole[at])]);
        ++at;
        continue;
      }
      const std::size_t end =
          std::max(graphemes_.end_of_match(shown, at, memory.regex), at + utf8_length(whole[at]));
      put_grapheme(whole.substr(at, end - at), writer);
      at = end;
    }
    writer.finish();
  }

 private:
  // What replaces what, and, where the text is traced, which characters take the place of which.
  class Writer {
   public:
    explicit Writer(TracedText& text) : text_(text), edit_(text) {}
    void put(std::string_view part, const std::optional<std::string_view>& replacement) {
      changed_ |= replacement.has_value();
      const std::string_view written = replacement.value_or(part);
      if (!text_.traced) return edit_.put(written, 0);
      const auto before = static_cast<int32_t>(count_points(part));
      int32_t count = 0;
      for (std::size_t at = 0; at < written.size(); ++count)
        changes_.emplace_back(decode_utf8(written, at), 0);
      for (int32_t i = 0; i < count - before; ++i)
        changes_[changes_.size() - 1 - static_cast<std::size_t>(i)].second = 1;
      if (count < before && !changes_.empty()) changes_.back().second += count - before;
    }
    void finish() {
      if (!changed_) return;
      Transformation to(edit_, 0);
      for (const auto& [point, change] : changes_) to.put(point, change);
      edit_.finish();
    }

   private:
    TracedText& text_;
    TextEdit edit_;
    std::vector<std::pair<uint32_t, int32_t>> changes_;
    bool changed_ = false;
  };

  void put_grapheme(std::string_view grapheme, Writer& writer) const {
    constexpr std::size_t kShort = 6;
    if (grapheme.size() < kShort)
      if (const auto replacement = find(grapheme)) return writer.put(grapheme, replacement);
    for (std::size_t at = 0; at < grapheme.size();) {
      const std::string_view one = grapheme.substr(at, utf8_length(grapheme[at]));
      writer.put(one, find(one));
      at += one.size();
    }
  }

  uint32_t unit(std::size_t node) const {
    if (node >= units_.size()) damaged("a node is none of its own");
    return units_[node];
  }
  static std::size_t offset(uint32_t unit) { return std::size_t{unit >> 10} << ((unit & (1u << 9)) >> 6); }

  // Of the shortest entry that the text begins with.
  std::optional<std::string_view> find(std::string_view text) const {
    constexpr uint32_t kLeaf = 1u << 8, kLabel = (1u << 31) | 0xff, kValue = (1u << 31) - 1;
    std::size_t node = offset(unit(0));
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) break;
      node ^= byte;
      const uint32_t here = unit(node);
      if ((here & kLabel) != byte) break;
      node ^= offset(here);
      if (!(here & kLeaf)) continue;
      const std::size_t begin = unit(node) & kValue;
      if (begin > replacements_.size() ||
          (begin < replacements_.size() && continues_utf8(replacements_[begin])))
        damaged("a replacement is none of its own");
      const std::string_view rest = std::string_view(replacements_).substr(begin);
      return rest.substr(0, rest.find('\0'));
    }
    return std::nullopt;
  }

  [[noreturn]] void damaged(const char* what) const {
    throw Error(ExitCode::kInput, fmt::format("{} is damaged: {}", where_, what));
  }

  std::string where_;
  Regex graphemes_;
  std::vector<uint32_t> units_;
  std::string replacements_;
  std::array<std::optional<std::string_view>, 128> ascii_;
};

}  // namespace

std::unique_ptr<Normalizer> make_charsmap(const Characters& characters, const std::string& bytes,
                                          const std::string& where) {
  return std::make_unique<Charsmap>(characters, bytes, where);
}

}  // namespace recollect
