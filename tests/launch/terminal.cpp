#include "tests/launch/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

namespace recollect::test {

std::size_t Screen::row_begin() const {
  const auto columns = static_cast<std::size_t>(columns_);
  return (at_ - (is_behind_last_ ? 1 : 0)) / columns * columns;
}

void Screen::put(char c) {
  std::string& line = lines_[line_];
  if (at_ == static_cast<std::size_t>(columns_)) ++too_long_;
  if (at_ >= line.size()) line.resize(at_ + 1, ' ');
  line[at_++] = c;
  is_behind_last_ = at_ % static_cast<std::size_t>(columns_) == 0;
}

void Screen::obey(std::string_view sequence) {
  std::string& line = lines_[line_];
  if (sequence == "\x1b[K") {
    line.resize(std::min(line.size(), at_));
  } else if (sequence == "\x1b[J") {
    line.resize(std::min(line.size(), at_));
    lines_.resize(line_ + 1);
  } else {
    ADD_FAILURE() << "an unknown control sequence: \\x1b" << sequence.substr(1);
  }
}

void Screen::write(std::string_view bytes) {
  for (const char c : bytes) {
    if (!unfinished_.empty() || c == '\x1b') {
      unfinished_ += c;
      if (unfinished_.size() > 2 && c >= '@' && c <= '~') {
        obey(unfinished_);
        unfinished_.clear();
      }
    } else if (c == '\r') {
      at_ = row_begin();
      is_behind_last_ = false;
    } else if (c == '\n') {
      at_ -= row_begin();
      is_behind_last_ = false;
      if (++line_ == lines_.size()) lines_.emplace_back();
    } else {
      put(c);
    }
  }
}

void Screen::resize(int columns) {
  columns_ = columns;
  if (narrowed_ == Narrowed::kBreaksLines) return;  // its lines are whole, whatever rows they take
  for (std::string& line : lines_) line.resize(std::min(line.size(), static_cast<std::size_t>(columns)));
  at_ = std::min(at_, static_cast<std::size_t>(columns) - 1);
}

std::vector<std::string> Screen::lines() const {
  std::vector<std::string> lines = lines_;
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

namespace {

void set_columns(int terminal, int columns) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  ASSERT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
}

}  // namespace

TerminalRun::TerminalRun(const Words& command, const std::string& folder, Environment environment,
                         int columns, Screen::Narrowed narrowed)
    : screen_(columns, narrowed) {
  master_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0)
    throw std::runtime_error("no pseudo-terminal");
  const std::string name = ::ptsname(master_);
  slave_ = ::open(name.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  set_columns(master_, columns);
  environment.insert({{"TERM", "xterm-256color"}, {"NO_COLOR", ""}, {"CI", ""}});
  process_ = std::make_unique<Process>(Words{"sh", "-c", "exec \"$@\" >" + name + " 2>&1", "sh"} + command,
                                       folder, environment);
}

TerminalRun::~TerminalRun() {
  process_.reset();
  for (const int end : {master_, slave_}) ::close(end);
}

void TerminalRun::watch(std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  while (true) {
    const bool over = !is_running(process_->pid());
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    pollfd entry{master_, POLLIN, 0};
    if (::poll(&entry, 1, over ? 0 : static_cast<int>(std::clamp<int64_t>(left.count(), 0, 20))) == 1) {
      char buffer[4096];
      const ssize_t size = ::read(master_, buffer, sizeof buffer);
      if (size <= 0) return;
      pieces_.push_back({Clock::now(), std::string(buffer, static_cast<std::size_t>(size))});
      screen_.write(pieces_.back().bytes);
    } else if (over) {
      return;
    }
    if (Clock::now() >= until) return;
  }
}

bool TerminalRun::watch_until_drawn(std::size_t more) {
  const auto until = Clock::now() + Workplace::kBound;
  const std::size_t bars = this->bars().size() + more;
  const auto is_half = [this] {  // a line has been read
    return !pieces_.empty() && pieces_.back().bytes.back() != '\r' && pieces_.back().bytes.back() != '\n';
  };
  while ((this->bars().size() < bars || is_half()) && Clock::now() < until && is_running(process_->pid()))
    watch(std::chrono::milliseconds(20));
  return this->bars().size() >= bars;
}

Finished TerminalRun::finish() {
  watch(Workplace::kBound);
  Finished finished = process_->wait(Workplace::kBound);
  finished.out = bytes();
  EXPECT_EQ(finished.out.find("Sanitizer"), std::string::npos) << finished.out;
  return finished;
}

void TerminalRun::resize(int columns) {
  signal(SIGSTOP);
  while (is_running(process_->pid()) && !is_stopped(process_->pid())) watch(std::chrono::milliseconds(1));
  watch(std::chrono::milliseconds(0));
  set_columns(master_, columns);
  screen_.resize(columns);
  signal(SIGCONT);
}

void TerminalRun::signal(int signal) { ::kill(process_->pid(), signal); }

std::string TerminalRun::bytes() const {
  std::string all;
  for (const Piece& piece : pieces_) all += piece.bytes;
  return all;
}

std::vector<TerminalRun::Clock::time_point> TerminalRun::bars() const {
  std::vector<Clock::time_point> times;
  bool in_bar = false;
  for (const Piece& piece : pieces_)
    for (const char c : piece.bytes) {
      if (in_bar && c == '\r') times.push_back(piece.at);
      in_bar = c == '%' || (in_bar && c != '\r');
    }
  return times;
}

}  // namespace recollect::test
