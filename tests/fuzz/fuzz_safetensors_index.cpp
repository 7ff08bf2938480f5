// A model.safetensors.index.json beside two shards, and a file outside that no shard may name.
#include "engine/io/safetensors.h"
#include "tests/engine/temporary_folder.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

namespace {

std::string shard(char name) {
  const std::string header =
      std::string(R"({")") + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(4, '\0');
}

struct Folder : test::TemporaryFolder {
  Folder() {
    write("model/a", shard('a'));
    write("model/b", shard('b'));
    write("c", shard('c'));
  }
};

}  // namespace

RECOLLECT_FUZZ(text) {
  static const Folder folder;
  const std::string path = folder.write("model/index.json", text);
  fuzz::accepts([&] {
    const SafetensorsSet set(path);
    fuzz::expect(!set.find("c"), "a tensor from outside the folder");
    for (const std::string& name : set.names()) {
      float value = 1;
      set.read_as(name, &value);
      fuzz::expect(value == 0, "another number than the shard's");
    }
  });
}
