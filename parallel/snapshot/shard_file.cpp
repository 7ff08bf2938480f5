#include "parallel/snapshot/shard_file.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "engine/core/arena.h"
#include "engine/core/error.h"
#include "engine/io/crc32c.h"
#include "engine/io/files.h"
#include "engine/io/safetensors_writer.h"
#include "engine/io/strict_json.h"

namespace recollect {

namespace {

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Of a file whose bytes come one behind the other.
class BlockSums {
 public:
  void add(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto count = static_cast<std::size_t>(std::min<uint64_t>(bytes.size(), kSummedBytes - in_block_));
      sum_ = crc32c(bytes.substr(0, count), sum_);
      in_block_ += count;
      bytes.remove_prefix(count);
      if (in_block_ == kSummedBytes) close();
    }
  }
  std::vector<uint32_t> finish() {
    if (in_block_ > 0) close();
    return std::move(sums_);
  }

 private:
  void close() {
    sums_.push_back(sum_);
    sum_ = 0;
    in_block_ = 0;
  }

  std::vector<uint32_t> sums_;
  uint32_t sum_ = 0;
  uint64_t in_block_ = 0;
};

// A file from its first byte to its last.
class Stream {
 public:
  Stream(ReplacementFile& file, std::byte* stage) : file_(file), stage_(stage) {}
  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t count = std::min({bytes.size(), kStagedBytes - staged_, kCached});
      sums_.add(bytes.substr(0, count));
      std::memcpy(stage_ + staged_, bytes.data(), count);
      bytes.remove_prefix(count);
      staged_ += count;
      if (staged_ == kStagedBytes) flush();
    }
  }
  std::vector<uint32_t> finish() {
    flush();
    return sums_.finish();
  }

 private:
  static constexpr std::size_t kCached = 64 << 10;  // is summed and copied while a cache holds it

  void flush() {
    const std::size_t blocks = staged_ / kDiskBlock * kDiskBlock;
    file_.write_at(written_, {stage_, blocks});
    file_.write_at(written_ + blocks, {stage_ + blocks, staged_ - blocks});
    written_ += staged_;
    staged_ = 0;
  }

  ReplacementFile& file_;
  std::byte* const stage_;
  std::size_t staged_ = 0;
  uint64_t written_ = 0;
  BlockSums sums_;
};

}  // namespace

SnapshotPart write_shard_file(const std::string& folder, const std::string& name,
                              const std::vector<StateTensor>& whole, const std::vector<StatePart>& parts,
                              const ReadState& read, std::byte* stage) {
  // As they lie in the file.
  std::vector<std::size_t> order(parts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(whole[parts[a].tensor].dtype) > size_of(whole[parts[b].tensor].dtype);
  });
  const std::string path = folder + "/" + name;
  SafetensorsWriter layout(path, {});
  SnapshotPart written;
  for (const std::size_t i : order) {
    const auto& [tensor, place, offset, bytes] = parts[i];
    const StateTensor& of = whole[tensor];
    const std::string shard = shard_name(of, place);
    layout.declare(shard, of.dtype,
                   of.vector ? std::vector{place.rows} : std::vector{place.rows, place.columns});
    written.shards.emplace_back(tensor, SnapshotShard{.tensor = shard, .place = place});
  }
  layout.lay_out();
  ReplacementFile file(path);
  file.reserve(layout.bytes());
  file.write_directly();
  Stream stream(file, stage);
  stream.append(layout.head());
  for (const std::size_t i : order)
    for (uint64_t first = 0, all = parts[i].bytes; first < all; first += kSummedBytes) {
      const auto count = static_cast<std::size_t>(std::min(kSummedBytes, all - first));
      stream.append(as_text({read(i, first, count), count}));
    }
  written.file = {.name = name, .bytes = layout.bytes(), .sums = stream.finish()};
  file.commit();
  return written;
}

ShardFile::ShardFile(const std::string& folder, const SnapshotFile& expected)
    : file_(folder + "/" + expected.name), expected_(expected) {
  if (file_.size() != expected_.bytes)
    throw Error(
        ExitCode::kInput,
        fmt::format("{} has {} bytes, and its snapshot says {}", file_.path(), file_.size(), expected_.bytes),
        "the snapshot is damaged");
  block_.reserve(static_cast<std::size_t>(std::min(kSummedBytes, expected_.bytes)));
  // The header, from blocks that are good.
  std::string begin;
  uint64_t needed = std::min<uint64_t>(expected_.bytes, sizeof(uint64_t));
  for (uint64_t block = 0; begin.size() < needed; ++block) {
    load_block(block);
    begin += as_text(block_);
    if (block == 0) needed = safetensors_header_bytes(begin, expected_.bytes, file_.path());
  }
  header_ = parse_safetensors_header(begin, expected_.bytes, file_.path());
}

void ShardFile::load_block(uint64_t block) {
  if (loaded_ == block) return;
  loaded_ = ~uint64_t{0};
  const uint64_t first = block * kSummedBytes;
  block_.resize(static_cast<std::size_t>(std::min(kSummedBytes, expected_.bytes - first)));
  file_.read_at(first, block_);
  if (const uint32_t sum = crc32c(as_text(block_)); sum != expected_.sums.at(block))
    throw Error(
        ExitCode::kInput,
        fmt::format("{} is damaged between bytes {} and {}: its check sum is {:08x}, and should be {:08x}",
                    file_.path(), first, first + block_.size(), sum, expected_.sums.at(block)),
        "take another snapshot; resume: auto does so by itself");
  loaded_ = block;
}

void ShardFile::read(const SnapshotShard& shard, DType dtype, uint64_t first, std::span<std::byte> to) {
  const auto by_name = [&](uint32_t i, const std::string& name) { return header_.entries[i].name < name; };
  const auto found = std::lower_bound(header_.by_name.begin(), header_.by_name.end(), shard.tensor, by_name);
  const TensorEntry* const entry =
      found == header_.by_name.end() || header_.entries[*found].name != shard.tensor
          ? nullptr
          : &header_.entries[*found];
  const auto bytes = static_cast<uint64_t>(shard.place.elements()) * size_of(dtype);
  if (!entry || entry->dtype != dtype || entry->bytes != bytes)
    throw Error(ExitCode::kInput,
                fmt::format("{} has not the tensor {} that its snapshot says", file_.path(),
                            escaped_name(shard.tensor)),
                "the snapshot is damaged");
  require(first <= bytes && to.size() <= bytes - first, "more of a tensor than there is");
  for (uint64_t at = entry->offset + first; !to.empty();) {
    load_block(at / kSummedBytes);
    const uint64_t in_block = at % kSummedBytes;
    const auto count = static_cast<std::size_t>(std::min<uint64_t>(to.size(), block_.size() - in_block));
    std::memcpy(to.data(), block_.data() + in_block, count);
    at += count;
    to = to.subspan(count);
  }
}

void ShardFile::verify() {
  for (uint64_t block = 0; block < expected_.sums.size(); ++block) load_block(block);
}

}  // namespace recollect
