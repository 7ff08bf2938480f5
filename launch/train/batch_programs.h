// Which program runs a micro-batch: one for each length that sequences are padded to. Data ranks, and the micro-batches
// of a step, may differ in it; ranks of one model agree. What any rank of the world needs and does not have yet, all
// make together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/data/loader.h"
#include "launch/program/program_cache.h"

namespace recollect {

class BatchPrograms {
 public:
  // `most`: micro-batches that are prepared at a time. Everything passed must outlive this.
  BatchPrograms(const Config& config, const Mesh& mesh, ProgramCache& programs, int64_t most);

  // Collective where lengths change. Allocates nothing where all lengths are known. Error kRanksDisagree where ranks of
  // one model have other lengths.
  void prepare(std::span<const MicroBatch> micro_batches);
  ReadyProgram& of(const MicroBatch& micro) { return programs_.at(shape(micro.length)); }
  // Of all data ranks' micro-batches that were prepared last, padding included.
  int64_t tokens() const;

 private:
  BatchShape shape(int64_t length) const;
  void check_alike(std::size_t count) const;

  const Mesh& mesh_;
  ProgramCache& programs_;
  BatchShape longest_;
  bool changes_;                // lengths do
  std::vector<int64_t> own_;    // data rank, then the length of each micro-batch
  std::vector<int64_t> world_;  // the same of all ranks
  std::vector<int64_t> wanted_;
  std::size_t count_ = 0;  // of micro-batches prepared last
};

}  // namespace recollect
