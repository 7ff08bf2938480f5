// A configuration as `train` reads it: the file, and behind a zero byte the words of the command line, one a
// line. What is accepted means the same after it was written out and read again.
#include "engine/core/printable.h"
#include "launch/config/keys.h"
#include "launch/config/read.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  const std::string_view document = fuzz::take_until(text, '\0');
  std::vector<std::string> words;
  while (!text.empty()) words.emplace_back(fuzz::take_until(text, '\n'));
  try {
    const Config config = read_config_text("f.yaml", document, words);
    fuzz::expect(flatten(read_config_text("dump", dump_resolved(config))) == flatten(config),
                 "what was written reads back as something else");
  } catch (const Error& error) {
    fuzz::expect(error.code() == ExitCode::kConfiguration, error.what());
    fuzz::expect(printable_lines(error.what()) == error.what(), "a message that commands the terminal");
  }
}
