#include "parallel/snapshot/snapshot_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/io/descriptor.h"
#include "engine/io/files.h"
#include "parallel/snapshot/manifest.h"

namespace recollect {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = "step-", kSaving = ".saving", kRemoved = ".removed";

[[noreturn]] void cannot(const std::string& what, const std::string& path, int reason) {
  throw Error(ExitCode::kStorage, fmt::format("cannot {} {}: {}", what, path, system_message(reason)));
}

// Names in it reach the disk.
void flush_folder(const std::string& path) {
  const Descriptor folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!folder) cannot("open", path, errno);
  // Some file systems cannot flush a folder and say EINVAL; that is not a loss of data.
  if (::fsync(folder.get()) != 0 && errno != EINVAL) cannot("flush", path, errno);
}

void rename_folder(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) cannot("name", to, errno);
}

// It is no snapshot any more once its name has gone.
void remove_snapshot(const std::string& path) {
  std::error_code error;
  const std::string removed = path + std::string(kRemoved);
  fs::remove_all(removed, error);
  rename_folder(path, removed);
  fs::remove_all(removed, error);
  if (error) cannot("remove", removed, error.value());
}

std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored))
      names.push_back(entry->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) cannot("read the folder", path, error.value());
  return names;
}

}  // namespace

int64_t step_of_folder(const std::string& name) {
  if (!name.starts_with(kBegin)) return -1;
  int64_t step = 0;
  const char *const begin = name.data() + kBegin.size(), *const end = name.data() + name.size();
  const auto [last, error] = std::from_chars(begin, end, step);
  const bool good =
      error == std::errc() && last == end && step >= 0 && name == fmt::format("step-{:08}", step);
  return good ? step : -1;
}

std::string SnapshotFolder::of_step(int64_t step) const { return fmt::format("{}/step-{:08}", path_, step); }

std::vector<int64_t> SnapshotFolder::steps() const {
  std::vector<int64_t> steps;
  for (const std::string& name : folders_in(path_))
    if (const int64_t step = step_of_folder(name); step >= 0) steps.push_back(step);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

void SnapshotFolder::begin(int64_t step) const {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) cannot("make the folder", path_, error.value());
  const std::string folder = being_saved(step);
  fs::remove_all(folder, error);
  if (::mkdir(folder.c_str(), 0777) != 0) cannot("make the folder", folder, errno);
}

void SnapshotFolder::commit(int64_t step, const std::string& manifest) const {
  const std::string from = being_saved(step), to = of_step(step);
  write_text_file(from + "/" + std::string(kManifestName), manifest);
  flush_folder(from);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    flush_folder(path_);
    return remove_snapshot(from);  // the former one
  }
  if (errno != ENOENT) {  // a file system that cannot exchange names
    struct stat there {};
    if (::lstat(to.c_str(), &there) == 0) remove_snapshot(to);
  }
  rename_folder(from, to);
  flush_folder(path_);
}

void SnapshotFolder::remove_old(int64_t keep) const {
  const std::vector<int64_t> all = steps();
  for (std::size_t i = static_cast<std::size_t>(keep); i < all.size(); ++i) remove_snapshot(of_step(all[i]));
}

void SnapshotFolder::remove_rubbish() const {
  std::vector<std::string> names;
  try {
    names = folders_in(path_);
  } catch (const Error&) {
    return;  // whoever saves there next will hear of it
  }
  for (const std::string& name : names)
    for (const std::string_view end : {kSaving, kRemoved}) {
      if (!name.ends_with(end) || step_of_folder(name.substr(0, name.size() - end.size())) < 0) continue;
      std::error_code ignored;
      fs::remove_all(path_ + "/" + name, ignored);
    }
}

}  // namespace recollect
