// A whole safetensors file: what its header lists lies inside it.
#include "engine/io/safetensors_header.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  fuzz::accepts([&] {
    const SafetensorsHeader header = parse_safetensors_header(text, text.size(), "f.safetensors");
    fuzz::expect(header.by_name.size() == header.entries.size(), "an index of another length");
    for (const TensorEntry& entry : header.entries)
      fuzz::expect(entry.bytes <= text.size() && entry.offset <= text.size() - entry.bytes,
                   "a tensor that is not in the file");
  });
}
