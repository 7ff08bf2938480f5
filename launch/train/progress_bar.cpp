#include "launch/train/progress_bar.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "engine/core/duration.h"
#include "engine/io/standard_output.h"
#include "launch/program/units.h"
#include "launch/train/fitted_line.h"

namespace recollect {

namespace {

constexpr std::chrono::milliseconds kPause{125};
constexpr std::size_t kLeastGraphic = 6, kMostGraphic = 40;  // with its brackets

// Open MPI gives its ranks a pseudo-terminal, whatever mpirun itself writes to; `recollect run` gives them a
// pipe.
bool has_launcher() { return std::getenv("OMPI_COMM_WORLD_RANK") || std::getenv(kBarBeside); }

Descriptor terminal_of_launcher() {
  if (!has_launcher()) return Descriptor();
  const std::string path = fmt::format("/proc/{}/fd/1", ::getppid());
  return Descriptor{::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)};
}

int characters_beside() {
  const char* const beside = std::getenv(kBarBeside);
  return beside ? std::max(0, std::atoi(beside)) : 0;
}

bool is_wanted(ProgressStyle style, const Descriptor& of_launcher) {
  if (style != ProgressStyle::kAuto) return style == ProgressStyle::kOn;
  if (has_launcher() && !(of_launcher && may_draw_on(of_launcher.get()))) return false;
  return std::getenv(kBarBeside) || may_draw_on(STDOUT_FILENO);
}

double part_done(const BarState& state) {
  return static_cast<double>(state.step) / static_cast<double>(std::max<int64_t>(1, state.steps));
}

// "[=====>    ]"
void write_graphic(double part, std::size_t width, fmt::memory_buffer& out) {
  const std::size_t inside = width - 2,
                    full = std::min(inside, static_cast<std::size_t>(part * static_cast<double>(inside)));
  out.push_back('[');
  for (std::size_t i = 0; i < inside; ++i) out.push_back(i < full ? '=' : i == full ? '>' : ' ');
  out.push_back(']');
}

}  // namespace

void write_bar(const BarState& s, int columns, fmt::memory_buffer& out) {
  const double part = part_done(s);
  FittedLine line;
  line.add(FittedLine::kAlways, "{}/{}", s.step, s.steps);
  line.add(1, fmt::runtime(std::abs(s.loss) < 1e4 ? "loss {:.4f}" : "loss {:.4g}"), s.loss);
  line.add(4, "lr {:.3g}", s.learning_rate);
  line.add(5, fmt::runtime(std::abs(s.grad_norm) < 1e4 ? "grad norm {:.3f}" : "grad norm {:.3g}"),
           s.grad_norm);
  line.add(3, "{:.0f} tokens/s", s.tokens_per_second);
  line.add(7, "{} gone", duration_text(s.elapsed));
  line.add(2, "{} left", duration_text(s.left));
  line.add(6, "{}", bytes_text(s.memory));
  const std::size_t begin = out.size(), most = static_cast<std::size_t>(std::max(1, columns));
  fmt::format_to(std::back_inserter(out), "{:3.0f}% ", std::floor(100 * part));
  const std::size_t percent = out.size() - begin;
  line.fit(most > percent ? most - percent : 1);
  const std::size_t used = percent + line.width() + 1, free = most > used ? most - used : 0;
  if (free >= kLeastGraphic) {
    write_graphic(part, std::min(free, kMostGraphic), out);
    out.push_back(' ');
  }
  line.write(out);
  out.resize(std::min(out.size(), begin + most));
}

ProgressBar::ProgressBar(ProgressStyle style)
    : of_launcher_(terminal_of_launcher()),
      beside_(characters_beside()),
      on_(is_wanted(style, of_launcher_)) {}

// The last column stays free, because some terminals begin a new line when it is written.
int ProgressBar::columns() const {
  return on_ ? std::max(1, columns_of(of_launcher_ ? of_launcher_.get() : STDOUT_FILENO) - beside_ - 1) : 0;
}

void ProgressBar::erase(fmt::memory_buffer& out) {
  if (drawn_) out.append(kEraseToEndOfScreen);
  drawn_ = false;
}

void ProgressBar::draw(const BarState& state) {
  const Clock::time_point now = Clock::now();
  if (!on_ || (drawn_at_ != Clock::time_point{} && now - drawn_at_ < kPause)) return;
  drawn_at_ = now;
  fmt::memory_buffer text;
  erase(text);
  write_bar(state, columns(), text);
  text.push_back('\r');
  put_text(stdout, {text.data(), text.size()});
  drawn_ = true;
}

}  // namespace recollect
