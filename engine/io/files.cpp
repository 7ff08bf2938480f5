#include "engine/io/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/core/arena.h"
#include "engine/core/byte_count.h"
#include "engine/core/error.h"
#include "engine/io/descriptor.h"

namespace recollect {
namespace {

[[noreturn]] void storage_error(const std::string& action, const std::string& path, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
  throw Error(ExitCode::kStorage, fmt::format("cannot {} {}: {}", action, path, system_message(error_number)),
              full ? "free some space, raise the file-size limit or choose another folder"
                   : "check that the folder exists and can be written");
}

constexpr int kMostWriters = 1000;  // writers of one file at the same time
constexpr std::string_view kTemporaryEnd = ".recollect.tmp";

// Opens a new, locked file. Returns -1 and sets errno on failure. Another process may take the file for a
// dead writer's before it is locked, and remove it; then this tries again.
int open_new(const std::string& path) {
  for (int attempt = 0; attempt < kMostWriters; ++attempt) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0) return file;
    struct stat status {};
    // Without file locks no process gets a lock, so nothing is removed.
    if (::flock(file, LOCK_EX) != 0 || ::fstat(file, &status) != 0 || status.st_nlink > 0) return file;
    ::close(file);
  }
  errno = EEXIST;
  return -1;
}

// Removes the file if its writer is dead. Returns true if it did.
bool remove_if_stale(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  struct stat mine {
  }, there{};
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 || ::fstat(file.get(), &mine) != 0 ||
      ::lstat(path.c_str(), &there) != 0)
    return false;
  // A file that has received its final name meanwhile is no longer temporary, and another file may have this
  // name now.
  if (!S_ISREG(mine.st_mode) || mine.st_ino != there.st_ino || mine.st_dev != there.st_dev) return false;
  return ::unlink(path.c_str()) == 0;
}

// Temporary files are called ".NAME.NUMBER.recollect.tmp".
bool is_temporary(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kTemporaryEnd)) return false;
  name = name.substr(1, name.size() - 1 - kTemporaryEnd.size());
  const std::size_t dot = name.rfind('.');
  return dot != std::string_view::npos && dot > 0 && dot + 1 < name.size() &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dot) + 1, name.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

ReplacementFile::ReplacementFile(const std::string& path) : path_(path) {
  struct stat there {};
  existed_ = ::lstat(path.c_str(), &there) == 0;
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    if (S_ISDIR(there.st_mode)) storage_error("write", path, EISDIR);
    throw Error(ExitCode::kStorage, fmt::format("cannot write {}: it is a device or a pipe", path),
                "name a file");
  }
  const std::string name = std::filesystem::path(path).filename().string();
  int reason = EEXIST;
  for (int attempt = 0; attempt < kMostWriters && descriptor_ < 0 && reason == EEXIST; ++attempt) {
    temporary_ = fmt::format("{}/.{}.{}{}", folder_of(path), name, attempt, kTemporaryEnd);
    descriptor_ = open_new(temporary_);
    reason = errno;
    if (descriptor_ >= 0 || reason != EEXIST || !remove_if_stale(temporary_)) continue;
    descriptor_ = open_new(temporary_);
    reason = errno;
  }
  if (descriptor_ < 0) storage_error("create", path, reason);
}

ReplacementFile::ReplacementFile(ReplacementFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_),
      existed_(other.existed_),
      replaces_(other.replaces_),
      direct_(other.direct_) {}

ReplacementFile::~ReplacementFile() { discard(); }

void ReplacementFile::discard() noexcept {
  if (descriptor_ < 0) return;
  ::close(std::exchange(descriptor_, -1));
  ::unlink(temporary_.c_str());
}

void ReplacementFile::reserve(uint64_t bytes) {
  require(descriptor_ >= 0, "reserve() on a file that was already committed");
  if (bytes == 0) return;
  if (bytes > static_cast<uint64_t>(INT64_MAX)) storage_error("reserve space for", path_, EFBIG);
  int error_number = EINTR;
  while (error_number == EINTR) error_number = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
  if (error_number == 0) bytes_ = std::max(bytes_, bytes);
  // A file system that cannot reserve still reports a full disk, only later.
  if (error_number == 0 || error_number == EOPNOTSUPP || error_number == EINVAL) return;
  storage_error("reserve " + byte_count(bytes) + " for", path_, error_number);
}

