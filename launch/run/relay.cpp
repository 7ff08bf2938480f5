#include "launch/run/relay.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "engine/core/error.h"

namespace recollect::launcher {

namespace {

constexpr std::size_t kPart = 64 << 10;
constexpr std::size_t kLongestLine = 1 << 20;
constexpr std::size_t kTailLines = 20, kTailLine = 400;

// The position after the end mark of the first line of `text`; npos if the mark has not come yet. "\r\n" is
// one mark, so a '\r' at the end of `text` has to wait for the next byte.
std::size_t end_of_line(std::string_view text, std::size_t from) {
  const std::size_t mark = text.find_first_of("\r\n", from);
  if (mark == std::string_view::npos || text[mark] == '\n')
    return mark == std::string_view::npos ? mark : mark + 1;
  if (mark + 1 == text.size()) return std::string_view::npos;
  return text[mark + 1] == '\n' ? mark + 2 : mark + 1;
}

}  // namespace

std::string prefix_of(int rank) { return fmt::format("[rank{}]: ", rank); }

void Tail::add(std::string_view line) {
  const bool replaces = overwritten_ && !lines_.empty();
  overwritten_ = line.ends_with('\r');
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  if (replaces) {
    if (line.empty()) return;  // "\n" after "\r" ends the same line
    lines_.pop_back();
  }
  lines_.emplace_back(line.substr(0, kTailLine));
  if (lines_.size() > kTailLines) lines_.pop_front();
}

Relay::Relay(Descriptor pipe, int rank, Stream stream, bool shown, const std::string& log_path)
    : pipe_(std::move(pipe)), prefix_(prefix_of(rank)), log_path_(log_path), stream_(stream), shown_(shown) {
  if (log_path.empty()) return;
  log_ = Descriptor(::open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!log_)
    throw Error(ExitCode::kStorage,
                "cannot write " + log_path + ": " + std::generic_category().message(errno));
}

bool Relay::read_some(Console& console) {
  char buffer[kPart];
  const ssize_t size = ::read(pipe_.get(), buffer, sizeof buffer);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (size > 0) {
    const std::string_view bytes(buffer, static_cast<std::size_t>(size));
    keep(bytes, console);
    split(bytes, console);
    return true;
  }
  pipe_.close();
  if (!partial_.empty()) emit(std::exchange(partial_, {}) + "\n", console);
  return false;
}

void Relay::keep(std::string_view bytes, Console& console) {
  while (log_ && !bytes.empty()) {
    const ssize_t done = ::write(log_.get(), bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      console.say(log_path_ + " is cut short: " + std::generic_category().message(errno));
      log_.close();
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
}

void Relay::split(std::string_view bytes, Console& console) {
  partial_ += bytes;
  const std::string_view text = partial_;
  std::size_t begin = 0, from = searched_;
  for (std::size_t end; (end = end_of_line(text, from)) != std::string_view::npos; begin = from = end)
    emit(text.substr(begin, end - begin), console);
  for (; text.size() - begin > kLongestLine; begin += kLongestLine)
    emit(text.substr(begin, kLongestLine), console);
  partial_.erase(0, begin);
  searched_ = partial_.size() - (partial_.ends_with('\r') ? 1 : 0);
}

void Relay::emit(std::string_view line, Console& console) {
  if (stream_ == Stream::kError) tail_.add(line);
  if (!shown_) return;
  std::string text = prefix_;
  text += line;
  if (!line.ends_with('\n') && !line.ends_with('\r')) text += '\n';
  console.line(stream_, std::move(text));
}

}  // namespace recollect::launcher
