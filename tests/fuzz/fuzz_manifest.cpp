// A snapshot's manifest: as it is, and with the check sum that it should have, so that what it says is looked at too.
// Of what is accepted the files have plain names, and the parts of a tensor are as large as the whole.
#include <fmt/format.h>

#include "engine/io/crc32c.h"
#include "parallel/snapshot/manifest.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

namespace {

void parse(std::string_view text) {
  fuzz::accepts([&] {
    const Manifest manifest = parse_manifest(text, "manifest.json");
    for (const SnapshotFile& file : manifest.files)
      fuzz::expect(file.name.find('/') == std::string::npos && !file.name.starts_with('.'),
                   "a file that may be outside the snapshot");
    for (const auto& [whole, shards] : manifest.tensors) {
      int64_t elements = 0;
      for (const SnapshotShard& shard : shards) {
        fuzz::expect(common_part(shard.place, {0, whole.rows, 0, whole.columns}) == shard.place,
                     "a part that is not in its tensor");
        fuzz::expect(shard.file < manifest.files.size(), "a part in no file");
        elements += shard.place.elements();
      }
      fuzz::expect(elements == whole.rows * whole.columns, "parts that are not the whole");
    }
    const std::string again = to_json(manifest);
    fuzz::expect(to_json(parse_manifest(again, "again.json")) == again,
                 "a manifest that was written reads back as another");
  });
}

}  // namespace

RECOLLECT_FUZZ(text) {
  constexpr std::string_view kSum = ",\n\"crc32c\": \"";
  parse(text);
  const std::string_view before = text.substr(0, text.rfind(kSum));
  parse(fmt::format("{}{}{:08x}\"}}\n", before, kSum, crc32c(before)));
}
