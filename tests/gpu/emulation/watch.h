// Has ThreadSanitizer watch kernels' launches (order.h), and says which kernels there were, so that a test can tell that
// none was left out. For launches that are done at once, on the thread that made this.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "tests/gpu/emulation/grid.h"

namespace recollect::emulation {

class KernelWatch {
 public:
  // Blocks of launches: the most that there were, and the most that were watched at once.
  struct Kernel {
    std::string file, function;  // where it is defined; with all arguments of a template
    unsigned blocks = 0, watched = 0;
    std::set<unsigned> cases = {};  // in which it was watched
  };

  // One at a time on a thread. Of each kernel all launches of the first two cases that have it are watched, and more until two
  // blocks have been; of a launch so many threads, but two blocks in any case.
  explicit KernelWatch(unsigned most_threads);
  ~KernelWatch();
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;

  void begin_case() { ++case_; }
  bool watches_case() const;  // whether any launch of it has been watched
  // From now on what is watched lacks its barrier there (leave_out_barrier).
  void leave_out(std::string file, unsigned line);

  std::map<const void*, Kernel> kernels() const;           // those that were launched
  bool begins(const void* kernel, Dim3 grid, Dim3 block);  // whether it is watched
  Where left_out() const { return {file_left_out_.c_str(), line_left_out_}; }

 private:
  unsigned most_threads_, case_ = 0;
  std::string file_left_out_;
  unsigned line_left_out_ = 0;
  std::map<const void*, Kernel> kernels_;  // without names
};

// Whether `name` is a function, or one of a template, of such a name.
bool is_function(const std::string& name, const std::string& function);

// Around a launch of the calling thread.
class WatchedLaunch {
 public:
  WatchedLaunch(const void* kernel, Dim3 grid, Dim3 block);
  ~WatchedLaunch();
  WatchedLaunch(const WatchedLaunch&) = delete;
  WatchedLaunch& operator=(const WatchedLaunch&) = delete;

 private:
  bool watched_;
};

}  // namespace recollect::emulation
