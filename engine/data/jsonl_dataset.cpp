// One JSON object per line, already tokenized. Every line is parsed and checked once at the start; reading
// parses it again, straight into the batch. The grammar is tiny (two keys, arrays of integers), so the parser
// is ours: it allocates nothing and knows the column of every error.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <span>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/ignored_label.h"
#include "engine/core/printable.h"
#include "engine/data/formats.h"
#include "engine/io/input_file.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

struct LineCounts {
  std::size_t ids = 0;
  std::size_t labels = 0;
  bool has_labels = false;
};

class LineParser {
 public:
  LineParser(std::string_view text, const std::string& path, int64_t line_number, int64_t vocabulary_size)
      : text_(text), path_(path), line_number_(line_number), vocabulary_size_(vocabulary_size) {}

  // Both spans are one sequence long. Fills as much of each as the line has.
  LineCounts parse(std::span<int32_t> ids, std::span<int32_t> labels) {
    LineCounts counts;
    bool has_ids = false;
    expect('{', "an object {\"input_ids\": [...]}");
    do {
      const std::string_view key = parse_key();
      expect(':', "':'");
      bool& seen = key == "input_ids" ? has_ids : counts.has_labels;
      if (seen) fail(fmt::format("the key \"{}\" appears twice", key));
      seen = true;
      (key == "input_ids" ? counts.ids : counts.labels) =
          key == "input_ids" ? parse_list(ids, false) : parse_list(labels, true);
    } while (accept(','));
    expect('}', "',' or '}'");
    skip_space();
    if (at_ != text_.size()) fail("something follows the object");
    if (!has_ids) fail("there is no \"input_ids\"");
    if (counts.ids == 0) fail("\"input_ids\" is empty");
    if (counts.has_labels && counts.labels != counts.ids)
      fail(fmt::format("{} labels for {} input_ids", counts.labels, counts.ids));
    return counts;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ExitCode::kInput, fmt::format("{}:{}:{}: {}", path_, line_number_, at_ + 1, what));
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c, const char* what) {
    if (!accept(c)) fail(fmt::format("expected {}", what));
  }

  std::string_view parse_key() {
    expect('"', "a key");
    const std::size_t end = text_.find('"', at_);
    if (end == std::string_view::npos) fail("a key without its closing quote");
    const std::string_view key = text_.substr(at_, end - at_);
    if (key != "input_ids" && key != "labels")
      throw Error(
          ExitCode::kInput,
          fmt::format("{}:{}:{}: unknown key {}", path_, line_number_, at_ + 1, escaped_name(key)),
          "a line has \"input_ids\" and, if it likes, \"labels\", where -100 marks what not to learn");
    at_ = end + 1;
    return key;
  }

  std::size_t parse_list(std::span<int32_t> out, bool are_labels) {
    std::size_t count = 0;
    expect('[', "'['");
    if (accept(']')) return 0;
    do {
      skip_space();
      const std::size_t start = at_;
      const int64_t value = parse_integer();
      const bool inside = value >= 0 && value < vocabulary_size_;
      if (!inside && !(are_labels && value == kIgnoredLabel)) {
        at_ = start;
        fail(fmt::format("{} {} is outside the vocabulary of {}", are_labels ? "label" : "id", value,
                         vocabulary_size_));
      }
      if (count == out.size())
        throw Error(ExitCode::kInput,
                    fmt::format("{}:{}:{}: more than {} tokens", path_, line_number_, start + 1, out.size()),
                    "raise data.sequence_length or cut the line: nothing is truncated silently");
      out[count++] = static_cast<int32_t>(value);
    } while (accept(','));
    expect(']', "',' or ']'");
    return count;
  }

  // JSON's grammar: no leading zeros, no plus sign, nothing after the digits.
  int64_t parse_integer() {
    const auto is_digit = [this] { return at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; };
    const bool negative = at_ < text_.size() && text_[at_] == '-';
    if (negative) ++at_;
    if (!is_digit()) fail("expected an integer");
    const std::size_t first = at_;
    int64_t value = 0;
    bool overflow = false;
    for (; is_digit(); ++at_)
      overflow |= __builtin_mul_overflow(value, 10, &value) ||
                  __builtin_add_overflow(value, text_[at_] - '0', &value);
    if (at_ - first > 1 && text_[first] == '0') fail("an integer with a leading zero");
    if (overflow) fail("an integer that fits no 64 bits");
    if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E'))
      fail("a number that is not written as an integer");
    return negative ? -value : value;
  }

  std::string_view text_;
  const std::string& path_;
  int64_t line_number_;
  int64_t vocabulary_size_;
  std::size_t at_ = 0;
};

