#include "launch/run/console.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "engine/io/terminal.h"

namespace recollect::launcher {

namespace {

constexpr std::size_t kFull = 4 << 20;

// Opens the file of a descriptor a second time, without blocking. Setting O_NONBLOCK on the descriptor itself
// would change it for the parent process too, because they share its flags.
Descriptor own_opening(int descriptor) {
  struct stat status {};
  const bool may_block =
      ::fstat(descriptor, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode));
  Descriptor opened;
  if (may_block) {
    const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
    opened = Descriptor(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  }
  return opened ? std::move(opened) : Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
}

bool is_ready(int descriptor) {
  pollfd entry{descriptor, POLLOUT, 0};
  return ::poll(&entry, 1, 0) == 1;
}

// Adds to each line the sequence that erases the rest of a longer line (the progress bar) in the same row.
void erase_behind_lines(std::string& text) {
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', end + 1)) {
    const std::size_t at = end > 0 && text[end - 1] == '\r' ? end - 1 : end;
    text.insert(at, kEraseToEndOfLine);
    end += kEraseToEndOfLine.size();
  }
}

}  // namespace

Console::Console()
    : outputs_{own_opening(STDOUT_FILENO), own_opening(STDERR_FILENO)},
      may_draw_{may_draw_on(STDOUT_FILENO), may_draw_on(STDERR_FILENO)} {}

void Console::line(Stream stream, std::string text) {
  if (!output(stream)) return;
  if (may_draw_[static_cast<int>(stream)]) erase_behind_lines(text);
  bytes_ += text.size();
  waiting_.push_back({stream, std::move(text)});
}

void Console::say(const std::string& text) { line(Stream::kError, "recollect run: " + text + "\n"); }

int Console::waits_for() const { return waiting_.empty() ? -1 : output(waiting_.front().stream).get(); }

bool Console::is_full() const { return bytes_ > kFull; }

void Console::write_some() {
  while (!waiting_.empty()) {
    Piece& piece = waiting_.front();
    Descriptor& out = outputs_[static_cast<int>(piece.stream)];
    if (out) {
      if (!is_ready(out.get())) return;
      // If the second opening was refused: a pipe that is ready takes this much without blocking.
      const std::size_t size = std::min<std::size_t>(piece.text.size() - written_, PIPE_BUF);
      const ssize_t done = ::write(out.get(), piece.text.data() + written_, size);
      if (done < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (done < 0) out.close();
      written_ += done > 0 ? static_cast<std::size_t>(done) : 0;
    }
    if (out && written_ < piece.text.size()) continue;
    bytes_ -= piece.text.size();
    written_ = 0;
    waiting_.pop_front();
  }
}

}  // namespace recollect::launcher
