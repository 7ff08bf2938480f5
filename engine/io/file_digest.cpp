#include "engine/io/file_digest.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "engine/core/hash.h"
#include "engine/io/input_file.h"

namespace recollect {

std::string file_digest(const std::string& path, uint64_t most) {
  constexpr uint64_t kBlock = 64 << 10;
  const InputFile file(path);
  const uint64_t size = file.size(), blocks = std::max<uint64_t>(2, most / kBlock);
  const bool whole = size <= blocks * kBlock;
  const uint64_t count = whole ? (size + kBlock - 1) / kBlock : blocks;
  std::vector<std::byte> block(kBlock);
  std::vector<uint64_t> hashes;
  for (uint64_t i = 0; i < count; ++i) {
    // For a sample, the first block begins where the file does, and the last one ends with it.
    const uint64_t spread = (size - std::min(size, kBlock)) / std::max<uint64_t>(1, count - 1);
    const uint64_t begin = whole ? i * kBlock : i + 1 == count ? size - kBlock : i * spread;
    const std::span<std::byte> bytes = std::span(block).first(std::min(kBlock, size - begin));
    file.read_at(begin, bytes);
    hashes.push_back(hash_bytes(bytes.data(), bytes.size()));
  }
  return fmt::format("{} bytes, {:016x}", size, hash_bytes(hashes.data(), hashes.size() * sizeof(uint64_t)));
}

}  // namespace recollect
