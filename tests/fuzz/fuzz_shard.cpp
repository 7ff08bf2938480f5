// A rank's file of a snapshot whose check sums are good: of what is accepted all that its header lists is in it, and read.
// And with one bit changed behind the sums' back: never accepted.
#include "engine/io/crc32c.h"
#include "parallel/snapshot/shard_file.h"
#include "tests/engine/temporary_folder.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

namespace {

SnapshotFile expected_of(std::string_view text) {
  SnapshotFile file{.name = "rank-00000.safetensors", .bytes = text.size()};
  for (std::size_t at = 0; at < text.size(); at += kSummedBytes)
    file.sums.push_back(crc32c(text.substr(at, kSummedBytes)));
  return file;
}

}  // namespace

RECOLLECT_FUZZ(text) {
  static const test::TemporaryFolder folder;
  const SnapshotFile expected = expected_of(text);
  folder.write(expected.name, text);
  const bool good = fuzz::accepts([&] {
    ShardFile file(folder.path(), expected);
    file.verify();
    float values[4];
    const SnapshotShard shard{.tensor = "w", .place = {0, 2, 0, 2}};
    if (fuzz::accepts([&] { file.read(shard, DType::kF32, 0, {}); }))
      file.read(shard, DType::kF32, 0, std::as_writable_bytes(std::span(values)));
  });
  if (!good) return;
  std::string changed(text);
  const uint32_t place = crc32c(text);
  changed[place % changed.size()] ^= static_cast<char>(1 << place % 8);
  folder.write(expected.name, changed);
  fuzz::expect(!fuzz::accepts([&] { ShardFile(folder.path(), expected).verify(); }),
               "a bit that is not what was written");
}
