#include "engine/data/packing.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "engine/core/error.h"

namespace recollect {

namespace {

constexpr int64_t kMostDocuments = int64_t{1} << 32;

}  // namespace

PackedDataset::PackedDataset(std::unique_ptr<Dataset> documents, Packing packing, const SampleOrder& order)
    : documents_(std::move(documents)), within_(packing == Packing::kWithin), begins_{0} {
  require(packing != Packing::kNone && order.size() == documents_->size(), "an order of other documents");
  require(documents_->size() <= kMostDocuments, "documents without end cannot be packed");
  if (within_)
    pack_within(order);
  else
    pack_across(order);
  if (size() == 0)
    throw Error(
        ExitCode::kInput,
        fmt::format("{} documents fill not one sample of {} tokens", documents_->size(), sequence_length()),
        "give more data, or a shorter data.sequence_length");
}

void PackedDataset::pack_across(const SampleOrder& order) {
  const int64_t most = sequence_length();
  std::size_t whole = 0;  // pieces of samples that are full
  int64_t filled = 0;
  for (int64_t i = 0; i < order.size(); ++i) {
    const int64_t document = order.at(0, i), length = documents_->length(document);
    for (int64_t first = 0; first < length;) {
      const int64_t tokens = std::min(length - first, most - filled);
      pieces_.push_back({document, static_cast<int32_t>(first), static_cast<int32_t>(tokens)});
      first += tokens;
      filled += tokens;
      if (filled < most) continue;
      whole = pieces_.size();
      begins_.push_back(whole);
      filled = 0;
    }
  }
  pieces_.resize(whole);
}

void PackedDataset::pack_within(const SampleOrder& order) {
  std::vector<std::vector<Piece>> samples;
  std::multimap<int64_t, std::size_t> open;  // samples by the room that they have, the older ones first
  for (int64_t i = 0; i < order.size(); ++i) {
    const int64_t document = order.at(0, i), length = documents_->length(document);
    require(length <= sequence_length(), "a document is longer than a sample");
    if (length == 0) continue;
    const Piece piece{document, 0, static_cast<int32_t>(length)};
    int64_t room = sequence_length();
    std::size_t sample = samples.size();
    if (const auto found = open.lower_bound(length); found != open.end()) {
      room = found->first;
      sample = found->second;
      open.erase(found);
    } else {
      samples.emplace_back();
    }
    samples[sample].push_back(piece);
    if (room > length) open.emplace(room - length, sample);
  }
  for (const std::vector<Piece>& sample : samples) {
    pieces_.insert(pieces_.end(), sample.begin(), sample.end());
    begins_.push_back(pieces_.size());
  }
}

std::span<const PackedDataset::Piece> PackedDataset::pieces(int64_t index) const {
  require(index >= 0 && index < size(), "sample index out of range");
  const std::size_t begin = begins_[static_cast<std::size_t>(index)];
  return std::span(pieces_).subspan(begin, begins_[static_cast<std::size_t>(index) + 1] - begin);
}

int64_t PackedDataset::length(int64_t index) const {
  int64_t tokens = 0;
  for (const Piece& piece : pieces(index)) tokens += piece.tokens;
  return tokens;
}

void PackedDataset::read(int64_t index, Fields& sample) const {
  const std::lock_guard lock(mutex_);
  std::size_t tokens = 0;
  for (const Piece& piece : pieces(index)) {
    document_.clear();
    documents_->read(piece.document, document_);
    for (const Field& field : document_)
      document_[field.name].reserve(static_cast<std::size_t>(sequence_length()));
    append(piece, tokens, sample);
    tokens += static_cast<std::size_t>(piece.tokens);
  }
}

// `before`: tokens that the sample has already.
void PackedDataset::append(const Piece& piece, std::size_t before, Fields& sample) const {
  const auto refuse = [&](const char* what, const char* hint) {
    throw Error(ExitCode::kInput,
                fmt::format("data.packing: document {} (from 1, in the order of the files) {}",
                            piece.document + 1, what),
                hint);
  };
  const auto count = static_cast<std::size_t>(piece.tokens);
  const std::vector<int32_t>& mask = document_["mask"];
  if (std::find(mask.begin(), mask.end(), 0) != mask.end())
    refuse("has padding", "leave padding and attention_mask out: packed samples need none");
  if (before > 0 && document_["labels"].empty() != sample["labels"].empty())
    refuse("and others of its sample do not agree on whether there are labels",
           "give all lines labels, or none");
  for (const Field& field : document_) {
    if (field.values.empty() || field.name == "mask") continue;
    require(field.ends.empty() && field.values.size() >= static_cast<std::size_t>(piece.first) + count,
            "a document has more than a number for each token");
    Field& to = sample.field(field.name);
    to.dtype = field.dtype;
    to.values.reserve(static_cast<std::size_t>(sequence_length()));
    to.values.resize(before, 0);  // of documents that have no such field
    const auto first = field.values.begin() + piece.first;
    to.values.insert(to.values.end(), first, first + piece.tokens);
  }
  for (const Field& field : sample)
    if (!field.values.empty()) sample[field.name].resize(before + count, 0);
  if (!within_) return;
  std::vector<int32_t>& positions = sample["positions"];
  positions.resize(before);
  for (int32_t position = 0; position < piece.tokens; ++position) positions.push_back(position);
}

std::string PackedDataset::description() const {
  int64_t tokens = 0, documents = 0;
  for (const Piece& piece : pieces_) {
    tokens += piece.tokens;
    documents += piece.first == 0;
  }
  return fmt::format("{} documents in {} samples of {} tokens, {:.1f} % of them filled", documents, size(),
                     sequence_length(),
                     100 * static_cast<double>(tokens) / static_cast<double>(size() * sequence_length()));
}

}  // namespace recollect
