#include "parallel/snapshot/shard_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

// A file from its first byte to its last, past the system's page cache. What is given begins at a multiple of kDiskBlock in
// memory, and is as many whole blocks but for the last.
class Stream {
 public:
  Stream(const std::string& path, const ShardForm& form) : file_(path), bytes_(form.bytes) {
    file_.reserve(form.bytes);
    file_.write_directly();
  }
  void write(std::span<const std::byte> bytes) {
    const std::size_t blocks = bytes.size() / kDiskBlock * kDiskBlock;
    file_.write_at(written_, bytes.first(blocks));
    file_.write_at(written_ + blocks, bytes.subspan(blocks));
    written_ += bytes.size();
  }
  void commit() {
    require(written_ == bytes_, "a shard's file has the size of its form");
    file_.commit();
  }

 private:
  ReplacementFile file_;
  uint64_t bytes_, written_ = 0;
};

// What is given in pieces of any size goes on as many bytes at a time as there is room for, with their sums.
class Stage {
 public:
  Stage(Stream& stream, std::byte* room) : stream_(stream), room_(room) {}
  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), kStagedBytes - staged_);
      std::memcpy(room_ + staged_, bytes.data(), count);
      bytes.remove_prefix(count);
      staged_ += count;
      if (staged_ == kStagedBytes) flush();
    }
  }
  std::vector<uint32_t> finish() {
    flush();
    return std::move(sums_);
  }

 private:
  static_assert(kStagedBytes % kSummedBytes == 0);
  void flush() {
    const std::span<const std::byte> bytes(room_, std::exchange(staged_, 0));
    for (std::size_t first = 0; first < bytes.size(); first += kSummedBytes)
      sums_.push_back(crc32c(as_text(bytes).substr(first, kSummedBytes)));
    stream_.write(bytes);
  }

  Stream& stream_;
  std::byte* const room_;
  std::size_t staged_ = 0;
  std::vector<uint32_t> sums_;
};

SnapshotPart part_of(const std::string& name, const ShardForm& form, std::vector<uint32_t> sums) {
  return {.file = {.name = name, .bytes = form.bytes, .sums = std::move(sums)}, .shards = form.shards};
}

}  // namespace

ShardForm form_of_shard(const std::vector<StateTensor>& whole, const std::vector<StatePart>& parts) {
  std::vector<std::size_t> order(parts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(whole[parts[a].tensor].dtype) > size_of(whole[parts[b].tensor].dtype);
  });
  SafetensorsWriter layout("", {});
  ShardForm form;
  for (const std::size_t i : order) {
    const StateTensor& of = whole[parts[i].tensor];
    const Rectangle& place = parts[i].place;
    const std::string shard = shard_name(of, place);
    layout.declare(shard, of.dtype,
                   of.vector ? std::vector{place.rows} : std::vector{place.rows, place.columns});
    form.shards.emplace_back(parts[i].tensor, SnapshotShard{.tensor = shard, .place = place});
  }
  layout.lay_out();
  form.head = layout.head();
  form.bytes = layout.bytes();
  uint64_t offset = form.head.size();
  for (const std::size_t i : order) {
    form.pieces.push_back({.part = i, .offset = offset, .bytes = parts[i].bytes});
    offset += parts[i].bytes;
  }
  return form;
}

SnapshotPart write_shard_image(const std::string& folder, const std::string& name, const ShardForm& form,
                               const std::byte* image, const std::vector<uint32_t>& sums) {
  constexpr uint64_t kAtATime = 8 * kSummedBytes;
  Stream stream(folder + "/" + name, form);
  for (uint64_t first = 0; first < form.bytes; first += kAtATime)
    stream.write({image + first, static_cast<std::size_t>(std::min(kAtATime, form.bytes - first))});
  stream.commit();
  return part_of(name, form, sums);
}

SnapshotPart write_shard_file(const std::string& folder, const std::string& name, const ShardForm& form,
                              const ReadState& read, std::byte* stage) {
  Stream stream(folder + "/" + name, form);
  Stage staged(stream, stage);
  staged.append(form.head);
  for (const auto& [part, offset, bytes] : form.pieces)
    for (uint64_t first = 0; first < bytes; first += kSummedBytes) {
      const auto count = static_cast<std::size_t>(std::min(kSummedBytes, bytes - first));
      staged.append(as_text({read(part, first, count), count}));
    }
  std::vector<uint32_t> sums = staged.finish();
  stream.commit();
  return part_of(name, form, std::move(sums));
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
