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
#include "engine/io/files.h"
#include "engine/io/folders.h"
#include "parallel/snapshot/manifest.h"

namespace recollect {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = "step-", kSaving = ".saving", kRemoved = ".removed", kFormer = ".former";

[[noreturn]] void cannot(const std::string& what, const std::string& path, int reason) {
  throw Error(ExitCode::kStorage, fmt::format("cannot {} {}: {}", what, path, system_message(reason)));
}

void rename_folder(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) cannot("name", to, errno);
}

void remove_all(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) cannot("remove", path, error.value());
}

bool is_there(const std::string& path) {
  struct stat there {};
  return ::lstat(path.c_str(), &there) == 0;
}

// It is no snapshot any more once its name has gone; one that it has replaced, and that is still there, must not get it.
void remove_snapshot(const std::string& path) {
  if (const std::string former = path + std::string(kFormer); is_there(former)) remove_all(former);
  const std::string removed = path + std::string(kRemoved);
  std::error_code ignored;
  fs::remove_all(removed, ignored);
  if (::rename(path.c_str(), removed.c_str()) != 0) cannot("remove", path, errno);
  remove_all(removed);
}

// Files and links too: what has such a name is in a snapshot's place.
std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
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

std::string SnapshotFolder::former(int64_t step) const { return of_step(step) + std::string(kFormer); }

std::string SnapshotFolder::being_saved(int64_t step) const { return of_step(step) + std::string(kSaving); }

std::vector<int64_t> SnapshotFolder::steps() const {
  std::vector<int64_t> steps;
  for (const std::string& name : names_in(path_))
    if (const int64_t step = step_of_folder(name); step >= 0) steps.push_back(step);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

void SnapshotFolder::make() const { make_folders(path_); }

void SnapshotFolder::begin(int64_t step) const {
  if (std::error_code ignored; !fs::is_directory(path_, ignored)) make();
  const std::string folder = being_saved(step);
  if (is_there(folder)) {
    flush_folder(path_);
    remove_all(folder);
  }
  if (::mkdir(folder.c_str(), 0777) != 0) cannot("make the folder", folder, errno);
}

void SnapshotFolder::discard(int64_t step) const {
  std::error_code ignored;
  fs::remove_all(being_saved(step), ignored);
}

void SnapshotFolder::commit(int64_t step, const std::string& manifest) const {
  try {
    write_text_file(being_saved(step) + "/" + std::string(kManifestName), manifest);
    flush_folder(being_saved(step));
    take_name(step);
  } catch (const Error&) {
    discard(step);
    throw;
  }
  flush_folder(path_);
}

void SnapshotFolder::take_name(int64_t step) const {
  const std::string from = being_saved(step), to = of_step(step);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  const bool cannot_exchange = errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
  if (!cannot_exchange && errno != ENOENT) cannot("name", to, errno);
  if (!is_there(to)) return rename_folder(from, to);
  replace(to, from);
}

// The one that is there waits under another name, which is nobody's rubbish before the new one has this name.
void SnapshotFolder::replace(const std::string& to, const std::string& from) const {
  const std::string former = to + std::string(kFormer);
  if (is_there(former)) {
    flush_folder(path_);
    remove_all(former);
  }
  rename_folder(to, former);
  try {
    rename_folder(from, to);
  } catch (const Error&) {
    rename_folder(former, to);
    throw;
  }
}

void SnapshotFolder::restore() const {
  for (const std::string& name : names_in(path_)) {
    if (!name.ends_with(kFormer)) continue;
    const std::string own = name.substr(0, name.size() - kFormer.size());
    if (step_of_folder(own) >= 0 && !is_there(path_ + "/" + own))
      rename_folder(path_ + "/" + name, path_ + "/" + own);
  }
}

void SnapshotFolder::put_back(int64_t step) const {
  const std::string path = of_step(step), removed = path + std::string(kRemoved);
  if (is_there(removed)) remove_all(removed);
  rename_folder(path, removed);
  rename_folder(former(step), path);
  flush_folder(path_);
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
  try_to([&] {
    for (const std::string& path : rubbish()) remove_all(path);
  });
  std::vector<int64_t> all;
  try_to([&] { all = steps(); });
  for (const int64_t there : all)
    if (there > step || --keep < 0) try_to([&] { remove_snapshot(of_step(there)); });
  if (first) throw *first;
}

void SnapshotFolder::remove_rubbish() const {
  try {
    const std::vector<std::string> paths = rubbish();
    if (!paths.empty()) flush_folder(path_);
    for (const std::string& path : paths) {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } catch (const Error&) {
    // Whoever saves there next will hear of it.
  }
}

std::vector<std::string> SnapshotFolder::rubbish() const {
  std::vector<std::string> paths;
  for (const std::string& name : names_in(path_))
    for (const std::string_view end : {kSaving, kRemoved, kFormer}) {
      if (!name.ends_with(end)) continue;
      const std::string own = name.substr(0, name.size() - end.size());
      if (step_of_folder(own) >= 0 && (end != kFormer || is_there(path_ + "/" + own)))
        paths.push_back(path_ + "/" + name);
    }
  return paths;
}

}  // namespace recollect
