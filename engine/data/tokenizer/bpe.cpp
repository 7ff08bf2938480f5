// Until no merge applies, the most important one is carried out, the leftmost first. Short words search for
// it, long ones keep a heap; both give the same.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <queue>

#include "engine/core/error.h"
#include "engine/data/tokenizer/pair_map.h"
#include "engine/data/tokenizer/unicode.h"
#include "engine/data/tokenizer/word_encoder.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

constexpr uint32_t kNoRank = UINT32_MAX;

class Bpe : public WordEncoder {
 public:
  Bpe(const Vocabulary& vocabulary, const Merges& merges, const std::string& source) {
    const auto alphabet = gpt2_byte_alphabet();
    for (std::size_t byte = 0; byte < 256; ++byte)
      bytes_[byte] = vocabulary.at(alphabet[byte], fmt::format("byte {:#04x}", byte));
    for (const std::string& token : vocabulary.tokens())
      lengths_.push_back(static_cast<uint32_t>(count_points(token)));
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const auto& [left, right] = merges[rank];
      const std::string name = fmt::format("merge {}", rank + 1);
      const PairMap::Entry entry{vocabulary.at(left, name), vocabulary.at(right, name),
                                 static_cast<uint32_t>(rank), vocabulary.at(left + right, name)};
      if (const auto [had, fresh] = merges_.insert(entry); !fresh)
        throw Error(ExitCode::kInput,
                    fmt::format("{}: merges {} and {} are the same, {} and {}", source, had->a + 1, rank + 1,
                                escaped_name(left), escaped_name(right)));
    }
  }

  void encode(std::string_view word, std::vector<uint32_t>& ids) const override {
    if (word.size() <= kShort)
      encode_short(word, ids);
    else
      encode_long(word, ids);
  }
  std::size_t bytes_of(uint32_t id, bool) const override { return lengths_[id]; }

 private:
  static constexpr std::size_t kShort = 64;

  uint32_t byte_id(char c) const { return bytes_[static_cast<unsigned char>(c)]; }

  void encode_short(std::string_view word, std::vector<uint32_t>& ids) const {
    std::array<uint32_t, kShort + 1> id, rank, merged;
    std::size_t count = word.size();
    const auto look_up = [&](std::size_t i) {
      const PairMap::Entry* merge = i + 1 < count ? merges_.find(id[i], id[i + 1]) : nullptr;
      rank[i] = merge ? merge->a : kNoRank;
      merged[i] = merge ? merge->b : 0;
    };
    for (std::size_t i = 0; i < count; ++i) id[i] = byte_id(word[i]);
    for (std::size_t i = 0; i < count; ++i) look_up(i);
    while (count > 1) {
      const auto best =
          static_cast<std::size_t>(std::min_element(rank.begin(), rank.begin() + count) - rank.begin());
      if (rank[best] == kNoRank) break;
      id[best] = merged[best];
      --count;
      for (std::size_t i = best + 1; i < count; ++i) {
        id[i] = id[i + 1];
        rank[i] = rank[i + 1];
        merged[i] = merged[i + 1];
      }
      look_up(best);
      if (best > 0) look_up(best - 1);
    }
    ids.insert(ids.end(), id.begin(), id.begin() + count);
  }

  struct Symbol {
    uint32_t id, rank, merged;  // the latter two of the merge with the next one
    std::size_t previous, next;
  };

  void encode_long(std::string_view word, std::vector<uint32_t>& ids) const {
    using Candidate = std::pair<uint32_t, std::size_t>;  // rank and place
    std::vector<Symbol> symbols(word.size());
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
    for (std::size_t i = 0; i < end; ++i) symbols[i] = {byte_id(word[i]), kNoRank, 0, i - 1, i + 1};
    for (std::size_t i = 0; i < end; ++i) look_up(i);
    while (!candidates.empty()) {
      const auto [rank, i] = candidates.top();
      candidates.pop();
      Symbol& left = symbols[i];
      if (left.rank != rank) continue;  // its neighbour, or itself, is another one by now
      symbols[left.next].rank = kNoRank;
      left.id = left.merged;
      left.next = symbols[left.next].next;
      if (left.next < end) symbols[left.next].previous = i;
      look_up(i);
      if (i > 0) look_up(left.previous);
    }
    for (std::size_t i = 0; i < end; i = symbols[i].next) ids.push_back(symbols[i].id);
  }

  std::array<uint32_t, 256> bytes_;
  std::vector<uint32_t> lengths_;  // of every token: a character of its spelling is a byte
  PairMap merges_;
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

std::unique_ptr<WordEncoder> make_bpe(const Vocabulary& vocabulary, const Merges& merges,
                                      const std::string& source) {
  return std::make_unique<Bpe>(vocabulary, merges, source);
}

}  // namespace recollect
