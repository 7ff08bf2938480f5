#include "tests/gpu/emulation/watch.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "engine/core/error.h"
#include "tests/gpu/emulation/order.h"

#if defined(RECOLLECT_WATCH_RACES)
#include <sanitizer/common_interface_defs.h>
#endif

namespace recollect::emulation {

namespace {

thread_local KernelWatch* watch = nullptr;

// What the symbols of this program say of a function, which only ThreadSanitizer's build is asked for: a matter of seconds.
void name([[maybe_unused]] const void* kernel, [[maybe_unused]] KernelWatch::Kernel& result) {
#if defined(RECOLLECT_WATCH_RACES)
  const auto describe = [&](const char* what) {
    char text[4096] = {};
    // Of a call's return address, by which the function is known where it begins.
    __sanitizer_symbolize_pc(static_cast<char*>(const_cast<void*>(kernel)) + 1, what, text, sizeof(text) - 1);
    return std::string(text);
  };
  result.file = describe("%s");
  result.function = describe("%f");
#endif
}

bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

bool is_function(const std::string& name, const std::string& function) {
  const std::size_t begin = name.find(function), end = begin + function.size();
  if (begin == std::string::npos) return false;
  return (begin == 0 || !is_of_name(name[begin - 1])) && (end == name.size() || !is_of_name(name[end]));
}

KernelWatch::KernelWatch(unsigned most_threads) : most_threads_(most_threads) {
  require(!watch, "kernels are watched by one at a time");
  watch = this;
  keep_stacks(true);
}

KernelWatch::~KernelWatch() {
  keep_stacks(false);
  watch = nullptr;
}

void KernelWatch::leave_out(std::string file, unsigned line) {
  file_left_out_ = std::move(file);
  line_left_out_ = line;
}

bool KernelWatch::watches_case() const {
  return std::any_of(kernels_.begin(), kernels_.end(),
                     [&](const auto& one) { return one.second.cases.contains(case_); });
}

std::map<const void*, KernelWatch::Kernel> KernelWatch::kernels() const {
  std::map<const void*, Kernel> result = kernels_;
  for (auto& [kernel, one] : result) name(kernel, one);
  return result;
}

bool KernelWatch::begins(const void* kernel, Dim3 grid, Dim3 block) {
  const unsigned blocks = grid.x * grid.y * grid.z, threads = block.x * block.y * block.z;
  Kernel& one = kernels_[kernel];
  one.blocks = std::max(one.blocks, blocks);
  if (one.cases.size() >= 2 && !one.cases.contains(case_) && one.watched >= std::min(blocks, 2u))
    return false;
  one.cases.insert(case_);
  const unsigned watched = std::min(blocks, std::max(2u, most_threads_ / threads));
  watch_blocks(watched);
  one.watched = std::max(one.watched, watched);
  return true;
}

WatchedLaunch::WatchedLaunch(const void* kernel, Dim3 grid, Dim3 block)
    : watched_(watch && watch->begins(kernel, grid, block)) {
  if (!watched_) return;
  leave_out_barrier(watch->left_out());
  watch_races(true);
}

WatchedLaunch::~WatchedLaunch() {
  if (!watched_) return;
  watch_races(false);
  watch_blocks(kAllBlocks);
  leave_out_barrier({});
}

}  // namespace recollect::emulation
