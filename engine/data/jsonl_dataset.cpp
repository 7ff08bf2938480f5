// One JSON object per line, already tokenized, whose keys are those of a task. Every line is parsed and
// checked once at the start; reading parses it again, straight into the sample. What stays in memory is where lines
// begin and how many tokens they have, some four bytes a line.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <span>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/data/formats.h"
#include "engine/data/line_parser.h"
#include "engine/data/number_list.h"
#include "engine/data/text_file.h"
#include "engine/io/file_kind.h"
#include "engine/io/input_file.h"

namespace recollect {
namespace {

struct JsonlFile {
  InputFile file;
  NumberList begins;            // of each line; one more for the end of the last
  int64_t first_sample = 0;     // samples of all files before this one
  NumberList passed_over = {};  // of the lines, those that are no samples

  // The line of a sample of the file.
  std::size_t line_of(std::size_t sample) const {
    // passed_over[i] - i samples come before that line.
    std::size_t low = 0, high = passed_over.size();
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (passed_over[middle] - middle <= sample)
        low = middle + 1;
      else
        high = middle;
    }
    return sample + low;
  }

  std::size_t lines() const { return begins.size() - 1; }
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
      : length_(spec.sequence_length), specs_(spec.fields), bad_(spec.on_bad_record) {
    files_.reserve(files.size());
    if (spec.index) {
      for (const std::string& path : files) files_.emplace_back(JsonlFile{InputFile(path), {}, 0});
      read_index(*spec.index);
      return;
    }
    for (const std::string& path : files) {
      JsonlFile& file = files_.emplace_back(JsonlFile{InputFile(path), {}, size_});
      find_lines(file);
      for (std::size_t i = 0; i < file.lines(); ++i) {
        if (file.length(i) > text_.size()) text_.resize(file.length(i));
        if (!check(file, i)) file.passed_over.push_back(i);
      }
      size_ = static_cast<int64_t>(lengths_.size());
    }
    if (size_ == 0 && bad_.count() > 0) bad_.fail_for_all(list_some(files));
  }

  std::vector<std::string> remarks() const override { return bad_.remarks(); }

  void write_index(IndexWriter& to) const override {
    to.number(files_.size());
    to.number(text_.size());
    to.number(static_cast<uint64_t>(size_));
    lengths_.write(to);
    for (const JsonlFile& file : files_) {
      for (const uint64_t number : identity_of(file.file)) to.number(number);
      to.number(static_cast<uint64_t>(file.first_sample));
      file.begins.write(to);
      file.passed_over.write(to);
    }
  }
  void read_index(IndexReader& from) override {
    from.expect(files_.size());
    text_.resize(from.number());
    size_ = static_cast<int64_t>(from.number());
    lengths_.read(from);
    for (JsonlFile& file : files_) {
      for (const uint64_t number : identity_of(file.file)) from.expect(number);
      file.first_sample = static_cast<int64_t>(from.number());
      file.begins.read(from);
      file.passed_over.read(from);
    }
  }

  int64_t size() const override { return size_; }
  int64_t sequence_length() const override { return length_; }
  int64_t length(int64_t index) const override {
    require(index >= 0 && index < size_, "sequence index out of range");
    return static_cast<int64_t>(lengths_[static_cast<std::size_t>(index)]);
  }

  void read(int64_t index, Fields& sample) const override {
    require(index >= 0 && index < size_, "sequence index out of range");
    const auto after =
        std::upper_bound(files_.begin(), files_.end(), index,
                         [](int64_t i, const JsonlFile& file) { return i < file.first_sample; });
    const JsonlFile& file = *std::prev(after);
    const std::lock_guard lock(mutex_);
    parse(file, file.line_of(static_cast<std::size_t>(index - file.first_sample)), sample);
  }

 private:
  // The same for processes that have the same file open, as it was when it was opened.
  static std::array<uint64_t, 4> identity_of(const InputFile& file) {
    struct stat status {};
    if (::fstat(file.descriptor(), &status) != 0) return {};
    return {static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino), file.size(),
            static_cast<uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
                static_cast<uint64_t>(status.st_mtim.tv_nsec)};
  }

  // Whether the line is a sample, whose length is kept; false where it is passed over.
  bool check(const JsonlFile& file, std::size_t line) {
    sample_.clear();
    try {
      parse(file, line, sample_);
    } catch (const Error& error) {
      if (bad_.passes_over(error)) return false;
      const std::string_view first = line == 0 ? file.line(line, text_) : std::string_view();
      if (const auto other = kind_of_file(first); other && error.code() == ExitCode::kInput)
        throw Error(error.code(), fmt::format("{} {}, not JSONL", file.file.path(), other->what),
                    std::string(other->hint));
      const std::string kind = line == 0 ? what_jsonl_is(first) : "";
      if (kind.empty() || error.code() != ExitCode::kInput) throw;
      throw Error(error.code(), error.what(), kind);
    }
    lengths_.push_back(sample_.longest());
    return true;
  }

  void parse(const JsonlFile& file, std::size_t line, Fields& sample) const {
    LineParser(file.line(line, text_), file.file.path(), static_cast<int64_t>(line) + 1, specs_, length_)
        .parse(sample);
  }

  // Only the end of the last line may have nothing behind it.
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
  std::vector<FieldSpec> specs_;
  BadRecords bad_;
  Fields sample_;  // that lines are checked in
  int64_t size_ = 0;
  NumberList lengths_;  // of every sample
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
