// Text as bytes: every file is a segment of one long stream, with a newline byte between neighbours.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/data/formats.h"
#include "engine/io/input_file.h"

namespace recollect {
namespace {

class TextDataset : public Dataset {
 public:
  TextDataset(const DatasetSpec& spec, const std::vector<std::string>& files)
      : length_(spec.sequence_length) {
    for (const std::string& path : files) {
      begins_.push_back(bytes_);
      const InputFile& file = files_.emplace_back(path);
      bytes_ += static_cast<int64_t>(file.size()) + 1;
    }
    --bytes_;  // none behind the last file
  }

  int64_t bytes() const { return bytes_; }
  int64_t size() const override { return bytes_ / length_; }
  int64_t sequence_length() const override { return length_; }

  void read(int64_t index, Fields& sample) const override {
    require(index >= 0 && index < size(), "sequence index out of range");
    sample["ids"].resize(static_cast<std::size_t>(length_));
    const std::span<int32_t> ids = sample["ids"];
    int64_t at = index * length_;
    auto segment =
        static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), at) - begins_.begin()) - 1;
    for (std::size_t filled = 0; filled < ids.size(); ++segment) {
      const InputFile& file = files_[segment];
      const auto offset = static_cast<uint64_t>(at - begins_[segment]);
      const std::size_t count = std::min<uint64_t>(ids.size() - filled, file.size() - offset);
      // The bytes wait at the end of their ids, which overtake none of them.
      const std::span<int32_t> into = ids.subspan(filled, count);
      const std::span<std::byte> bytes = std::as_writable_bytes(into).last(count);
      file.read_at(offset, bytes);
      std::transform(bytes.begin(), bytes.end(), into.begin(),
                     [](std::byte b) { return std::to_integer<int32_t>(b); });
      filled += count;
      if (filled < ids.size()) ids[filled++] = '\n';
      at += static_cast<int64_t>(count) + 1;
    }
  }

 private:
  int64_t length_;
  std::vector<InputFile> files_;
  std::vector<int64_t> begins_;  // of each file in the stream
  int64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> open_text_dataset(const DatasetSpec& spec, const std::vector<std::string>& files) {
  if (spec.vocabulary_size < 256)
    throw Error(
        ExitCode::kConfiguration,
        fmt::format("text needs a vocabulary of 256 byte values, the model has {}", spec.vocabulary_size),
        "set model.vocab_size to 256 or more");
  auto dataset = std::make_unique<TextDataset>(spec, files);
  if (dataset->size() == 0)
    throw Error(ExitCode::kInput,
                fmt::format("{} hold{} {} bytes of text, fewer than one sequence of {}", list_some(files),
                            files.size() == 1 ? "s" : "", dataset->bytes(), spec.sequence_length));
  return dataset;
}

}  // namespace recollect
