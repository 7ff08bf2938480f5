// Several sets of samples as one, each with a share of it. An epoch goes through every set at least once: through one of
// them just once, and through the others as often as their shares ask for, the last time perhaps in part. Which sample of
// which set has a number is arithmetic, and the order of the run (order.h) shuffles all of them together.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/dataset.h"

namespace recollect {

class Mixture final : public Dataset {
 public:
  struct Part {
    std::unique_ptr<Dataset> samples;
    double weight = 1;  // above 0; its share is that of the sum
    std::string name = {};
  };
  // Of two sets or more, of one sequence length. Error kConfiguration where a share is so small that an epoch would have
  // more samples than can be counted.
  explicit Mixture(std::vector<Part> parts);

  int64_t size() const override { return ends_.back(); }
  int64_t sequence_length() const override { return parts_.front().samples->sequence_length(); }
  int64_t length(int64_t index) const override;
  void read(int64_t index, Fields& sample) const override;

  void write_index(IndexWriter& to) const override {
    for (const Part& part : parts_) part.samples->write_index(to);
  }
  void read_index(IndexReader& from) override {
    for (const Part& part : parts_) part.samples->read_index(from);
  }

  // Each set with its samples in an epoch, and how often that is through it.
  std::string description() const;

 private:
  // The set of a sample, and its number there.
  std::pair<const Dataset*, int64_t> find(int64_t index) const;
  int64_t samples_of(std::size_t part) const { return ends_[part] - (part == 0 ? 0 : ends_[part - 1]); }

  std::vector<Part> parts_;
  std::vector<int64_t> ends_;  // of each set's samples in an epoch
};

}  // namespace recollect
