#include "launch/train/batch_programs.h"

#include <algorithm>

#include <fmt/format.h>

#include "launch/program/lengths.h"

namespace recollect {

BatchPrograms::BatchPrograms(const Config& config, const Mesh& mesh, ProgramCache& programs, int64_t most)
    : mesh_(mesh),
      programs_(programs),
      longest_(batch_shape(config)),
      changes_(length_multiple(config) > 0),
      own_(static_cast<std::size_t>(1 + most)) {
  if (!changes_) return;
  world_.resize(own_.size() * static_cast<std::size_t>(mesh.world().size()));
  wanted_.reserve(world_.size());
}

BatchShape BatchPrograms::shape(int64_t length) const {
  BatchShape shape = longest_;
  shape.sequence_length = length;
  return shape;
}

void BatchPrograms::prepare(std::span<const MicroBatch> micro_batches) {
  count_ = micro_batches.size();
  require(count_ < own_.size(), "more micro-batches than a step has");
  if (!changes_) return;
  own_[0] = mesh_.data_rank();
  for (std::size_t i = 0; i < count_; ++i) own_[1 + i] = micro_batches[i].length;
  const auto each = static_cast<int64_t>(1 + count_), ranks = static_cast<int64_t>(mesh_.world().size());
  mesh_.world().all_gather({own_.data(), {each}, DType::kI64}, {world_.data(), {ranks * each}, DType::kI64});
  check_alike(count_);
  wanted_.clear();
  for (std::size_t i = 0; i < static_cast<std::size_t>(ranks * each); ++i)
    if (i % static_cast<std::size_t>(each) != 0 && !programs_.knows(shape(world_[i])))
      wanted_.push_back(world_[i]);
  std::sort(wanted_.begin(), wanted_.end());
  wanted_.erase(std::unique(wanted_.begin(), wanted_.end()), wanted_.end());
  for (const int64_t length : wanted_) programs_.at(shape(length));
}

void BatchPrograms::check_alike(std::size_t count) const {
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(mesh_.world().size()); ++rank) {
    const int64_t* const of_rank = world_.data() + rank * (1 + count);
    if (of_rank[0] != own_[0] || std::equal(of_rank + 1, of_rank + 1 + count, own_.begin() + 1)) continue;
    throw Error(ExitCode::kRanksDisagree,
                fmt::format("ranks {} and {} share a model and have read sequences of other lengths",
                            mesh_.world().rank(), rank),
                "their files differ: give every rank the same");
  }
}

int64_t BatchPrograms::tokens() const {
  if (!changes_)
    return static_cast<int64_t>(count_) * mesh_.data_size() * longest_.samples * longest_.sequence_length;
  int64_t sum = 0;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(mesh_.world().size()); ++rank)
    for (std::size_t i = 0; i < count_; ++i) sum += world_[rank * (1 + count_) + 1 + i];
  return sum / mesh_.tensor_size() * longest_.samples;
}

}  // namespace recollect
