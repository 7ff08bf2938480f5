// Until no merge applies, the most important one is carried out, the leftmost first. Short words search for
// it, long ones keep a heap; both give the same.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <unordered_map>

#include "engine/core/error.h"
#include "engine/data/tokenizer/pair_map.h"
#include "engine/data/tokenizer/token_trie.h"
#include "engine/data/tokenizer/unicode.h"
#include "engine/data/tokenizer/word_encoder.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

constexpr uint32_t kNoRank = UINT32_MAX;

class Bpe final : public WordEncoder {
 public:
  Bpe(const Vocabulary& vocabulary, const Merges& merges, const std::string& source,
      const BpeOptions& options)
      : options_(options) {
    if (options.unknown) unknown_ = vocabulary.at(*options.unknown, "model.unk_token");
    read_characters(vocabulary);
    if (options.byte_fallback)
      for (std::size_t byte = 0; byte < fallback_.size(); ++byte)
        fallback_[byte] = vocabulary.find(spelled_byte(static_cast<uint8_t>(byte)));
    if (options.whole_words_first)
      vocabulary.for_each([&](const std::string& token, uint32_t id) {
        if (const auto bytes = options.takes_bytes ? bytes_of_gpt2_spelling(token) : token)
          words_.add(*bytes, id);
      });
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const auto& [left, right] = merges[rank];
      const std::string name = fmt::format("merge {}", rank + 1);
      if (!right.starts_with(options.prefix))
        throw Error(ExitCode::kInput, fmt::format("{}: {}: {} does not begin with {}", source, name,
                                                  escaped_name(right), escaped_name(options.prefix)));
      const std::string whole = left + right.substr(options.prefix.size());
      const PairMap::Entry entry{vocabulary.at(left, name), vocabulary.at(right, name),
                                 static_cast<uint32_t>(rank), vocabulary.at(whole, name)};
      if (const auto [had, fresh] = merges_.insert(entry); !fresh)
        throw Error(ExitCode::kInput,
                    fmt::format("{}: merges {} and {} are the same, {} and {}", source, had->a + 1, rank + 1,
                                escaped_name(left), escaped_name(right)));
      crosses_words_ |= crosses_words(whole);
    }
    if (options.whole_words_first)
      for (const std::string& token : vocabulary.tokens()) crosses_words_ |= crosses_words(token);
  }

  void encode(std::string_view word, std::vector<uint32_t>& ids,
              std::vector<ByteRange>* ranges) const override {
    if (options_.whole_words_first)
      if (const uint32_t id = words_.whole(word); id != TokenTrie::kNone) {
        ids.push_back(id);
        if (ranges) ranges->push_back({0, static_cast<uint32_t>(word.size())});
        return;
      }
    if (word.size() <= kShort)
      encode_short(word, ids, ranges);
    else
      encode_long(word, ids, ranges);
  }

  // Where no token has a blank behind something else, no merge goes across such a place.
  bool ends_words_before(std::string_view blank) const override {
    std::size_t at = 0;
    return !options_.takes_bytes && options_.prefix.empty() && options_.suffix.empty() && blank == kBlank &&
           characters_.find(decode_utf8(kBlank, at), kPlain) && !crosses_words_;
  }

 private:
  static constexpr std::size_t kShort = 64;
  static constexpr std::string_view kBlank = "\u2581";  // as SentencePiece spells it
  static constexpr uint32_t kPlain = 0, kContinues = 1,
                            kEnds = 2;  // a character's place in its word: a sum of these

  static bool crosses_words(std::string_view token) {
    while (token.starts_with(kBlank)) token.remove_prefix(kBlank.size());
    return token.find(kBlank) != std::string_view::npos;
  }

  void read_characters(const Vocabulary& vocabulary) {
    if (options_.takes_bytes) {
      const auto alphabet = gpt2_byte_alphabet();
      for (std::size_t byte = 0; byte < 256; ++byte)
        bytes_[byte] = options_.needs_all_bytes
                           ? vocabulary.at(alphabet[byte], fmt::format("byte {:#04x}", byte))
                           : vocabulary.find(alphabet[byte]).value_or(TokenTrie::kNone);
      return;
    }
    const auto one_character = [](std::string_view text) {
      return !text.empty() && utf8_length(text.front()) == text.size();
    };
    const uint32_t ends = options_.suffix.empty() ? kPlain : kEnds;
    const uint32_t continues = options_.prefix.empty() ? kPlain : kContinues;
    vocabulary.for_each([&](const std::string& token, uint32_t id) {
      const std::string_view whole = token;
      for (const uint32_t place : {kPlain, ends, continues, continues | ends}) {
        std::string_view rest = whole;
        if (place & kContinues) {
          if (!rest.starts_with(options_.prefix)) continue;
          rest.remove_prefix(options_.prefix.size());
        }
        if (place & kEnds) {
          if (!rest.ends_with(options_.suffix)) continue;
          rest.remove_suffix(options_.suffix.size());
        }
        std::size_t at = 0;
        if (one_character(rest)) characters_.insert({decode_utf8(rest, at), place, id, 0});
      }
    });
  }

  // Calls put(id, bytes) for what merging begins with. What is not known is put when the next known character comes.
  template <typename F>
  void for_each_symbol(std::string_view word, F put) const {
    uint32_t pending = 0;  // bytes that are not known
    const auto put_pending = [&] {
      if (pending > 0) put(*unknown_, pending);
      pending = 0;
    };
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t begin = at;
      const uint32_t id = options_.takes_bytes ? next_byte(word, at) : next_character(word, at);
      const auto bytes = static_cast<uint32_t>(at - begin);
      if (id != TokenTrie::kNone) {
        put_pending();
        put(id, bytes);
      } else if (falls_back(word.substr(begin, bytes))) {
        for (const char c : word.substr(begin, bytes)) put(*fallback_[static_cast<unsigned char>(c)], 1);
      } else if (unknown_) {
        if (!options_.fuse_unknown) put_pending();
        pending += bytes;
      }
    }
    put_pending();
  }
  uint32_t next_byte(std::string_view word, std::size_t& at) const {
    return bytes_[static_cast<unsigned char>(word[at++])];
  }
  uint32_t next_character(std::string_view word, std::size_t& at) const {
    uint32_t place = at > 0 && !options_.prefix.empty() ? kContinues : kPlain;
    const uint32_t point = decode_utf8(word, at);
    if (at == word.size() && !options_.suffix.empty()) place |= kEnds;
    const PairMap::Entry* found = characters_.find(point, place);
    return found ? found->a : TokenTrie::kNone;
  }
  bool falls_back(std::string_view character) const {
    return options_.byte_fallback && std::all_of(character.begin(), character.end(), [&](char c) {
             return fallback_[static_cast<unsigned char>(c)].has_value();
           });
  }

  void encode_short(std::string_view word, std::vector<uint32_t>& ids, std::vector<ByteRange>* ranges) const {
    std::array<uint32_t, kShort + 1> id, rank, merged, bytes;
    std::size_t count = 0;
    for_each_symbol(word, [&](uint32_t symbol, uint32_t length) {
      id[count] = symbol;
      bytes[count++] = length;
    });
    const auto look_up = [&](std::size_t i) {
      const PairMap::Entry* merge = i + 1 < count ? merges_.find(id[i], id[i + 1]) : nullptr;
      rank[i] = merge ? merge->a : kNoRank;
      merged[i] = merge ? merge->b : 0;
    };
    for (std::size_t i = 0; i < count; ++i) look_up(i);
    while (count > 1) {
      const auto best =
          static_cast<std::size_t>(std::min_element(rank.begin(), rank.begin() + count) - rank.begin());
      if (rank[best] == kNoRank) break;
      id[best] = merged[best];
      bytes[best] += bytes[best + 1];
      --count;
      for (std::size_t i = best + 1; i < count; ++i) {
        id[i] = id[i + 1];
        rank[i] = rank[i + 1];
        merged[i] = merged[i + 1];
        bytes[i] = bytes[i + 1];
      }
      look_up(best);
      if (best > 0) look_up(best - 1);
    }
    ids.insert(ids.end(), id.begin(), id.begin() + count);
    if (!ranges) return;
    for (uint32_t i = 0, at = 0; i < count; at += bytes[i++]) ranges->push_back({at, at + bytes[i]});
  }

  struct Symbol {
    uint32_t id, bytes, rank, merged;  // the latter two of the merge with the next one
    std::size_t previous, next;
  };

  void encode_long(std::string_view word, std::vector<uint32_t>& ids, std::vector<ByteRange>* ranges) const {
    using Candidate = std::pair<uint32_t, std::size_t>;  // rank and place
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    for_each_symbol(word, [&](uint32_t id, uint32_t bytes) {
      const std::size_t i = symbols.size();
      symbols.push_back({id, bytes, kNoRank, 0, i - 1, i + 1});
    });
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
    const std::size_t end = symbols.size();
    const auto look_up = [&](std::size_t i) {
      Symbol& symbol = symbols[i];
      const PairMap::Entry* merge =
          symbol.next < end ? merges_.find(symbol.id, symbols[symbol.next].id) : nullptr;
      symbol.rank = merge ? merge->a : kNoRank;
      symbol.merged = merge ? merge->b : 0;
      if (merge) candidates.emplace(symbol.rank, i);
    };
    for (std::size_t i = 0; i < end; ++i) look_up(i);
    while (!candidates.empty()) {
      const auto [rank, i] = candidates.top();
      candidates.pop();
      Symbol& left = symbols[i];
      if (left.rank != rank) continue;  // its neighbour, or itself, is another one by now
      symbols[left.next].rank = kNoRank;
      left.id = left.merged;
      left.bytes += symbols[left.next].bytes;
      left.next = symbols[left.next].next;
      if (left.next < end) symbols[left.next].previous = i;
      look_up(i);
      if (i > 0) look_up(left.previous);
    }
    uint32_t at = 0;
    for (std::size_t i = 0; i < end; i = symbols[i].next) {
      ids.push_back(symbols[i].id);
      if (ranges) ranges->push_back({at, at + symbols[i].bytes});
      at += symbols[i].bytes;
    }
  }

  BpeOptions options_;
  std::optional<uint32_t> unknown_;
  std::array<uint32_t, 256> bytes_{};
  PairMap characters_;  // (code point, place) -> token
  std::array<std::optional<uint32_t>, 256> fallback_;
  TokenTrie words_;
  PairMap merges_;
  bool crosses_words_ = false;  // a token may have a blank behind something else
};

}  // namespace

