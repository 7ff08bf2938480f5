// Documents of changing length as samples that are full. Which documents share a sample is decided once, when the
// data is opened, from their lengths in the order of the run's first epoch: so it is the same for every rank and every
// number of micro-batches, and each epoch shuffles the same samples.
//
// across: documents follow each other as one stream, which is cut into samples; its tail is dropped. Attention and
//         loss go across their borders, as with text and token files.
// within: whole documents stand back to back, each in the fullest sample that still has room for it. The sample
//         has "positions", which begin again at 0 with each of them; what a sample lacks to its length is padding.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/spelled.h"
#include "engine/data/dataset.h"
#include "engine/data/order.h"

namespace recollect {

enum class Packing { kNone, kAcross, kWithin };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<Packing> = {"none", "across", "within"};

class PackedDataset final : public Dataset {
 public:
  // Tokens of a document, [first, first + tokens).
  struct Piece {
    int64_t document;
    int32_t first, tokens;
  };

  // `order` is over the documents. Error kInput where they do not fill a single sample of a stream.
  PackedDataset(std::unique_ptr<Dataset> documents, Packing packing, const SampleOrder& order);

  int64_t size() const override { return static_cast<int64_t>(begins_.size()) - 1; }
  int64_t sequence_length() const override { return documents_->sequence_length(); }
  int64_t length(int64_t index) const override;
  // Error kInput for documents that cannot share a sample: with padding, or with labels where others have none.
  void read(int64_t index, Fields& sample) const override;

  // What a sample is made of, in its order.
  std::span<const Piece> pieces(int64_t index) const;
  std::string description() const;  // how many documents, and how full the samples are

 private:
  void pack_across(const SampleOrder& order);
  void pack_within(const SampleOrder& order);
  void append(const Piece& piece, std::size_t before, Fields& sample) const;

  std::unique_ptr<Dataset> documents_;
  bool within_;
  std::vector<Piece> pieces_;        // sample by sample
  std::vector<std::size_t> begins_;  // of each sample's pieces; one more for the end
  mutable std::mutex mutex_;
  mutable Fields document_;  // the one that is being read
};

}  // namespace recollect