void ReplacementFile::set_direct(bool direct) noexcept {
  const int flags = ::fcntl(descriptor_, F_GETFL);
  if (flags >= 0 && ::fcntl(descriptor_, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0)
    direct_ = direct;
}

void ReplacementFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  require(descriptor_ >= 0, "write_at() on a file that was already committed");
  while (!bytes.empty()) {
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    if (direct_ && (offset | bytes.size() | address) % kDiskBlock != 0) set_direct(false);
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL && direct_) {  // the disk's blocks are larger than ours
      set_direct(false);
      if (!direct_) continue;
      errno = EINVAL;
    }
    if (written <= 0) storage_error("write", path_, written < 0 ? errno : EIO);
    offset += static_cast<uint64_t>(written);
    bytes_ = std::max(bytes_, offset);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

// Checks that the file is the one that was written, because others may write in the folder too.
bool ReplacementFile::is_as_written() const {
  struct stat mine {
  }, there{};
  return ::fstat(descriptor_, &mine) == 0 && ::lstat(temporary_.c_str(), &there) == 0 &&
         mine.st_dev == there.st_dev && mine.st_ino == there.st_ino &&
         static_cast<uint64_t>(mine.st_size) == bytes_;
}

// Renames the file. Returns 0 or the system's reason.
int ReplacementFile::take_name() const {
  const char *const from = temporary_.c_str(), *const to = path_.c_str();
  if (!replaces_) {
    if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return errno;
    struct stat there {};  // for a file system without RENAME_NOREPLACE
    if (::lstat(to, &there) == 0) return EEXIST;
  }
  return ::rename(from, to) == 0 ? 0 : errno;
}

void ReplacementFile::commit() {
  require(descriptor_ >= 0, "commit() on a file that was already committed");
  // A failed fsync is final: the kernel may have marked the lost pages clean, so a second fsync would
  // succeed.
  int error_number = ::fsync(descriptor_) == 0 ? 0 : errno;
  const bool changed = error_number == 0 && !is_as_written();
  if (error_number == 0 && !changed) error_number = take_name();
  if (error_number != 0 || changed) discard();
  if (changed)
    throw Error(ExitCode::kStorage,
                fmt::format("cannot write {}: somebody has removed or changed {}", path_, temporary_),
                "leave the files of a run alone until it ends");
  if (error_number == EEXIST)
    throw Error(ExitCode::kStorage, fmt::format("cannot write {}: a file of that name has appeared", path_),
                "name another output_dir, or let it be replaced: overwrite: true");
  if (error_number != 0) storage_error("write", path_, error_number);
  if (::close(std::exchange(descriptor_, -1)) != 0) storage_error("close", path_, errno);
  const Descriptor folder{::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  // Some file systems cannot flush a folder and return EINVAL; no data is lost by that.
  if (folder && ::fsync(folder.get()) != 0 && errno != EINVAL)
    storage_error("flush the folder of", path_, errno);
}

void write_text_file(const std::string& path, std::string_view text) {
  ReplacementFile file(path);
  file.reserve(text.size());
  file.write_at(0, std::as_bytes(std::span(text)));
  file.commit();
}

void remove_stale_temporaries(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (is_temporary(entry->path().filename().string())) remove_if_stale(entry->path().string());
}

GrowingFile::GrowingFile(const std::string& path, std::string_view begins_with) : bytes_(begins_with.size()) {
  if (!begins_with.empty()) {
    write_text_file(path, begins_with);
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor_ < 0) storage_error("write", path, errno);
    return;
  }
  struct stat there {};
  const bool replaces = ::lstat(path.c_str(), &there) == 0 && S_ISREG(there.st_mode);
  if (replaces && ::unlink(path.c_str()) != 0 && errno != ENOENT) storage_error("replace", path, errno);
  descriptor_ = ::open(path.c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (descriptor_ < 0) storage_error("write", path, errno);
}

GrowingFile::~GrowingFile() { ::close(descriptor_); }

bool GrowingFile::append(std::string_view text) noexcept {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(descriptor_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int reason = written < 0 ? errno : EIO;
      [[maybe_unused]] const int cut = ::ftruncate(descriptor_, static_cast<off_t>(bytes_));
      errno = reason;
      return false;
    }
    done += static_cast<std::size_t>(written);
  }
  bytes_ += text.size();
  return true;
}

void GrowingFile::flush() const noexcept { ::fdatasync(descriptor_); }

bool looks_like_pickle(std::span<const std::byte> bytes) {
  if (bytes.size() < 4) return false;
  const auto at = [&](std::size_t i) { return std::to_integer<int>(bytes[i]); };
  const bool zip = at(0) == 'P' && at(1) == 'K' && at(2) == 3 && at(3) == 4;
  const bool pickle = at(0) == 0x80 && at(1) >= 2 && at(1) <= 5;  // the opcode PROTO and the protocol number
  return zip || pickle;
}

bool has_pickle_extension(std::string_view path) {
  constexpr std::array<std::string_view, 5> kExtensions = {".bin", ".pt", ".pth", ".ckpt", ".pkl"};
  return std::any_of(kExtensions.begin(), kExtensions.end(),
                     [&](std::string_view extension) { return path.ends_with(extension); });
}

void refuse_pickle(const std::string& path) {
  throw Error(ExitCode::kInput, fmt::format("{} holds pickled weights, which can run code when read", path),
              "convert it in Python where you trust it: AutoModelForCausalLM.from_pretrained(FOLDER)"
              ".save_pretrained(NEW_FOLDER) writes model.safetensors");
}

}  // namespace recollect
