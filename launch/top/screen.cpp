#include "launch/top/screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "engine/core/duration.h"
#include "engine/core/printable.h"
#include "launch/program/units.h"

namespace recollect {

namespace {

constexpr std::string_view kBold = "\x1b[1m", kFaint = "\x1b[2m", kRed = "\x1b[31m", kPlain = "\x1b[0m";

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// The first `width` columns of the text, with "~" at the end if something was cut off.
std::string cut(const std::string& text, std::size_t width) {
  if (columns_of(text) <= width) return text;
  std::string kept;
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(std::string_view(text).substr(i)));
    if (++columns >= width) break;
    kept += text.substr(i, length);
    i += length;
  }
  return kept + "~";
}

class Screen {
 public:
  Screen(const ScreenSize& size, const ScreenStyle& style) : size_(size), style_(style) {}

  std::size_t width() const { return static_cast<std::size_t>(std::max(1, size_.width)); }
  std::size_t room() const {
    const auto height = static_cast<std::size_t>(std::max(1, size_.height));
    return height > lines_.size() ? height - lines_.size() : 0;
  }
  void add(const std::string& text, std::string_view look = {}) {
    if (room() == 0) return;
    std::string line = cut(text, width());
    if (style_.colours && !look.empty()) line = std::string(look) + line + std::string(kPlain);
    lines_.push_back(std::move(line));
  }
  // Adds one line with text at both ends. The right text is never cut.
  void add_ends(const std::string& left, const std::string& right, std::string_view look) {
    const std::size_t taken = columns_of(right) + 2;
    if (taken >= width()) return add(right, look);
    const std::string begun = cut(left, width() - taken);
    add(begun + std::string(width() - columns_of(begun) - columns_of(right), ' ') + right, look);
  }
  const ScreenStyle& style() const { return style_; }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  const ScreenSize size_;
  const ScreenStyle style_;
  std::vector<std::string> lines_;
};

std::string number_text(double value) {
  if (value != 0 && (std::abs(value) < 1e-3 || std::abs(value) >= 1e6)) return fmt::format("{:.3g}", value);
  return fmt::format("{:.4g}", value);
}

double last_of(const RunView& run, std::string_view key) {
  const Curve* curve = run.curves ? run.curves->find(key) : nullptr;
  return curve && !curve->points().empty() ? curve->last() : std::numeric_limits<double>::quiet_NaN();
}

// Appends "NAME 1.234" to the line.
void append_number(std::string& line, const char* name, double value) {
  if (!std::isfinite(value)) return;
  line += fmt::format("{}{} {}", line.empty() ? "" : "   ", name, number_text(value));
}

std::string state_text(const RunView& run) {
  switch (run.state) {
    case RunStage::kGoesOn: {
      int64_t written = 0;
      for (const RankView& rank : run.ranks)
        if (rank.live) written = std::max(written, rank.live->written);
      constexpr int64_t kQuiet = 15;  // seconds
      const bool quiet = written > 0 && run.now - written > kQuiet;
      return quiet ? fmt::format("no step for {}", duration_text(static_cast<double>(run.now - written)))
                   : "running";
    }
    case RunStage::kWaits:
      return "its process is gone, and may be started again";
    case RunStage::kDied:
      return "its process is gone";
    case RunStage::kEnded:
      return run.failure.empty() ? "ended" : "failed";
    case RunStage::kNone:
      break;
  }
  return "not begun";
}

// The time of a step of the slowest rank.
double seconds_of_step(const RunView& run) {
  double seconds = 0;
  for (const RankView& rank : run.ranks)
    if (rank.step) seconds = std::max(seconds, rank.step->all);
  return seconds > 0 ? seconds : last_of(run, "step_seconds");
}

