// Sentences of tagged words, as CoNLL's columns and as lines of JSON: of what is accepted every word has a tag, a line and
// a sentence; and what CoNLL's columns say is the same when written again.
#include "engine/data/tagged_words.h"
#include "tests/engine/temporary_folder.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

namespace {

void check(const TaggedWords& words, bool tagged) {
  std::size_t at = 0;
  int64_t line = 0;
  fuzz::expect(words.sentences() > 0, "a file without sentences");
  for (std::size_t i = 0; i < words.sentences(); ++i) {
    fuzz::expect(words.begin(i) == at && words.begin(i + 1) >= at, "sentences with words between them");
    for (; at < words.begin(i + 1); ++at) {
      fuzz::expect(words.line(at) >= line, "words in another order than the file's");
      line = words.line(at);
      fuzz::expect(!tagged || words.tag(at) < words.tags().size(), "a tag that is none");
    }
  }
}

std::string written(const TaggedWords& words, bool tagged) {
  std::string text = "\n";  // a mark of the byte order belongs to no word, unless it stands behind something
  for (std::size_t i = 0; i < words.sentences(); ++i) {
    for (std::size_t word = words.begin(i); word < words.begin(i + 1); ++word) {
      text += words.word(word);
      if (tagged) text += ' ' + words.tags()[words.tag(word)];
      text += "\r\n";  // a word may end in one of its own
    }
    text += '\n';
  }
  return text;
}

}  // namespace

RECOLLECT_FUZZ(text) {
  static const test::TemporaryFolder folder;
  const std::string path = folder.write("words", text);
  BadRecords bad;
  for (const bool tagged : {true, false})
    fuzz::accepts([&] {
      const TaggedWords words = TaggedWords::read_conll(path, tagged, bad);
      check(words, tagged);
      const std::string again = written(words, tagged);
      fuzz::expect(
          written(TaggedWords::read_conll(folder.write("again", again), tagged, bad), tagged) == again,
          "sentences that were written read back as others");
    });
  for (const char* tags : {"t", ""})
    fuzz::accepts([&] { check(TaggedWords::read_jsonl(path, "w", tags, bad), *tags != '\0'); });
}
