#include "launch/train/hook_log.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <array>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "engine/core/error.h"

namespace recollect {

namespace {

constexpr int kUntilItLooks = 100;  // milliseconds
constexpr std::string_view kCut = "\n[it has said more than 1 MiB: the rest is left out]\n";

}  // namespace

HookLog::HookLog(const std::string& path, bool goes_on) : path_(path) {
  const int flags =
      O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (goes_on ? 0 : O_TRUNC);
  file_ = Descriptor{::open(path.c_str(), flags, 0666)};
  if (!file_) error_ = errno;
  int ends[2] = {-1, -1};
  if (file_ && ::pipe2(ends, O_CLOEXEC) != 0) error_ = errno;
  output_ = Descriptor{ends[0]};
  input_ = Descriptor{ends[1]};
  if (error_ == 0) try {
      reader_ = std::jthread([this](const std::stop_token& stop) { read_all(stop); });
    } catch (const std::system_error& error) {
      error_ = error.code().value();
    }
  if (error_ != 0) input_ = Descriptor{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
}

std::string HookLog::problem() const {
  if (error_ != 0)
    return fmt::format("{} cannot be written ({}): what it says is lost", path_, system_message(error_));
  return is_full_ ? fmt::format("has said more than 1 MiB: the rest is not in {}", path_) : "";
}

void HookLog::finish() {
  if (!reader_.joinable()) return;
  reader_.request_stop();
  reader_.join();
}

// Reads until all writers have closed the pipe, or until `stop`; then it reads the rest of the pipe.
void HookLog::read_all(const std::stop_token& stop) {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::array<char, 16 << 10> piece;
  for (std::size_t last = std::size_t{1} << 16; last > 0;) {  // the size of a pipe
    const bool ends = stop.stop_requested();
    pollfd news{.fd = output_.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&news, 1, ends ? 0 : kUntilItLooks);
    if (ready <= 0 && ends) return;
    if (ready <= 0) continue;
    const ssize_t bytes = ::read(output_.get(), piece.data(), piece.size());
    if (bytes <= 0) return;
    keep({piece.data(), static_cast<std::size_t>(bytes)});
    if (ends) last -= std::min(last, static_cast<std::size_t>(bytes));
  }
}

void HookLog::keep(std::string_view text) {
  if (is_full_) return;
  const std::string_view kept = text.substr(0, room_);
  room_ -= kept.size();
  for (const std::string_view part : {kept, kept.size() < text.size() ? kCut : std::string_view()})
    if (::write(file_.get(), part.data(), part.size()) < static_cast<ssize_t>(part.size())) room_ = 0;
  if (kept.size() < text.size()) is_full_ = true;
}

}  // namespace recollect