std::string progress_text(const RunView& run) {
  std::string text = fmt::format("step {}", run.step);
  if (run.max_steps > 0)
    text +=
        fmt::format(" of {} ({} %)", run.max_steps, 100 * std::min(run.step, run.max_steps) / run.max_steps);
  const double seconds = seconds_of_step(run);
  if (!(seconds > 0)) return text;
  // The tokens of a step, from the last line of metrics.jsonl; divided by the shown time of a step below.
  const double tokens = last_of(run, "tokens_per_second") * last_of(run, "step_seconds");
  if (std::isfinite(tokens)) text += fmt::format("   {:.0f} tokens/s", tokens / seconds);
  text += fmt::format("   {} a step", duration_text(seconds));
  if (run.state == RunStage::kGoesOn && run.max_steps > run.step)
    text += fmt::format("   {} left", duration_text(seconds * static_cast<double>(run.max_steps - run.step)));
  return text;
}

// The curve as one line of blocks.
std::string blocks_of(const Curve& curve, std::size_t width) {
  constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::vector<Curve::Point>& points = curve.points();
  std::vector<double> means;
  const std::size_t cells = std::min(width, points.size());
  for (std::size_t cell = 0; cell < cells; ++cell) {
    const std::size_t from = cell * points.size() / cells, to = (cell + 1) * points.size() / cells;
    double sum = 0;
    for (std::size_t i = from; i < to; ++i) sum += points[i].mean;
    means.push_back(sum / static_cast<double>(to - from));
  }
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  std::string text;
  for (const double mean : means) {
    const double part = *high > *low ? (mean - *low) / (*high - *low) : 0;
    text += kBlocks[static_cast<std::size_t>(std::lround(part * (kBlocks.size() - 1)))];
  }
  return text;
}

void add_curve(const RunView& run, Screen& screen) {
  constexpr std::size_t kLeast = 3;
  const Curve* loss = run.curves ? run.curves->find("loss") : nullptr;
  if (!screen.style().unicode || !loss || loss->points().size() < kLeast || screen.width() < 20) return;
  const std::vector<Curve::Point>& points = loss->points();
  const auto [low, high] = std::minmax_element(points.begin(), points.end(),
                                               [](const auto& a, const auto& b) { return a.mean < b.mean; });
  const std::string begin = fmt::format("loss {} to {}  ", number_text(low->mean), number_text(high->mean));
  if (begin.size() + kLeast < screen.width())
    screen.add(begin + blocks_of(*loss, screen.width() - begin.size()));
}

struct Column {
  std::string head;
  std::vector<std::string> cells;
  int worth = 0;  // if the columns do not all fit, those of least worth are left out
  bool is_left = false;
};

std::string percent_of(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", 100 * std::min(1.0, part / whole)) : "-";
}

std::vector<Column> columns_for(const RunView& run) {
  uint64_t most = 0;
  for (const RankView& rank : run.ranks)
    most = std::max({most, rank.peak, rank.resident, rank.live ? rank.live->device : 0});
  const ByteUnit& unit = unit_for(most);
  const auto bytes = [&](uint64_t n) { return n > 0 ? unit(n) : std::string("-"); };
  const std::string host = fmt::format("host {}", unit.name);
  std::vector<Column> columns = {{"rank", {}, 9},        {"step", {}, 5},
                                 {"a step", {}, 8},      {"waits for ranks", {}, 7},
                                 {"for streams", {}, 4}, {fmt::format("device {}", unit.name), {}, 6},
                                 {host, {}, 2},          {fmt::format("process {}", unit.name), {}, 3},
                                 {"on", {}, 1, true}};
  bool has_host = false;
  for (const RankView& rank : run.ranks) {
    const std::optional<LiveRank>& live = rank.live;
    const std::optional<StepView>& step = rank.step;
    const auto of = [&](const auto& text) { return live ? text() : std::string("-"); };
    const auto of_step = [&](const auto& text) { return step ? text() : std::string("-"); };
    has_host = has_host || (live && live->host_memory > 0);
    const std::array<std::string, 9> cells = {
        std::to_string(rank.rank),
        of([&] { return std::to_string(live->step); }),
        of_step([&] { return duration_text(step->all); }),
        of_step([&] { return percent_of(step->waiting, step->all); }),
        of_step([&] { return percent_of(step->exposed, step->all); }),
        bytes(live ? live->device : rank.peak),
        of([&] { return bytes(live->host_memory); }),
        bytes(rank.resident),
        of([&] { return fmt::format("{} ({})", live->host, live->process); })};
    for (std::size_t i = 0; i < cells.size(); ++i) columns[i].cells.push_back(cells[i]);
  }
  std::erase_if(columns, [&](const Column& column) { return column.head == host && !has_host; });
  return columns;
}

