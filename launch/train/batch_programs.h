// Selects the program that runs a micro-batch: one for each length to which sequences are padded. Data ranks,
// and the micro-batches of a step, may have different lengths; the ranks of one replica have the same. If any
// rank of the world lacks a program, all ranks make it together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/data/loader.h"
#include "launch/program/program_cache.h"

namespace recollect {

class BatchPrograms {
 public:
  // `most` is the largest number of micro-batches to prepare at a time. All arguments must outlive this
  // object.
  BatchPrograms(const Config& config, const Mesh& mesh, ProgramCache& programs, int64_t most);

  // Collective if lengths vary. Allocates nothing if all lengths are known. Throws kRanksDisagree if ranks of
  // one replica have different lengths.
  void prepare(std::span<const MicroBatch> micro_batches);
  ReadyProgram& of(const MicroBatch& micro) { return programs_.at(shape(micro.length)); }
  // The tokens of the last prepared micro-batches of all data ranks, including padding.
  int64_t tokens() const;

 private:
  BatchShape shape(int64_t length) const;
  void check_alike(std::size_t count) const;

  const Mesh& mesh_;
  ProgramCache& programs_;
  BatchShape longest_;
  bool changes_;                // whether lengths vary
  std::vector<int64_t> own_;    // data rank, then the length of each micro-batch
  std::vector<int64_t> world_;  // the same for all ranks
  std::vector<int64_t> wanted_;
  std::size_t count_ = 0;  // micro-batches prepared last
};

}  // namespace recollect
