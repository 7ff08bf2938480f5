// Optimizer states and masters that are kept outside the device between two updates. A parameter is updated in chunks of
// its elements: what is kept of a chunk is fetched on a side stream while the chunks before it are updated, and stored
// while those behind it are, so that the device holds a few chunks and no more. That is for rules that treat each element
// by itself, or each row, of which chunks are whole then; an element has the bits that it would have anywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/graph/op_builder.h"
#include "parallel/optimizers/rule.h"
#include "parallel/parameter.h"

namespace recollect {

struct ElementRange {
  int64_t first = 0, count = 0;
  bool operator==(const ElementRange&) const = default;
};

// Chunks begin at multiples of so many elements: in a file on whole blocks, whatever their dtype. Those of whole rows begin
// at multiples of so many rows too: in memory on cache lines, also where a state has a number for each row.
inline constexpr int64_t kChunkGrain = 4096, kRowGrain = 16;

// About equal chunks of no more than `most` elements, which is a multiple of kChunkGrain, one behind the other.
std::vector<ElementRange> cut_into_chunks(int64_t elements, int64_t most);
// Those of whole rows. Where the number of columns is no multiple of a large power of two many rows go together, and a
// chunk may have more than `most` elements.
std::vector<ElementRange> cut_into_rows(int64_t rows, int64_t columns, int64_t most);

// Indices of those that leave, of several that take so many bytes: the largest first, until they have the share `ratio` of
// all. Those that may not leave count in the whole.
std::vector<char> choose_offloaded(const std::vector<uint64_t>& bytes, const std::vector<char>& may_leave,
                                   double ratio);

// Where states are kept, as values have it.
MemorySpace space_of(OffloadTo to);

// What a value has from element `first` on, in `shape`, where it lies.
ValueId chunk_of(Graph& graph, ValueId whole, const Shape& shape, int64_t first, const std::string& suffix);

class OffloadedStates {
 public:
  // `whole_rows`: updates need them. `before`: a value that the compute stream makes last before the updates; kNone where
  // there is none.
  OffloadedStates(Graph& graph, const OpRegistry& registry, const StateOffload& settings, bool whole_rows,
                  ValueId before);

  // A parameter, or a data rank's part of it, with the gradient, the master and the states that are updated. Those masters
  // and states that lie elsewhere travel. In the order of updates.
  void add(const Parameter& parameter);

  // The ops of the next parameter that was added. `update` appends those of one chunk, whose master and states are where
  // an update finds them. Returns what the last of them makes of the parameter.
  using Update = std::function<void(const Parameter& chunk)>;
  ValueId update_next(const Update& update);

  const OffloadReport& report() const { return report_; }

 private:
  struct Move {
    ValueId kept = kNone;
    std::size_t place = 0;  // 0: the master; else of the states, from 1 on
  };
  struct Chunk {
    Parameter piece;
    std::vector<Move> moves = {};
    bool is_last = false;  // of its parameter
  };

  std::vector<ElementRange> cut(const Shape& parameter) const;
  ValueId part_of(ValueId whole, const Shape& parameter, const ElementRange& range,
                  const std::string& suffix);
  ValueId take(ValueId state, const Shape& parameter, const ElementRange& range, const std::string& suffix,
               std::size_t place, Chunk& chunk);
  std::vector<ValueId> with_ring(ValueId value);
  ValueId& staged(Chunk& chunk, const Move& move);
  void fetch(std::size_t number);
  void store(Chunk& chunk);

  Graph& graph_;
  OpBuilder ops_;
  const StateOffload settings_;
  const MemorySpace space_;
  const bool whole_rows_;
  const ValueId before_;
  ValueId ring_ = kNone;
  std::vector<Chunk> chunks_;
  std::size_t next_ = 0;  // to be updated
  OffloadReport report_;
};

}  // namespace recollect
