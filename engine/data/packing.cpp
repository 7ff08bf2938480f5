#include "engine/data/packing.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "engine/core/error.h"

namespace recollect {

namespace {

constexpr int64_t kMostDocuments = std::numeric_limits<uint32_t>::max();
constexpr auto kNoSample = std::numeric_limits<uint32_t>::max();  // of a document without tokens

}  // namespace

PackedDataset::PackedDataset(std::unique_ptr<Dataset> documents, Packing packing, const SampleOrder& order,
                             IndexReader* index)
    : documents_(std::move(documents)), within_(packing == Packing::kWithin), order_(order) {
  require(packing != Packing::kNone && order.size() == documents_->size(), "an order of other documents");
  require(documents_->size() < kMostDocuments, "documents without end cannot be packed");
  if (index)
    read_plan(*index);
  else if (within_)
    pack_within();
  else
    pack_across();
  if (size() == 0)
    throw Error(
        ExitCode::kInput,
        fmt::format("{} documents fill not one sample of {} tokens", documents_->size(), sequence_length()),
        "give more data, or a shorter data.sequence_length");
}

void PackedDataset::write_index(IndexWriter& to) const {
  documents_->write_index(to);
  for (const int64_t number : {size_, used_documents_, used_tokens_})
    to.number(static_cast<uint64_t>(number));
  for (const NumberList* list : {&begins_, &first_tokens_, &places_}) list->write(to);
}

void PackedDataset::read_index(IndexReader& from) {
  documents_->read_index(from);
  read_plan(from);
}

void PackedDataset::read_plan(IndexReader& from) {
  for (int64_t* number : {&size_, &used_documents_, &used_tokens_})
    *number = static_cast<int64_t>(from.number());
  for (NumberList* list : {&begins_, &first_tokens_, &places_}) list->read(from);
}

void PackedDataset::pack_across() {
  const int64_t most = sequence_length();
  int64_t filled = 0,
          begun = 0;  // of the sample that is being filled: its tokens, and the documents that begin in it
  uint64_t first_place = 0, first_token = 0;
  for (int64_t place = 0; place < order_.size(); ++place) {
    const int64_t length = documents_->length(order_.at(0, place));
    begun += length > 0;
    for (int64_t first = 0; first < length;) {
      if (filled == 0) {
        first_place = static_cast<uint64_t>(place);
        first_token = static_cast<uint64_t>(first);
      }
      const int64_t tokens = std::min(length - first, most - filled);
      first += tokens;
      filled += tokens;
      if (filled < most) continue;
      begins_.push_back(first_place);
      first_tokens_.push_back(first_token);
      ++size_;
      used_documents_ += begun;
      filled = begun = 0;
    }
  }
  used_tokens_ = size_ * most;
}

namespace {

// Samples by the room that they have, those of the same room in the order in which they came to have it.
class OpenSamples {
 public:
  explicit OpenSamples(int64_t most) : queues_(static_cast<std::size_t>(most) + 1) {}

  // The sample with the least room for `length` tokens, taken out; nothing where there is none.
  std::optional<uint32_t> take(int64_t length, int64_t& room) {
    const auto found = rooms_.lower_bound(length);
    if (found == rooms_.end()) return std::nullopt;
    room = *found;
    Queue& queue = queues_[static_cast<std::size_t>(room)];
    const uint32_t sample = queue.first;
    if (sample == queue.last)
      rooms_.erase(found);
    else
      queue.first = next_[sample];
    return sample;
  }

  void put(uint32_t sample, int64_t room) {
    if (sample >= next_.size()) next_.resize(sample + 1);
    Queue& queue = queues_[static_cast<std::size_t>(room)];
    if (rooms_.insert(room).second)
      queue.first = sample;
    else
      next_[queue.last] = sample;
    queue.last = sample;
  }

