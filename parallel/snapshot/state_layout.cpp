#include "parallel/snapshot/state_layout.h"

#include <algorithm>
#include <numeric>

#include "engine/core/error.h"

namespace recollect {

Rectangle common_part(const Rectangle& a, const Rectangle& b) {
  const auto meet = [](int64_t a_first, int64_t a_count, int64_t b_first, int64_t b_count) {
    const int64_t first = std::max(a_first, b_first), end = std::min(a_first + a_count, b_first + b_count);
    return std::pair(first, std::max<int64_t>(0, end - first));
  };
  const auto [row, rows] = meet(a.row, a.rows, b.row, b.rows);
  const auto [column, columns] = meet(a.column, a.columns, b.column, b.columns);
  return {row, rows, column, columns};
}

std::string state_name(const std::string& parameter, const std::string& state) {
  return state.empty() ? parameter : parameter + "/" + state;
}

StateOf kind_of_state(const Parameter& parameter, const StateTensor& tensor) {
  if (parameter.vector) return StateOf::kElements;
  if (tensor.vector) return StateOf::kRows;
  if (tensor.columns != parameter.columns) return StateOf::kBlocks;
  return tensor.rows == 1 ? StateOf::kColumns : StateOf::kElements;
}

// Of a row that this rank holds; "first" on the whole's.
StateLayout::Columns StateLayout::columns_of(const Parameter& p, StateOf of, int tensor_rank) const {
  if (of == StateOf::kRows) return {0, 1, 1};
  const int64_t first = p.whole_column(0, tensor_rank, tensor_size_), count = p.local_columns(tensor_size_);
  if (of != StateOf::kBlocks) return {first, count, p.columns};
  const int64_t blocks = quantised_blocks(count), parts = p.block_parts(tensor_size_);
  return {p.split == Parameter::Split::kColumns ? tensor_rank * blocks : 0, blocks,
          parts * quantised_blocks(p.columns / parts)};
}

void StateLayout::add(const Parameter& p, const std::vector<Kept>& kept) {
  savers_.clear();
  const std::vector<Parameter::FileTensor> blocks = p.file_tensors();
  for (std::size_t b = 0; b < blocks.size(); ++b)
    for (const Kept& one : kept) {
      const bool of_columns = one.of == StateOf::kColumns, of_rows = one.of == StateOf::kRows;
      tensors_.push_back({state_name(blocks[b].name, one.state), one.dtype, of_columns ? 1 : blocks[b].rows,
                          columns_of(p, one.of, 0).whole, p.vector || of_rows});
      origins_.push_back({&p, b, blocks[b].first_row, one.of, one.divided});
    }
}

// Ranks of one shard hold the same parts of the tensor.
int StateLayout::shard_of(const Origin& origin, int world_rank) const {
  const Parameter& p = *origin.parameter;
  const int tensor_rank = world_rank % tensor_size_, data_rank = world_rank / tensor_size_;
  const bool whole = p.split == Parameter::Split::kNone ||
                     (p.split == Parameter::Split::kRows && origin.of == StateOf::kColumns) ||
                     (p.split == Parameter::Split::kColumns && origin.of == StateOf::kRows);
  const int shards = whole ? 1 : tensor_size_ / p.repeats, shard = whole ? 0 : tensor_rank / p.repeats;
  return origin.divided ? data_rank * shards + shard : shard;
}

std::vector<StatePart> StateLayout::held_by(int world_rank) const {
  std::vector<StatePart> parts;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    if (origins_[t].of == StateOf::kColumns)
      parts.push_back(part_of_columns(t, world_rank % tensor_size_));
    else
      add_parts_of_rows(t, world_rank, parts);
  }
  return parts;
}

// In memory the columns of one matrix stand behind those of the one before it.
StatePart StateLayout::part_of_columns(std::size_t tensor, int rank) const {
  const Origin& origin = origins_[tensor];
  const Parameter& p = *origin.parameter;
  const int64_t columns = p.local_columns(tensor_size_);
  const uint64_t bytes = static_cast<uint64_t>(columns) * size_of(tensors_[tensor].dtype);
  return {tensor, {0, 1, p.whole_column(0, rank, tensor_size_), columns}, origin.block * bytes, bytes};
}

void StateLayout::add_parts_of_rows(std::size_t t, int world_rank, std::vector<StatePart>& parts) const {
  const auto& [parameter, block, first_row, of, divided] = origins_[t];
  const Parameter& p = *parameter;
  const int rank = world_rank % tensor_size_, data_rank = world_rank / tensor_size_;
  const Columns of_row = columns_of(p, of, rank);
  const int64_t all = p.local_rows(tensor_size_), column = of_row.first, columns = of_row.count;
  const int64_t begin = divided ? std::min(all, data_rank * p.part_rows) : 0,
                end = divided ? std::min(all, begin + p.part_rows) : all;
  const uint64_t width = static_cast<uint64_t>(columns) * size_of(tensors_[t].dtype);
  const std::size_t first = parts.size();
  for (int64_t r = begin, together = 0; r < end; r += together) {
    const Parameter::RowPlace place = p.place_of_row(r, rank, tensor_size_);
    together = std::min(place.together, end - r);
    const int64_t count = std::clamp<int64_t>(p.rows - place.row, 0, together), row = place.row - first_row;
    if (count == 0 || place.tensor != block) continue;
    const auto offset = static_cast<uint64_t>(r - begin) * width,
               bytes = static_cast<uint64_t>(count) * width;
    if (parts.size() > first) {
      StatePart& before = parts.back();
      if (before.place.row + before.place.rows == row && before.offset + before.bytes == offset) {
        before.place.rows += count;
        before.bytes += bytes;
        continue;
      }
    }
    parts.push_back({t, {row, count, column, columns}, offset, bytes});
  }
}

// The largest tensors first, each shard to whom it makes the least loaded.
std::vector<std::vector<int>> StateLayout::savers() const {
  std::vector<std::size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tensors_[a].bytes() > tensors_[b].bytes(); });
  std::vector<uint64_t> load(static_cast<std::size_t>(world_size_), 0);
  std::vector<std::vector<int>> savers(tensors_.size());
  for (const std::size_t t : order) {
    for (int rank = 0; rank < world_size_; ++rank) {
      const auto shard = static_cast<std::size_t>(shard_of(origins_[t], rank));
      if (shard >= savers[t].size()) savers[t].resize(shard + 1, -1);
      int& saver = savers[t][shard];
      if (saver < 0 || load[static_cast<std::size_t>(rank)] < load[static_cast<std::size_t>(saver)])
        saver = rank;
    }
    for (const int saver : savers[t])
      load[static_cast<std::size_t>(saver)] += tensors_[t].bytes() / savers[t].size();
  }
  return savers;
}

std::vector<StatePart> StateLayout::saved_by(int world_rank) const {
  if (savers_.empty()) savers_ = savers();
  std::vector<StatePart> parts = held_by(world_rank);
  std::erase_if(parts, [&](const StatePart& part) {
    const auto shard = static_cast<std::size_t>(shard_of(origins_[part.tensor], world_rank));
    return savers_[part.tensor][shard] != world_rank;
  });
  return parts;
}

}  // namespace recollect
