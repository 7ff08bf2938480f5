// Viterbi's algorithm: the best way to every place of a word, from its beginning to its end. Sums are made in the order
// in which Hugging Face's Unigram makes them, and of two equal ones the first that is found stays.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/core/error.h"
#include "engine/data/tokenizer/token_trie.h"
#include "engine/data/tokenizer/unicode.h"
#include "engine/data/tokenizer/word_encoder.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

constexpr double kUnknownPenalty = 10;

class Unigram final : public WordEncoder {
 public:
  Unigram(const Vocabulary& vocabulary, const std::vector<double>& scores, const std::string& source,
          const UnigramOptions& options)
      : source_(source), scores_(scores), unknown_(options.unknown) {
    vocabulary.for_each([&](const std::string& token, uint32_t id) { tokens_.add(token, id); });
    unknown_score_ = *std::min_element(scores.begin(), scores.end()) - kUnknownPenalty;
    if (!options.byte_fallback) return;
    for (std::size_t byte = 0; byte < bytes_.size(); ++byte)
      bytes_[byte] = vocabulary.find(spelled_byte(static_cast<uint8_t>(byte)));
  }

  void encode(std::string_view word, std::vector<uint32_t>& ids,
              std::vector<ByteRange>* ranges) const override {
    std::vector<Best> best = search(word);
    std::vector<Part> parts;  // the last one first
    for (std::size_t end = word.size(); end > 0;) {
      const Best& here = best[end];
      const bool unknown = here.id == unknown_;
      if (unknown && !parts.empty() && parts.back().unknown)
        parts.back().begin = here.begin;
      else
        parts.push_back({here.begin, static_cast<uint32_t>(end), here.id, unknown});
      end = here.begin;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) append(word, *part, ids, ranges);
  }

 private:
  struct Best {
    double score = 0;
    uint32_t begin = 0, id = 0;
    bool reached = false;
  };
  struct Part {
    uint32_t begin, end, id;
    bool unknown;
  };

  std::vector<Best> search(std::string_view word) const {
    std::vector<Best> best(word.size() + 1);
    for (std::size_t at = 0; at < word.size();) {
      const double before = best[at].score;
      const std::size_t length = utf8_length(word[at]);
      bool alone = false;  // the character is a token
      const auto reach = [&](std::size_t bytes, double score, uint32_t id) {
        Best& there = best[at + bytes];
        if (there.reached && !(score + before > there.score)) return;
        there = {score + before, static_cast<uint32_t>(at), id, true};
      };
      tokens_.for_each_prefix(word.substr(at), [&](uint32_t id, std::size_t bytes) {
        reach(bytes, scores_[id], id);
        alone |= bytes == length;
      });
      if (!alone) {
        if (!unknown_)
          throw Error(ExitCode::kInput,
                      fmt::format("{}: {} is in no token, and model.unk_id names no token for such", source_,
                                  escaped_name(word.substr(at, length))));
        reach(length, unknown_score_, *unknown_);
      }
      at += length;
    }
    return best;
  }

  void append(std::string_view word, const Part& part, std::vector<uint32_t>& ids,
              std::vector<ByteRange>* ranges) const {
    const std::string_view text = word.substr(part.begin, part.end - part.begin);
    const auto put = [&](uint32_t id) {
      ids.push_back(id);
      if (ranges) ranges->push_back({part.begin, part.end});
    };
    if (!part.unknown) return put(part.id);
    if (const uint32_t id = tokens_.whole(text); id != TokenTrie::kNone) return put(id);
    const auto has_token = [&](char c) { return bytes_[static_cast<unsigned char>(c)].has_value(); };
    if (!std::all_of(text.begin(), text.end(), has_token)) return put(*unknown_);
    for (const char c : text) put(*bytes_[static_cast<unsigned char>(c)]);
  }

  std::string source_;
  std::vector<double> scores_;
  std::optional<uint32_t> unknown_;
  double unknown_score_ = 0;
  TokenTrie tokens_;
  std::array<std::optional<uint32_t>, 256> bytes_;
};

}  // namespace

std::string spelled_byte(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

std::unique_ptr<WordEncoder> make_unigram(const Vocabulary& vocabulary, const std::vector<double>& scores,
                                          const std::string& source, const UnigramOptions& options) {
  return std::make_unique<Unigram>(vocabulary, scores, source, options);
}

}  // namespace recollect
