// Headers of token files: 'n' and a .npy, 'c' and one of llm.c's, 'm' and an .idx of Megatron's (behind the
// size of its .bin in eight bytes). A layout that is accepted lies inside the file.
#include <cstring>

#include "engine/data/token_formats.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  if (text.empty()) return;
  const char kind = text.front();
  text.remove_prefix(1);
  uint64_t available = text.size();
  if (kind == 'm') {
    if (text.size() < sizeof available) return;
    std::memcpy(&available, text.data(), sizeof available);
    text.remove_prefix(sizeof available);
  }
  const Bytes bytes = std::as_bytes(std::span(text.data(), text.size()));
  fuzz::accepts([&] {
    TokenLayout layout;
    if (kind == 'n' && is_npy(bytes)) layout = parse_npy(bytes, bytes.size(), "f");
    if (kind == 'c' && is_llmc(bytes)) layout = parse_llmc(bytes, bytes.size(), "f");
    if (kind == 'm' && is_megatron_index(bytes))
      layout = parse_megatron_index(bytes, "f.idx", available, "f.bin");
    fuzz::expect(
        layout.offset <= available && layout.count <= (available - layout.offset) / size_of(layout.type),
        "tokens that are not in the file");
  });
}
