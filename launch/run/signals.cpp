#include "launch/run/signals.h"

#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "engine/core/error.h"

namespace recollect::launcher {

Signals::Signals() {
  sigset_t wanted, blocked;
  sigemptyset(&wanted);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN || signal == SIGCHLD) sigaddset(&wanted, signal);
  }
  blocked = wanted;
  sigaddset(&blocked, SIGPIPE);  // a closed output is handled at the write
  sigprocmask(SIG_BLOCK, &blocked, &blocked_before_);
  ::signal(SIGCHLD, SIG_DFL);  // if it were ignored, exit codes would be lost
  descriptor_ = Descriptor(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_)
    throw Error(ExitCode::kHostMemory, "no signalfd: " + std::generic_category().message(errno));
}

std::vector<int> Signals::take() {
  std::vector<int> came;
  signalfd_siginfo info{};
  while (::read(descriptor_.get(), &info, sizeof info) == sizeof info)
    if (info.ssi_signo != SIGCHLD) came.push_back(static_cast<int>(info.ssi_signo));
  return came;
}

bool asks_to_end(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

}  // namespace recollect::launcher
