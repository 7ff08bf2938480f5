// One rank's part of a snapshot: a safetensors file, written from its first byte to its last with a check sum of every
// MiB, and read so that no byte is used whose MiB has not been compared with its sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/io/input_file.h"
#include "engine/io/safetensors_header.h"
#include "parallel/snapshot/manifest.h"

namespace recollect {

// How parts lie in a file: those of wider elements first, behind a head that names them.
struct ShardForm {
  struct Piece {
    std::size_t part = 0;
    uint64_t offset = 0, bytes = 0;  // in the file
  };
  std::string head;
  std::vector<Piece> pieces;                                  // one behind the other
  uint64_t bytes = 0;                                         // of the file
  std::vector<std::pair<std::size_t, SnapshotShard>> shards;  // as SnapshotPart has them
};
// `whole` is what the parts are of.
ShardForm form_of_shard(const std::vector<StateTensor>& whole, const std::vector<StatePart>& parts);

// Claims the disk's space, writes a file that is in memory, from a multiple of kDiskBlock on, and flushes. Past the system's
// page cache nothing is copied. `sums`: CRC-32C of every kSummedBytes bytes. Error kStorage; then nothing has the file's name.
SnapshotPart write_shard_image(const std::string& folder, const std::string& name, const ShardForm& form,
                               const std::byte* image, const std::vector<uint32_t>& sums);

// Bytes of part number `part`, from `first` on; they are used before the next call.
using ReadState = std::function<const std::byte*(std::size_t part, uint64_t first, std::size_t bytes)>;

// Bytes that a file which is not in memory is put together in on its way to the disk.
inline constexpr std::size_t kStagedBytes = std::size_t{2} << 20;

// The same of parts that `read` brings. `stage`: kStagedBytes that begin at a multiple of kDiskBlock.
SnapshotPart write_shard_file(const std::string& folder, const std::string& name, const ShardForm& form,
                              const ReadState& read, std::byte* stage);

class ShardFile {
 public:
  // Error kInput where the file is missing, has another size, or its header is damaged.
  ShardFile(const std::string& folder, const SnapshotFile& expected);

  // Bytes of a tensor; error kInput, naming file and offset, where they are not those that were written.
  // `expected` is what the manifest says of the tensor.
  void read(const SnapshotShard& shard, DType dtype, uint64_t first, std::span<std::byte> to);
  // All of it.
  void verify();

 private:
  void load_block(uint64_t block);

  InputFile file_;
  SnapshotFile expected_;
  SafetensorsHeader header_;
  std::vector<std::byte> block_;  // the last one that was read, and good
  uint64_t loaded_ = ~uint64_t{0};
};

}  // namespace recollect
