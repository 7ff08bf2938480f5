// Documents of changing length as samples that are full. Which documents share a sample is decided once, when the
// data is opened, from their lengths in the order of the run's first epoch: so it is the same for every rank and every
// number of micro-batches, and each epoch shuffles the same samples.
//
// across: documents follow each other as one stream, which is cut into samples; its tail is dropped. Attention and
//         loss go across their borders, as with text and token files.
// within: whole documents stand back to back, each in the fullest sample that still has room for it. The sample
//         has "positions", which begin again at 0 with each of them; what a sample lacks to its length is padding.
//
// What stays in memory of this is, across: the place in the stream where each sample begins; within: the documents of each
// sample. Both as NumberLists, up to four bytes a document. While it is decided, eight bytes a document more.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/spelled.h"
#include "engine/data/dataset.h"
#include "engine/data/number_list.h"
#include "engine/data/order.h"

namespace recollect {

enum class Packing { kNone, kAcross, kWithin };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<Packing> = {"none", "across", "within"};

class PackedDataset final : public Dataset {
 public:
  // `order` is over the documents. Error kInput where they do not fill a single sample of a stream.
  // `index`: what has been found out of the same documents, where it is known.
  PackedDataset(std::unique_ptr<Dataset> documents, Packing packing, const SampleOrder& order,
                IndexReader* index = nullptr);

  int64_t size() const override { return size_; }
  int64_t sequence_length() const override { return documents_->sequence_length(); }
  int64_t length(int64_t index) const override;
  // Error kInput for documents that cannot share a sample: with padding, or with labels where others have none.
  void read(int64_t index, Fields& sample) const override;

  void write_index(IndexWriter& to) const override;
  void read_index(IndexReader& from) override;

  std::string description() const;  // how many documents, and how full the samples are

 private:
  // Tokens of a document, [first, first + tokens).
  struct Piece {
    int64_t document, first, tokens;
  };

  void read_plan(IndexReader& from);
  void pack_across();
  void pack_within();
  // The documents that share a sample: `sample_of` has the sample of each, in the order of `order_`.
  void collect(const std::vector<uint32_t>& sample_of, std::vector<uint32_t> documents_of);
  // Calls `use` with what a sample is made of, in its order.
  template <typename Use>
  void for_each_piece(int64_t index, const Use& use) const;
  void append(const Piece& piece, std::size_t before, Fields& sample) const;

  std::unique_ptr<Dataset> documents_;
  bool within_;
  SampleOrder order_;  // of the documents
  int64_t size_ = 0;
  int64_t used_documents_ = 0, used_tokens_ = 0;  // that samples have
  // across: of each sample, the place in `order_` of the document with which it begins, and the first token of that.
  // within: of each sample, the place of its first document among `places_`; one more for the end.
  NumberList begins_, first_tokens_;
  NumberList places_;  // within: of documents in `order_`, sample by sample
  mutable std::mutex mutex_;
  mutable Fields document_;  // the one that is being read
};

}  // namespace recollect
