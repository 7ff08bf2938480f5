#include "engine/data/prepare_texts.h"

#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/data/sequence_maker.h"
#include "engine/data/squad.h"
#include "engine/data/text_file.h"
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
  if (ids.empty()) throw BlankRecord("the text has not a single token");
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

namespace {

// Documents of several files, each as its tokens.
class DocumentMaker {
 public:
  DocumentMaker(const Tokenizer& tokenizer, const TextsSpec& spec, LineTokens tokens, Truncation truncation,
                bool whole)
      : bad(spec.on_bad_record),
        tokenizer_(tokenizer),
        spec_(spec),
        truncation_(truncation),
        ends_(tokens == LineTokens::kWithEnd),
        maker_(tokenizer, {.sequence_length = spec.sequence_length,
                           .truncation = truncation,
                           .vocabulary_size = spec.vocabulary_size,
                           .token_types = false}),
        end_(ends_ ? end_of(tokenizer) : 0),
        most_(whole ? kWhole : static_cast<std::size_t>(spec.sequence_length)),
        all_(std::make_unique<PackedSamples>(maker_.parts(), spec.sequence_length)) {}

  BadRecords bad;

  using TextAt = std::function<std::string_view(std::size_t row)>;
  using LineOf = std::function<int64_t(std::size_t row)>;
  void append(const std::string& path, std::size_t rows, const TextAt& text_at, const LineOf& line_of) {
    const auto make = [&](std::size_t row, EncodingMemory& memory, Fields& sample) {
      try {
        append_document(text_at(row), memory, sample);
      } catch (const Error& error) {
        fail_at_line(path, line_of(row), error);
      }
    };
    all_->append(prepare_samples(rows, spec_.threads, {maker_.parts(), spec_.sequence_length}, make, bad));
  }

  PreparedTexts finish() {
    if (all_->size() == 0 && bad.count() > 0) bad.fail_for_all(list_some(spec_.paths));
    return {std::move(all_), bad.remarks()};
  }

 private:
  void append_document(std::string_view text, EncodingMemory& memory, Fields& sample) const {
    if (!ends_) {
      if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
        throw BlankRecord("the text has not a single token");  // but those around it
      return maker_.append(maker_.encode(text, std::nullopt, memory), sample);
    }
    for (const uint32_t id : encode_document(tokenizer_, text, end_, most_, truncation_, memory))
      sample["ids"].push_back(static_cast<int32_t>(id));
  }

  const Tokenizer& tokenizer_;
  const TextsSpec& spec_;
  Truncation truncation_;
  bool ends_;
  SequenceMaker maker_;
  uint32_t end_;
  std::size_t most_;
  std::unique_ptr<PackedSamples> all_;
};

}  // namespace

PreparedTexts tokenize_lines(const Tokenizer& tokenizer, const TextsSpec& spec, LineTokens tokens,
                             Truncation truncation, bool whole) {
  DocumentMaker documents(tokenizer, spec, tokens, truncation, whole);
  for (const std::string& path : spec.paths) {
    const TextTable table(path, {.format = TableFormat::kJsonl, .columns = {spec.key}}, documents.bad);
    documents.append(
        path, table.rows(), [&](std::size_t row) { return table.at(row, 0); },
        [&](std::size_t row) { return table.line(row); });
  }
  return documents.finish();
}

PreparedTexts tokenize_contexts(const Tokenizer& tokenizer, const TextsSpec& spec, LineTokens tokens,
                                Truncation truncation, bool whole) {
  DocumentMaker documents(tokenizer, spec, tokens, truncation, whole);
  for (const std::string& path : spec.paths) {
    QuestionAnsweringSet set;
    read_squad(path, /*labelled=*/false, set, documents.bad);
    std::vector<int64_t> lines(set.contexts.size(), 1);  // where the first question about each begins
    for (auto example = set.examples.rbegin(); example != set.examples.rend(); ++example)
      lines[example->context] = example->line;
    documents.append(
        path, set.contexts.size(), [&](std::size_t row) -> std::string_view { return set.contexts[row]; },
        [&](std::size_t row) { return lines[row]; });
  }
  return documents.finish();
}

}  // namespace recollect
