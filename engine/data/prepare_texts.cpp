#include "engine/data/prepare_texts.h"

#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/data/sequence_maker.h"
#include "engine/data/text_table.h"
#include "engine/data/tokenize_corpus.h"

namespace recollect {

namespace {

constexpr std::size_t kWhole =
    std::numeric_limits<std::size_t>::max();  // tokens of a document that is not cut

// One stream in memory, cut into samples.
class TokenStream final : public Dataset {
 public:
  TokenStream(int64_t sequence_length, std::size_t vocabulary)
      : length_(sequence_length), width_(vocabulary <= 1 << 16 ? 2 : 4) {}

  void append(std::span<const uint32_t> ids) {
    std::size_t at = bytes_.size();
    bytes_.resize(at + ids.size() * width_);
    for (const uint32_t id : ids)  // the first bytes of a number are its low ones (packed_samples.cpp)
      std::memcpy(bytes_.data() + std::exchange(at, at + width_), &id, width_);
  }
  void shrink() { bytes_.shrink_to_fit(); }

  int64_t tokens() const { return static_cast<int64_t>(bytes_.size() / width_); }
  int64_t size() const override { return tokens() / length_; }
  int64_t sequence_length() const override { return length_; }
  void read(int64_t index, Fields& sample) const override {
    require(index >= 0 && index < size(), "sample index out of range");
    std::vector<int32_t>& ids = sample["ids"];
    ids.assign(static_cast<std::size_t>(length_), 0);
    const std::byte* from = bytes_.data() + static_cast<std::size_t>(index * length_) * width_;
    for (int32_t& id : ids) std::memcpy(&id, std::exchange(from, from + width_), width_);
  }

 private:
  int64_t length_;
  std::size_t width_;  // bytes of a token
  std::vector<std::byte> bytes_;
};

uint32_t end_of(const Tokenizer& tokenizer) {
  if (const std::optional<uint32_t> end = usual_end_of_document(tokenizer)) return *end;
  throw Error(ExitCode::kInput,
              "the tokenizer has no eos_token, and neither <|endoftext|> nor [SEP], to end documents with",
              "'recollect tokenize --end-of-document TOKEN' makes a token file with any other");
}

void check_vocabulary(const Tokenizer& tokenizer, const TextsSpec& spec) {
  SequenceMaker(tokenizer, {.vocabulary_size = spec.vocabulary_size});
}

// Of one line, and the end.
std::vector<uint32_t> encode_document(const Tokenizer& tokenizer, std::string_view text, uint32_t end,
                                      std::size_t most, Truncation truncation, EncodingMemory& memory) {
  std::vector<uint32_t> ids;
  tokenizer.encode(text, memory, ids);
  if (ids.empty() && most != kWhole) throw Error(ExitCode::kInput, "the text has not a single token");
  ids.push_back(end);
  if (ids.size() <= most) return ids;
  if (truncation != Truncation::kLongestFirst && truncation != Truncation::kOnlyFirst)
    throw Error(ExitCode::kInput, fmt::format("{} tokens, where a sequence has at most {}", ids.size(), most),
                "choose a greater data.sequence_length, or a data.truncation");
  ids.resize(most);
  return ids;
}

}  // namespace

std::unique_ptr<Dataset> tokenize_stream(const Tokenizer& tokenizer, const TextsSpec& spec) {
  check_vocabulary(tokenizer, spec);
  auto stream = std::make_unique<TokenStream>(spec.sequence_length, tokenizer.vocabulary_size());
  tokenize_corpus(
      tokenizer,
      {.inputs = spec.paths, .key = spec.key, .end_of_document = end_of(tokenizer), .threads = spec.threads},
      [&](std::span<const uint32_t> ids, std::span<const std::size_t>) { stream->append(ids); },
      [](uint64_t, uint64_t) {});
  if (stream->size() == 0)
    throw Error(ExitCode::kInput,
                fmt::format("{} hold{} {} tokens, fewer than one sequence of {}", list_some(spec.paths),
                            spec.paths.size() == 1 ? "s" : "", stream->tokens(), spec.sequence_length));
  stream->shrink();
  return stream;
}

std::unique_ptr<Dataset> tokenize_lines(const Tokenizer& tokenizer, const TextsSpec& spec, LineTokens tokens,
                                        Truncation truncation, bool whole) {
  const SequenceMaker maker(tokenizer, {.sequence_length = spec.sequence_length,
                                        .truncation = truncation,
                                        .vocabulary_size = spec.vocabulary_size,
                                        .token_types = false});
  const bool ends = tokens == LineTokens::kWithEnd;
  const uint32_t end = ends ? end_of(tokenizer) : 0;
  const auto most = whole ? kWhole : static_cast<std::size_t>(spec.sequence_length);
  auto all = std::make_unique<PackedSamples>(maker.parts(), spec.sequence_length);
  for (const std::string& path : spec.paths) {
    const TextTable table(path, {.format = TableFormat::kJsonl, .columns = {spec.key}});
    const std::size_t column = table.column(spec.key);
    const auto make = [&](std::size_t row, EncodingMemory& memory, Fields& sample) {
      try {
        if (!ends) return maker.append(maker.encode(table.at(row, column), std::nullopt, memory), sample);
        for (const uint32_t id :
             encode_document(tokenizer, table.at(row, column), end, most, truncation, memory))
          sample["ids"].push_back(static_cast<int32_t>(id));
      } catch (const Error& error) {
        table.fail(row, error.what(), error.hint());
      }
    };
    all->append(prepare_samples(table.rows(), spec.threads, {maker.parts(), spec.sequence_length}, make));
  }
  return all;
}

}  // namespace recollect
