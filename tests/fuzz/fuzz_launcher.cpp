// The words behind `recollect run`, one a line.
#include "launch/run/options.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

RECOLLECT_FUZZ(text) {
  Words words;
  while (!text.empty()) words.emplace_back(fuzz::take_until(text, '\n'));
  fuzz::accepts([&] {
    const launcher::RunOptions options = launcher::read_run_options(words);
    if (options.program.empty()) return;  // --help
    fuzz::expect(options.ranks >= 1 && options.output.size() == static_cast<std::size_t>(options.ranks),
                 "ranks without an output");
  });
}
