// The words behind `recollect run`, one a line.
#include "launch/run/options.h"
#include "tests/fuzz/parse.h"

#ifndef RECOLLECT_REPLAY  // which has the whole program
namespace recollect {

// The launcher's parser asks for them when a word is missing; the commands themselves are not under test
// here.
std::string usage() { return "usage"; }
std::span<const Command> commands() { return {}; }

}  // namespace recollect
#endif

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