std::size_t width_of(const Column& column) {
  std::size_t width = columns_of(column.head);
  for (const std::string& cell : column.cells) width = std::max(width, columns_of(cell));
  return width;
}

std::string row_of(const std::vector<Column>& columns, const auto& text_of) {
  std::string line;
  for (const Column& column : columns) {
    const std::string text = text_of(column);
    const std::string fill(width_of(column) - columns_of(text), ' ');
    line += (line.empty() ? "" : "   ") + (column.is_left ? text : fill + text);
  }
  return line;
}

// The others wait for the rank that waits least.
std::string slowest_text(const RunView& run) {
  const RankView* least = nullptr;
  double most = 0;
  for (const RankView& rank : run.ranks) {
    if (!rank.step) return "";
    if (!least || rank.step->waiting < least->step->waiting) least = &rank;
    most = std::max(most, rank.step->waiting);
  }
  constexpr double kWorthSaying = 0.1;  // of a step
  if (run.ranks.size() < 2 || most - least->step->waiting < kWorthSaying * seconds_of_step(run)) return "";
  return fmt::format("rank {} waits least: the others wait for it, up to {} a step", least->rank,
                     duration_text(most));
}

void add_rank_lines(const RunView& run, Screen& screen, std::size_t first) {
  std::vector<Column> columns = columns_for(run);
  const auto width = [&] {
    std::size_t sum = 3 * (columns.size() - 1);
    for (const Column& column : columns) sum += width_of(column);
    return sum;
  };
  const auto less = [](const Column& a, const Column& b) { return a.worth < b.worth; };
  while (columns.size() > 1 && width() > screen.width())
    columns.erase(std::min_element(columns.begin(), columns.end(), less));
  screen.add(row_of(columns, [](const Column& column) { return column.head; }), kFaint);
  const std::size_t count = run.ranks.size(), room = screen.room();
  const bool all = count <= room;
  const std::size_t shown = all ? count : room > 0 ? room - 1 : 0;
  const std::size_t from = all ? 0 : std::min(first, count - shown);
  for (std::size_t i = from; i < from + shown; ++i)
    screen.add(row_of(columns, [i](const Column& column) { return column.cells[i]; }));
  if (!all && shown > 0)
    screen.add(fmt::format("ranks {} to {} of {}: arrow keys show others", from, from + shown - 1, count),
               kFaint);
}

}  // namespace

std::vector<std::string> screen_lines(const RunView& run, const ScreenSize& size, const ScreenStyle& style,
                                      std::size_t first_rank) {
  Screen screen(size, style);
  screen.add_ends(printable(run.name), state_text(run), kBold);
  if (!run.model.empty()) screen.add(fmt::format("{}; {}", run.model, run.layout), kFaint);
  if (!run.failure.empty()) screen.add(run.failure, kRed);
  screen.add(progress_text(run));
  std::string numbers;
  append_number(numbers, "loss", last_of(run, "loss"));
  append_number(numbers, "evaluation", last_of(run, "eval_loss"));
  append_number(numbers, "learning rate", last_of(run, "learning_rate"));
  append_number(numbers, "gradient norm", last_of(run, "grad_norm"));
  if (!numbers.empty()) screen.add(numbers);
  add_curve(run, screen);
  screen.add("");
  add_rank_lines(run, screen, first_rank);
  if (const std::string slowest = slowest_text(run); !slowest.empty()) screen.add(slowest);
  return screen.take();
}

}  // namespace recollect
