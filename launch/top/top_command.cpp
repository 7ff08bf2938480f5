#include "launch/top/top_command.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "launch/top/run_view.h"
#include "launch/top/screen.h"
#include "launch/top/terminal.h"

namespace recollect {

namespace {

constexpr int kBetweenLooks = 1000;  // milliseconds
constexpr int kMostLines = 1 << 20;  // if the output is not a terminal

void show_once(RunWatcher& watcher) {
  ScreenSize size = terminal_size();
  size.height = kMostLines;
  if (!is_terminal()) size.width = std::max(size.width, 120);
  for (const std::string& line : screen_lines(watcher.look(), size, terminal_style()))
    fmt::print("{}\n", line);
}

void show_until_quit(RunWatcher& watcher) {
  Terminal terminal;
  std::size_t first = 0;
  while (true) {
    const RunView& run = watcher.look();
    terminal.draw(screen_lines(run, terminal_size(), terminal_style(), first));
    switch (terminal.wait(kBetweenLooks)) {
      case Pressed::kQuit:
        return;
      case Pressed::kUp:
        first -= first > 0 ? 1 : 0;
        break;
      case Pressed::kDown:
        first += first + 1 < run.ranks.size() ? 1 : 0;
        break;
      case Pressed::kNothing:
        break;
    }
  }
}

}  // namespace

void top_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  const Words folders = parse_options(words);
  if (folders.size() != 1) throw UsageError("top needs the output folder of a run");
  const std::string& folder = folders.front();
  if (stage_of_run(folder) == RunStage::kNone)
    throw Error(ExitCode::kInput, fmt::format("{} holds no run", printable(folder)),
                "name the output_dir of a run that trains or has trained");
  RunWatcher watcher(folder);
  if (is_terminal())
    show_until_quit(watcher);
  else
    show_once(watcher);
}

}  // namespace recollect