 private:
  struct Queue {
    uint32_t first = 0, last = 0;
  };
  std::set<int64_t> rooms_;  // that a sample has
  std::vector<Queue> queues_;
  std::deque<uint32_t> next_;  // the sample after each in its queue
};

}  // namespace

void PackedDataset::pack_within() {
  std::vector<uint32_t> sample_of(static_cast<std::size_t>(order_.size()), kNoSample);
  std::vector<uint32_t> documents_of;  // how many each sample has
  OpenSamples open(sequence_length());
  for (int64_t place = 0; place < order_.size(); ++place) {
    const int64_t length = documents_->length(order_.at(0, place));
    require(length <= sequence_length(), "a document is longer than a sample");
    if (length == 0) continue;
    int64_t room = sequence_length();
    std::optional<uint32_t> sample = open.take(length, room);
    if (!sample) {
      sample = static_cast<uint32_t>(documents_of.size());
      documents_of.push_back(0);
    }
    sample_of[static_cast<std::size_t>(place)] = *sample;
    ++documents_of[*sample];
    used_tokens_ += length;
    if (room > length) open.put(*sample, room - length);
  }
  size_ = static_cast<int64_t>(documents_of.size());
  collect(sample_of, std::move(documents_of));
}

void PackedDataset::collect(const std::vector<uint32_t>& sample_of, std::vector<uint32_t> documents_of) {
  uint32_t begin = 0;
  for (uint32_t& count : documents_of) {  // becomes the place of the sample's next document
    begins_.push_back(begin);
    begin += std::exchange(count, begin);
  }
  begins_.push_back(begin);
  used_documents_ = begin;
  std::vector<uint32_t> places(begin);
  for (std::size_t place = 0; place < sample_of.size(); ++place)
    if (sample_of[place] != kNoSample)
      places[documents_of[sample_of[place]]++] = static_cast<uint32_t>(place);
  for (const uint32_t place : places) places_.push_back(place);
}

template <typename Use>
void PackedDataset::for_each_piece(int64_t index, const Use& use) const {
  require(index >= 0 && index < size(), "sample index out of range");
  const auto sample = static_cast<std::size_t>(index);
  if (within_) {
    for (std::size_t i = begins_[sample]; i < begins_[sample + 1]; ++i) {
      const int64_t document = order_.at(0, static_cast<int64_t>(places_[i]));
      use(Piece{document, 0, documents_->length(document)});
    }
    return;
  }
  auto first = static_cast<int64_t>(first_tokens_[sample]);
  for (int64_t place = static_cast<int64_t>(begins_[sample]), left = sequence_length(); left > 0; ++place) {
    const int64_t document = order_.at(0, place);
    const int64_t begin = std::exchange(first, 0);
    const int64_t tokens = std::min(left, documents_->length(document) - begin);
    if (tokens > 0) use(Piece{document, begin, tokens});
    left -= tokens;
  }
}

int64_t PackedDataset::length(int64_t index) const {
  if (!within_) return sequence_length();
  int64_t tokens = 0;
  for_each_piece(index, [&](const Piece& piece) { tokens += piece.tokens; });
  return tokens;
}

void PackedDataset::read(int64_t index, Fields& sample) const {
  const std::lock_guard lock(mutex_);
  std::size_t tokens = 0;
  for_each_piece(index, [&](const Piece& piece) {
    document_.clear();
    documents_->read(piece.document, document_);
    for (const Field& field : document_)
      document_[field.name].reserve(static_cast<std::size_t>(sequence_length()));
    append(piece, tokens, sample);
    tokens += static_cast<std::size_t>(piece.tokens);
  });
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
  for (int64_t i = 0; i < piece.tokens; ++i) positions.push_back(static_cast<int32_t>(i));
}

std::string PackedDataset::description() const {
  return fmt::format(
      "{} documents in {} samples of {} tokens, {:.1f} % of them filled", used_documents_, size(),
      sequence_length(),
      100 * static_cast<double>(used_tokens_) / static_cast<double>(size() * sequence_length()));
}

}  // namespace recollect
