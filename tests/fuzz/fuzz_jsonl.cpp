// Lines of JSON: as training data, whose ids are inside the vocabulary whatever the file holds, and as text
// to be tokenized.
#include "engine/core/ignored_label.h"
#include "engine/data/corpus.h"
#include "engine/data/dataset.h"
#include "tests/engine/temporary_folder.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  static const test::TemporaryFolder folder;
  const std::string path = folder.write("f.jsonl", text);
  fuzz::accepts([&] {
    const auto dataset = open_dataset(
        {.format = DataFormat::kJsonl, .paths = {path}, .sequence_length = 8, .vocabulary_size = 100});
    Fields sample;
    for (int64_t i = 0; i < dataset->size(); ++i) {
      sample.clear();
      dataset->read(i, sample);
      fuzz::expect(sample["ids"].size() <= 8, "a sample that is too long");
      for (const int32_t id : sample["ids"])
        fuzz::expect(id >= 0 && id < 100, "an id outside the vocabulary");
      for (const int32_t label : sample["labels"])
        fuzz::expect(label == kIgnoredLabel || (label >= 0 && label < 100), "a label outside the vocabulary");
    }
  });
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = fuzz::take_until(rest, '\n');
    fuzz::accepts([&] { text_of_json(line, "text", path, 0); });
  }
}
