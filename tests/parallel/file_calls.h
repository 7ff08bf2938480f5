// The system's file functions, which this program defines in front of the C library's: calls about one folder are kept,
// and one of them can be made to fail or to end the process. Calls about other files are passed on untouched.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace recollect::test {

struct FileCall {
  std::string function = {};
  std::string path = {};  // in the folder; "" is the folder itself
  std::string to = {};    // of a rename
  bool creates = false;   // of open
  bool exchanges = false;
  uint64_t offset = 0, bytes = 0;
  std::string data = {};  // of pwrite: what was written
  bool failed = false;
  int lane = 0;
};

enum class Fault {
  kError,
  kInterrupted,     // EINTR, once
  kShort,           // half of a write
  kShortThenError,  // and nothing more in that file
  kErrorsSince,     // of the same function, this call and all that follow
  kDeath            // _exit before the call, in the middle of a write
};
inline constexpr int kDeathCode = 77;

// Calls are counted by lane, in which they have one order whatever threads do: 1 is the thread that writes for rank 1, 0
// are all others.
struct PlannedFault {
  int lane = 0, call = 0;
  Fault fault = Fault::kError;
  int error = 0;
};

// At work as long as it lives; one at a time. fsync is not carried out: tests lose no power. `exchanges`: as a file system
// that can exchange two names.
class FileCalls {
 public:
  explicit FileCalls(std::string folder, std::optional<PlannedFault> fault = {}, bool exchanges = true);
  ~FileCalls();
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;

  // When nothing is written any more.
  const std::vector<FileCall>& calls() const { return calls_; }
  // The call that the fault has met.
  const std::optional<FileCall>& met() const { return met_; }

  // Of the functions in front of the library's: `real` makes the call, for so many bytes, and returns -1 and errno where
  // it fails.
  template <typename Real>
  long carry_out(FileCall call, const Real& real);
  std::optional<std::string> inside(const std::string& path) const;

 private:
  const std::string folder_;
  const std::optional<PlannedFault> fault_;
  const bool exchanges_;
  std::mutex mutex_;
  std::map<int, int> counts_;
  std::vector<FileCall> calls_;
  std::optional<FileCall> met_;
  std::string full_;  // the file that takes nothing more
};

}  // namespace recollect::test
