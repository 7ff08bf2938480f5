// What the files beside a model's weights say of its classes and of the ends of its texts; both have the same text here.
#include "launch/config/saved_model.h"
#include "tests/engine/temporary_folder.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  static const test::TemporaryFolder folder;
  folder.write("config.json", text);
  const std::filesystem::path other = folder.write("generation_config.json", text);
  fuzz::accepts([&] {
    const std::string path = other.parent_path().string();
    for (const int32_t id : ends_of_text(path)) fuzz::expect(id >= 0, "an id that no token has");
    for (const std::string& name : saved_label_names(path))
      fuzz::expect(!name.starts_with("LABEL_0"), "a name that is none");
  });
}
