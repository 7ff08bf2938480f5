#include "tests/parallel/file_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace recollect::test {

namespace {

std::atomic<FileCalls*> at_work{nullptr};
thread_local int lane = 0;

std::string path_of(int descriptor) {
  std::array<char, 4096> text{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), text.data(), text.size());
  return {text.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

// What a call is about, found out only where somebody looks.
auto of(int descriptor) {
  return [=] { return path_of(descriptor); };
}
auto of(const char* path) {
  return [=] { return std::string(path); };
}
auto of(int folder, const char* path) {
  return
      [=] { return folder == AT_FDCWD || path[0] == '/' ? std::string(path) : path_of(folder) + "/" + path; };
}

template <typename Function>
Function* library(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Through the object that is at work, where the file is in its folder. errno stays as it was where all is well.
template <typename Path, typename Real>
long pass(const char* function, const Path& path, FileCall call, const Real& real) {
  FileCalls* const calls = at_work.load();
  if (!calls) return real(call.bytes);
  const int before = errno;
  const std::optional<std::string> in_folder = calls->inside(path());
  errno = before;
  if (!in_folder) return real(call.bytes);
  call.function = function;
  call.path = *in_folder;
  return calls->carry_out(std::move(call), real);
}

}  // namespace

FileCalls::FileCalls(std::string folder, std::optional<PlannedFault> fault, bool exchanges)
    : folder_(std::move(folder)), fault_(fault), exchanges_(exchanges) {
  at_work = this;
}

FileCalls::~FileCalls() { at_work = nullptr; }

std::optional<std::string> FileCalls::inside(const std::string& path) const {
  if (!path.starts_with(folder_)) return {};
  if (path.size() == folder_.size()) return "";
  if (path[folder_.size()] != '/') return {};
  return path.substr(folder_.size() + 1);
}

template <typename Real>
long FileCalls::carry_out(FileCall call, const Real& real) {
  const std::lock_guard lock(mutex_);
  const int before = errno;
  // Rank 0 looks at no file of rank 1's before it removes it.
  if (call.function != "unlinkat" && call.path.find("rank-00001") != std::string::npos) lane = 1;
  call.lane = lane;
  const bool met = fault_ && lane == fault_->lane && counts_[lane]++ == fault_->call;
  const bool writes = call.function == "pwrite";
  if (!call.to.empty()) call.to = inside(call.to).value_or("");
  int error = writes && !full_.empty() && call.path == full_ ? fault_->error : 0;
  if (call.exchanges && !exchanges_) error = EINVAL;
  if (met_ && fault_->fault == Fault::kErrorsSince && lane == fault_->lane && call.function == met_->function)
    error = fault_->error;
  if (met) {
    met_ = call;
    const Fault fault = fault_->fault;
    if (fault == Fault::kDeath) {
      if (writes) real(call.bytes / 2);
      ::_exit(kDeathCode);
    }
    if (fault == Fault::kError || fault == Fault::kErrorsSince) error = fault_->error;
    if (fault == Fault::kInterrupted) error = EINTR;
    if (fault == Fault::kShort || fault == Fault::kShortThenError) call.bytes = (call.bytes + 1) / 2;
    if (fault == Fault::kShortThenError) full_ = call.path;
  }
  if (error != 0 && call.function == "close") real(0);  // which closes whatever it says
  const bool flushes = call.function == "fsync";
  const long result = error != 0 ? -1 : flushes ? 0 : real(call.bytes);
  const int reason = error != 0 ? error : errno;
  call.failed = result < 0;
  if (writes) call.data.resize(call.failed ? 0 : static_cast<std::size_t>(result));
  calls_.push_back(std::move(call));
  errno = result < 0 ? reason : before;
  return result;
}

}  // namespace recollect::test

using recollect::test::at_work;
using recollect::test::library;
using recollect::test::of;
using recollect::test::pass;

namespace {

mode_t mode_of(int flags, va_list more) { return (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0; }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  static auto* const next = library<int(const char*, int, ...)>("open");
  return static_cast<int>(pass("open", of(path), {.creates = (flags & O_CREAT) != 0},
                               [&](std::size_t) { return next(path, flags, mode); }));
}

int openat(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  static auto* const next = library<int(int, const char*, int, ...)>("openat");
  return static_cast<int>(pass("openat", of(folder, path), {.creates = (flags & O_CREAT) != 0},
                               [&](std::size_t) { return next(folder, path, flags, mode); }));
}

ssize_t pwrite(int file, const void* bytes, size_t count, off_t offset) {
  static auto* const next = library<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  if (!at_work.load()) return next(file, bytes, count, offset);
  return pass("pwrite", of(file),
              {.offset = static_cast<uint64_t>(offset),
               .bytes = count,
               .data = std::string(static_cast<const char*>(bytes), count)},
              [&](std::size_t most) { return next(file, bytes, most, offset); });
}

int posix_fallocate(int file, off_t offset, off_t count) {
  static auto* const next = library<int(int, off_t, off_t)>("posix_fallocate");
  const int before = errno;
  const long result = pass("posix_fallocate", of(file),
                           {.offset = static_cast<uint64_t>(offset), .bytes = static_cast<uint64_t>(count)},
                           [&](std::size_t) {
                             errno = next(file, offset, count);
                             return errno == 0 ? 0 : -1;
                           });
  const int reason = errno;
  errno = before;
  return result == 0 ? 0 : reason;
}

int fsync(int file) {
  static auto* const next = library<int(int)>("fsync");
  return static_cast<int>(pass("fsync", of(file), {}, [&](std::size_t) { return next(file); }));
}

int close(int file) {
  static auto* const next = library<int(int)>("close");
  return static_cast<int>(pass("close", of(file), {}, [&](std::size_t) { return next(file); }));
}

int ftruncate(int file, off_t size) noexcept {
  static auto* const next = library<int(int, off_t)>("ftruncate");
  return static_cast<int>(pass("ftruncate", of(file), {.offset = static_cast<uint64_t>(size)},
                               [&](std::size_t) { return next(file, size); }));
}

int flock(int file, int operation) noexcept {
  static auto* const next = library<int(int, int)>("flock");
  return static_cast<int>(pass("flock", of(file), {}, [&](std::size_t) { return next(file, operation); }));
}

int stat(const char* path, struct stat* status) noexcept {
  static auto* const next = library<int(const char*, struct stat*)>("stat");
  return static_cast<int>(pass("stat", of(path), {}, [&](std::size_t) { return next(path, status); }));
}

int lstat(const char* path, struct stat* status) noexcept {
  static auto* const next = library<int(const char*, struct stat*)>("lstat");
  return static_cast<int>(pass("lstat", of(path), {}, [&](std::size_t) { return next(path, status); }));
}

int fstat(int file, struct stat* status) noexcept {
  static auto* const next = library<int(int, struct stat*)>("fstat");
  return static_cast<int>(pass("fstat", of(file), {}, [&](std::size_t) { return next(file, status); }));
}

int rename(const char* from, const char* to) noexcept {
  static auto* const next = library<int(const char*, const char*)>("rename");
  return static_cast<int>(pass("rename", of(from), {.to = to}, [&](std::size_t) { return next(from, to); }));
}

int renameat2(int folder, const char* from, int other, const char* to, unsigned flags) noexcept {
  static auto* const next = library<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return static_cast<int>(pass("renameat2", of(folder, from),
                               {.to = of(other, to)(), .exchanges = (flags & RENAME_EXCHANGE) != 0},
                               [&](std::size_t) { return next(folder, from, other, to, flags); }));
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const next = library<int(const char*, mode_t)>("mkdir");
  return static_cast<int>(pass("mkdir", of(path), {}, [&](std::size_t) { return next(path, mode); }));
}

int unlink(const char* path) noexcept {
  static auto* const next = library<int(const char*)>("unlink");
  return static_cast<int>(pass("unlink", of(path), {}, [&](std::size_t) { return next(path); }));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static auto* const next = library<int(int, const char*, int)>("unlinkat");
  return static_cast<int>(pass((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlinkat", of(folder, path), {},
                               [&](std::size_t) { return next(folder, path, flags); }));
}

struct dirent* readdir(DIR* folder) {
  static auto* const next = library<struct dirent*(DIR*)>("readdir");
  struct dirent* entry = nullptr;
  pass("readdir", of(::dirfd(folder)), {}, [&](std::size_t) {
    const int before = errno;
    errno = 0;
    entry = next(folder);
    const bool failed = entry == nullptr && errno != 0;
    if (!failed) errno = before;
    return failed ? -1 : 0;
  });
  return entry;
}

}  // extern "C"
