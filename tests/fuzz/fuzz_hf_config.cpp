// A config.json of Hugging Face's.
#include "launch/config/hf_config.h"
#include "tests/engine/temporary_folder.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  static const test::TemporaryFolder folder;
  const std::string path = folder.write("config.json", text);
  fuzz::accepts([&] { read_hf_config(path); });
}
