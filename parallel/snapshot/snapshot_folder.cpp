#include "parallel/snapshot/snapshot_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>

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

void remove_all(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) cannot("remove", path, error.value());
}

// And every folder around it that is not there; each name reaches the disk.
void make_folders(const fs::path& path) {
  if (::mkdir(path.c_str(), 0777) == 0) {
    const std::string parent = path.parent_path().string();
    return flush_folder(parent.empty() ? "." : parent);
  }
  const int reason = errno;
  std::error_code ignored;
  if (reason == EEXIST && fs::is_directory(path, ignored)) return;
  if (reason != ENOENT || !path.has_relative_path()) cannot("make the folder", path.string(), reason);
  make_folders(path.parent_path());
  make_folders(path);
}

// It is no snapshot any more once its name has gone.
void remove_snapshot(const std::string& path) {
  const std::string removed = path + std::string(kRemoved);
  std::error_code ignored;
  fs::remove_all(removed, ignored);
  if (::rename(path.c_str(), removed.c_str()) != 0) cannot("remove", path, errno);
  remove_all(removed);
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

void SnapshotFolder::make() const {
  const fs::path path = fs::path(path_).lexically_normal();
  make_folders(path.has_filename() ? path : path.parent_path());
}

void SnapshotFolder::begin(int64_t step) const {
  make();
  const std::string folder = being_saved(step);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  if (::mkdir(folder.c_str(), 0777) != 0) cannot("make the folder", folder, errno);
}

void SnapshotFolder::commit(int64_t step, const std::string& manifest) const {
  try {
    write_text_file(being_saved(step) + "/" + std::string(kManifestName), manifest);
    flush_folder(being_saved(step));
    take_name(step);
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove_all(being_saved(step), ignored);
    throw;
  }
  flush_folder(path_);
}

void SnapshotFolder::take_name(int64_t step) const {
  const std::string from = being_saved(step), to = of_step(step);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != ENOENT) {  // a file system that cannot exchange names
    struct stat there {};
    if (::lstat(to.c_str(), &there) == 0) remove_snapshot(to);
  }
  rename_folder(from, to);
}

void SnapshotFolder::remove_old(int64_t step, int64_t keep) const {
  std::optional<Error> first;
  const auto try_to = [&](const auto& remove) {
    try {
      remove();
    } catch (const Error& error) {
      if (!first) first = error;
    }
  };
  std::vector<int64_t> all;
  try_to([&] { all = steps(); });
  for (const int64_t there : all)
    if (there > step || --keep < 0) try_to([&] { remove_snapshot(of_step(there)); });
  try_to([&] {
    for (const std::string& path : rubbish()) remove_all(path);
  });
  if (first) throw *first;
}

void SnapshotFolder::remove_rubbish() const {
  try {
    for (const std::string& path : rubbish()) {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } catch (const Error&) {
    // Whoever saves there next will hear of it.
  }
}

std::vector<std::string> SnapshotFolder::rubbish() const {
  std::vector<std::string> paths;
  for (const std::string& name : folders_in(path_))
    for (const std::string_view end : {kSaving, kRemoved})
      if (name.ends_with(end) && step_of_folder(name.substr(0, name.size() - end.size())) >= 0)
        paths.push_back(path_ + "/" + name);
  return paths;
}

}  // namespace recollect
