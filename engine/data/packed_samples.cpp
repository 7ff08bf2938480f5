#include "engine/data/packed_samples.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "engine/core/error.h"
#include "engine/data/row_blocks.h"

namespace recollect {
namespace {

static_assert(std::endian::native == std::endian::little, "the first bytes of a number are its low ones");

// After which samples go to the next block: their ends are numbers of 32 bits, and no sample has this many bytes.
constexpr std::size_t kBytesOfABlock = std::size_t{1} << 31;

std::size_t lists_of(const PackedSamples::Part& part) { return std::max<std::size_t>(part.lists, 1); }

}  // namespace

PackedSamples::PackedSamples(std::vector<Part> parts, int64_t sequence_length)
    : parts_(std::move(parts)), sequence_length_(sequence_length), most_numbers_(parts_.size()) {
  for (const Part& part : parts_) lists_ += lists_of(part);
  require(std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.name == "ids"; }),
          "samples without ids");
}

void PackedSamples::append(const Fields& sample) {
  if (blocks_.empty() || blocks_.back().bytes.size() > kBytesOfABlock) blocks_.push_back({.behind = size()});
  Block& block = blocks_.back();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const auto field =
        std::find_if(sample.begin(), sample.end(), [&](const Field& one) { return one.name == part.name; });
    require(field != sample.end() && field->ends.size() == part.lists,
            "a sample lacks a field, or has it as other lists");
    const std::size_t begin = block.bytes.size();
    block.bytes.resize(begin + field->values.size() * part.width);
    std::byte* into = block.bytes.data() + begin;
    for (const int32_t value : field->values) {
      require(part.width == 4 || (value >= 0 && value >> (8 * part.width) == 0), "a number that is too wide");
      std::memcpy(std::exchange(into, into + part.width), &value, part.width);
    }
    for (const std::size_t end : field->ends)
      block.ends.push_back(static_cast<uint32_t>(begin + end * part.width));
    if (part.lists == 0) block.ends.push_back(static_cast<uint32_t>(block.bytes.size()));
    most_numbers_[i] = std::max(most_numbers_[i], field->values.size());
  }
  ++block.behind;
}

void PackedSamples::append(PackedSamples behind) {
  require(behind.lists_ == lists_ && behind.parts_.size() == parts_.size(), "samples of other fields");
  const int64_t before = size();
  for (Block& block : behind.blocks_) {
    block.behind += before;
    blocks_.push_back(std::move(block));
  }
  for (std::size_t i = 0; i < parts_.size(); ++i)
    most_numbers_[i] = std::max(most_numbers_[i], behind.most_numbers_[i]);
}

void PackedSamples::shrink() {
  for (Block& block : blocks_) {
    block.bytes.shrink_to_fit();
    block.ends.shrink_to_fit();
  }
}

int64_t PackedSamples::size() const { return blocks_.empty() ? 0 : blocks_.back().behind; }

std::size_t PackedSamples::bytes() const {
  std::size_t bytes = 0;
  for (const Block& block : blocks_) bytes += block.bytes.size() + block.ends.size() * sizeof(block.ends[0]);
  return bytes;
}

std::pair<const PackedSamples::Block*, std::size_t> PackedSamples::find(int64_t index) const {
  require(index >= 0 && index < size(), "sample index out of range");
  const auto block = std::upper_bound(blocks_.begin(), blocks_.end(), index,
                                      [](int64_t i, const Block& one) { return i < one.behind; });
  const int64_t first = block == blocks_.begin() ? 0 : std::prev(block)->behind;
  return {&*block, static_cast<std::size_t>(index - first) * lists_};
}

int64_t PackedSamples::length(int64_t index) const {
  auto [block, at] = find(index);
  std::size_t longest = 0;
  for (const Part& part : parts_)
    for (std::size_t list = 0; list < lists_of(part); ++list, ++at)
      if (part.name == "ids")
        longest = std::max(longest, (block->ends[at] - block->begin_of(at)) / part.width);
  return static_cast<int64_t>(longest);
}

void PackedSamples::read(int64_t index, Fields& sample) const {
  auto [block, at] = find(index);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    Field& field = sample.field(part.name);
    field.dtype = part.dtype;
    field.values.reserve(most_numbers_[i]);
    field.ends.reserve(part.lists);
    const std::size_t begin = block->begin_of(at);
    for (std::size_t list = 0; list < part.lists; ++list)
      field.ends.push_back((block->ends[at + list] - begin) / part.width);
    at += lists_of(part);
    field.values.assign((block->ends[at - 1] - begin) / part.width, 0);
    const std::byte* from = block->bytes.data() + begin;
    for (int32_t& value : field.values)
      std::memcpy(&value, std::exchange(from, from + part.width), part.width);
  }
}

PackedSamples prepare_samples(std::size_t rows, int threads, const PackedSamples& empty,
                              const MakeSample& make, BadRecords& bad, std::vector<std::size_t>* left_out) {
  constexpr std::size_t kRowsOfABlock = 256;
  std::vector<PackedSamples> results(count_blocks(rows, kRowsOfABlock), empty);
  std::vector<BadRecords> passed_over(results.size(), BadRecords(bad.choice()));
  std::vector<std::vector<std::size_t>> without(results.size());
  for_each_block(rows, kRowsOfABlock, threads, [&](const RowBlock& block, EncodingMemory& memory) {
    Fields sample;
    for (std::size_t row = block.begin; row < block.end; ++row) {
      sample.clear();
      try {
        make(row, memory, sample);
      } catch (const Error& error) {
        if (!passed_over[block.number].passes_over(error)) throw;
        without[block.number].push_back(row);
        continue;
      }
      results[block.number].append(sample);
    }
    results[block.number].shrink();
  });
  PackedSamples all = empty;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].size() > 0) all.append(std::move(results[i]));
    bad.append(passed_over[i]);
    if (left_out) left_out->insert(left_out->end(), without[i].begin(), without[i].end());
  }
  return all;
}

}  // namespace recollect