struct JsonlFile {
  InputFile file;
  std::vector<uint64_t> begins;  // of each line; one more for the end of the last
  int64_t first_line = 0;        // lines of all files before this one

  std::size_t length(std::size_t i) const { return begins[i + 1] - begins[i]; }
  // The line, read into `text`, which is long enough.
  std::string_view line(std::size_t i, std::span<char> text) const {
    text = text.first(length(i));
    file.read_at(begins[i], std::as_writable_bytes(text));
    const std::string_view line(text.data(), text.size());
    return line.substr(0, line.size() - (line.ends_with('\n') ? 1 : 0));
  }
};

class JsonlDataset : public Dataset {
 public:
  JsonlDataset(const DatasetSpec& spec, const std::vector<std::string>& files)
      : length_(spec.sequence_length), vocabulary_size_(spec.vocabulary_size) {
    std::vector<int32_t> ids(static_cast<std::size_t>(length_)), labels(ids.size());
    files_.reserve(files.size());
    for (const std::string& path : files) {
      JsonlFile& file = files_.emplace_back(JsonlFile{InputFile(path), {}, size_});
      find_lines(file);
      for (std::size_t i = 0; i + 1 < file.begins.size(); ++i) {
        if (file.length(i) > text_.size()) text_.resize(file.length(i));
        LineParser(file.line(i, text_), path, static_cast<int64_t>(i) + 1, vocabulary_size_)
            .parse(ids, labels);
      }
      size_ += static_cast<int64_t>(file.begins.size()) - 1;
    }
  }

  int64_t size() const override { return size_; }
  int64_t sequence_length() const override { return length_; }

  void read(int64_t index, Fields& sample) const override {
    require(index >= 0 && index < size_, "sequence index out of range");
    const auto after = std::upper_bound(files_.begin(), files_.end(), index,
                                        [](int64_t i, const JsonlFile& file) { return i < file.first_line; });
    const JsonlFile& file = *std::prev(after);
    const int64_t line = index - file.first_line;
    std::vector<int32_t>&ids = sample["ids"], &labels = sample["labels"];
    ids.resize(static_cast<std::size_t>(length_));
    labels.resize(ids.size());
    LineCounts counts;
    {
      const std::lock_guard lock(mutex_);
      counts = LineParser(file.line(static_cast<std::size_t>(line), text_), file.file.path(), line + 1,
                          vocabulary_size_)
                   .parse(ids, labels);
    }
    ids.resize(counts.ids);
    labels.resize(counts.labels);
  }

 private:
  // An empty line is an error of the parser; only the end of the last line may have nothing behind it.
  static void find_lines(JsonlFile& file) {
    const uint64_t size = file.file.size();
    std::vector<char> part(std::min<uint64_t>(size, 1 << 20));
    if (size > 0) file.begins.push_back(0);
    for (uint64_t offset = 0; offset < size; offset += part.size()) {
      const std::span<char> read = std::span(part).first(std::min<uint64_t>(part.size(), size - offset));
      file.file.read_at(offset, std::as_writable_bytes(read));
      for (auto at = read.begin(); (at = std::find(at, read.end(), '\n')) != read.end();) {
        const uint64_t begin = offset + static_cast<uint64_t>(++at - read.begin());
        if (begin < size) file.begins.push_back(begin);
      }
    }
    file.begins.push_back(size);
  }

  int64_t length_;
  int64_t vocabulary_size_;
  int64_t size_ = 0;
  std::vector<JsonlFile> files_;
  mutable std::mutex mutex_;
  mutable std::vector<char> text_;  // as long as the longest line; for the line being read
};

}  // namespace

std::unique_ptr<Dataset> open_jsonl_dataset(const DatasetSpec& spec, const std::vector<std::string>& files) {
  auto dataset = std::make_unique<JsonlDataset>(spec, files);
  if (dataset->size() == 0)
    throw Error(ExitCode::kInput, fmt::format("{}: there is not a single line", list_some(files)));
  return dataset;
}

}  // namespace recollect