std::array<std::string, 256> gpt2_byte_alphabet() {
  std::array<std::string, 256> alphabet;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    append_utf8(prints ? byte : next++, alphabet[byte]);
  }
  return alphabet;
}

std::optional<std::string> bytes_of_gpt2_spelling(std::string_view token) {
  // Those from U+0100 on are the bytes that do not print, in order.
  constexpr uint32_t kShown = 0x100, kFirstRun = 0x21, kGap = 0x7f, kGapEnd = 0xa1, kHyphen = 0xad;
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const uint32_t point = decode_utf8(token, at);
    const bool prints =
        (point >= kFirstRun && point < kGap) || (point >= kGapEnd && point < kShown && point != kHyphen);
    const uint32_t number = point - kShown, of_gap = number - kFirstRun;
    const uint32_t gap = kGapEnd - kGap;
    if (prints)
      bytes += static_cast<char>(point);
    else if (point >= kShown && number < kFirstRun)
      bytes += static_cast<char>(number);
    else if (point >= kShown && of_gap < gap)
      bytes += static_cast<char>(kGap + of_gap);
    else if (point >= kShown && of_gap == gap)
      bytes += static_cast<char>(kHyphen);
    else
      return std::nullopt;
  }
  return bytes;
}

std::unique_ptr<WordEncoder> make_bpe(const Vocabulary& vocabulary, const Merges& merges,
                                      const std::string& source, const BpeOptions& options) {
  return std::make_unique<Bpe>(vocabulary, merges, source, options);
}

}  // namespace recollect
