// One exception type for the whole engine. An Error says what went wrong, where, and what to do; its code is
// the exit status of the process. `main` prints it once per rank and makes the peers stop.
#pragma once

#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace recollect {

enum class ExitCode : int {
  kOk = 0,
  kConfiguration = 2,
  kInput = 3,
  kDeviceMemory = 4,
  kHostMemory = 5,
  kStorage = 6,
  kNumerics = 7,
  kRanksDisagree = 8,
  kPeerLost = 9,
  kIntegrity = 10,
  kInternal = 70,
  kPreempted = 75,
};

class Error : public std::runtime_error {
 public:
  // `what`: the fact, with names and numbers. `hint`: what the user can do about it; may be empty.
  Error(ExitCode code, const std::string& what, std::string hint = {})
      : std::runtime_error(what), code_(code), hint_(std::move(hint)) {}

  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

// Returns the system's message for a value of errno.
inline std::string system_message(int error_number) { return std::generic_category().message(error_number); }

// Checks an invariant of our own. Never use it for what a user can cause.
inline void require(bool condition, const std::string& what) {
  if (!condition) throw Error(ExitCode::kInternal, what, "this is a bug in recollect");
}
inline void require(bool condition, const char* what) {
  if (!condition) throw Error(ExitCode::kInternal, what, "this is a bug in recollect");
}

}  // namespace recollect
