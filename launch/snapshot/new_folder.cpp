#include "launch/snapshot/new_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/descriptor.h"
#include "engine/io/safetensors_writer.h"

namespace recollect {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void folder_error(const std::string& what, const std::string& path, int reason) {
  throw Error(ExitCode::kStorage,
              fmt::format("cannot {} {}: {}", what, printable(path), system_message(reason)));
}

void flush(const std::string& path) {
  const Descriptor folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!folder) folder_error("open", path, errno);
  if (::fsync(folder.get()) != 0 && errno != EINVAL) folder_error("flush", path, errno);
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// The files in a folder that may not be replaced.
std::vector<std::string> strangers_in(const std::string& folder,
                                      const std::vector<std::string>& replaceable) {
  std::vector<std::string> names;
  std::error_code error, ignored;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool known = std::find(replaceable.begin(), replaceable.end(), name) != replaceable.end() ||
                       is_part_of_model(name);
    if (!known || !entry->is_regular_file(ignored)) names.push_back(name);
  }
  if (error) folder_error("read the folder", folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

NewFolder::NewFolder(const std::string& name, bool overwrite, const std::vector<std::string>& replaceable) {
  fs::path path = fs::path(name).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  name_ = path.string();
  being_written_ = name_ + ".converting";
  std::error_code error;
  const fs::file_status there = fs::symlink_status(name_, error);
  if (there.type() != fs::file_type::not_found) {
    if (there.type() != fs::file_type::directory)
      throw Error(ExitCode::kStorage, fmt::format("{} is there, and no folder", printable(name_)),
                  "name another destination");
    const std::vector<std::string> strangers = strangers_in(name_, replaceable);
    if (!strangers.empty())
      throw Error(ExitCode::kStorage,
                  fmt::format("{} holds what is not a model's: {}", printable(name_), list_some(strangers)),
                  "name another destination");
    replaces_ = !fs::is_empty(name_, error);
    if (replaces_ && !overwrite)
      throw Error(ExitCode::kStorage, fmt::format("{} is there", printable(name_)),
                  "name another destination, or let it be replaced: --overwrite");
  }
  fs::remove_all(being_written_, error);  // left by a killed conversion
  fs::create_directories(parent_of(name_), error);
  if (::mkdir(being_written_.c_str(), 0777) != 0) folder_error("make the folder", being_written_, errno);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  fs::remove_all(being_written_, ignored);  // after commit(): the old folder
}

void NewFolder::exchange_in_turn() const {
  const std::string former = name_ + ".replaced";
  if (::rename(name_.c_str(), former.c_str()) != 0) folder_error("rename", name_, errno);
  if (::rename(being_written_.c_str(), name_.c_str()) != 0) {
    const int reason = errno;
    if (::rename(former.c_str(), name_.c_str()) != 0) folder_error("name", former + " " + name_, errno);
    folder_error("name", name_, reason);
  }
  std::error_code ignored;
  fs::remove_all(former, ignored);
}

void NewFolder::commit() {
  flush(being_written_);
  if (!replaces_) {
    if (::rename(being_written_.c_str(), name_.c_str()) != 0) folder_error("name", name_, errno);
  } else if (::renameat2(AT_FDCWD, being_written_.c_str(), AT_FDCWD, name_.c_str(), RENAME_EXCHANGE) != 0) {
    exchange_in_turn();  // the file system cannot exchange names
  }
  flush(parent_of(name_));
}

}  // namespace recollect
