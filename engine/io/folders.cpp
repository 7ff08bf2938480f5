#include "engine/io/folders.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/io/descriptor.h"

namespace recollect {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void folder_error(const std::string& what, const std::string& path, int reason) {
  throw Error(ExitCode::kStorage, fmt::format("cannot {} {}: {}", what, path, system_message(reason)));
}

std::string folder_around(const fs::path& path) {
  const std::string parent = path.parent_path().string();
  return parent.empty() ? "." : parent;
}

void make_missing(const fs::path& path) {
  if (::mkdir(path.c_str(), 0777) == 0) {
    try {
      return flush_folder(folder_around(path));
    } catch (const Error&) {
      ::rmdir(path.c_str());
      throw;
    }
  }
  const int reason = errno;
  std::error_code ignored;
  if (reason == EEXIST && fs::is_directory(path, ignored)) return;
  if (reason != ENOENT || !path.has_relative_path() || fs::is_directory(path.parent_path(), ignored))
    folder_error("make the folder", path.string(), reason);
  make_missing(path.parent_path());
  make_missing(path);
}

// Flushes the folders above `path`. Errors other than lost data are ignored: in a folder that cannot be read,
// or on a read-only file system, a run has not made a folder.
void flush_around(fs::path path) {
  for (; path.has_relative_path(); path = path.parent_path()) {
    const Descriptor folder{::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (folder && ::fsync(folder.get()) != 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT))
      folder_error("flush", path.parent_path().string(), errno);
  }
}

}  // namespace

void flush_folder(const std::string& path) {
  const Descriptor folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!folder) folder_error("open", path, errno);
  // Some file systems return EINVAL; no data is lost by that.
  if (::fsync(folder.get()) != 0 && errno != EINVAL) folder_error("flush", path, errno);
}

void make_folders(const std::string& path) {
  fs::path name = fs::path(path).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  make_missing(name);
  flush_around(fs::absolute(name).lexically_normal());
}

bool has_other_folder(const Descriptor& folder, const std::string& path) {
  struct stat mine {
  }, there{};
  return folder && ::fstat(folder.get(), &mine) == 0 && ::stat(path.c_str(), &there) == 0 &&
         (mine.st_dev != there.st_dev || mine.st_ino != there.st_ino);
}

std::string user_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache && *cache == '/')  // the XDG specification says to ignore a relative path
    return std::string(cache) + "/recollect";
  return home && *home ? std::string(home) + "/.cache/recollect" : "";
}

}  // namespace recollect
