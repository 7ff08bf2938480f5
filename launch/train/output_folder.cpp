#include "launch/train/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/byte_count.h"
#include "engine/core/error.h"
#include "engine/io/files.h"
#include "engine/io/folders.h"
#include "engine/io/node.h"
#include "engine/io/output_file.h"
#include "engine/io/standard_output.h"
#include "engine/io/strict_json.h"
#include "launch/config/read.h"
#include "launch/program/units.h"
#include "launch/ranks/inputs.h"
#include "launch/train/launch_attempt.h"
#include "launch/train/resume.h"
#include "parallel/snapshot/snapshot_folder.h"

namespace recollect {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = ".recollect.lock";
constexpr std::size_t kMostNamed = 5;  // files in a message
constexpr std::size_t kMostLockText = 1024;

[[noreturn]] void cannot(const std::string& what, const std::string& path, int reason) {
  throw Error(ExitCode::kStorage, fmt::format("cannot {} {}: {}", what, path, system_message(reason)),
              "output_dir must be a folder that can be made and written");
}

std::string lock_text() {
  return fmt::format("run {}\nprocess {} on {}\n", LaunchAttempt().name(), ::getpid(), host_name());
}

std::string read_lock(int lock) {
  std::string text(kMostLockText, '\0');
  const ssize_t bytes = ::pread(lock, text.data(), text.size(), 0);
  text.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  return text;
}

// The folder itself, or its nearest existing parent.
std::string nearest_existing(const std::string& path) {
  fs::path at = fs::absolute(path).lexically_normal();
  std::error_code error;
  while (!fs::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  return at.string();
}

// Checks the only file that a run writes to a path of the user.
void check_gradients_file(const Config& config) {
  const std::string& file = config.debug.dump_gradients;
  if (file.empty()) return;
  check_not_read("debug.dump_gradients", file, files_read(config));
  const std::string name = fs::path(file).filename().string();
  if ((is_of_a_run(name) || name == kLockName) && same_file(config.output_dir + "/" + name, file))
    throw Error(ExitCode::kConfiguration,
                fmt::format("debug.dump_gradients {} is also written by the run itself", file),
                "name another file");
}

// Whether the same run has died there: its lock is left, and its configuration is the same.
bool died_there(const Config& config) {
  std::error_code error;
  if (!fs::exists(config.output_dir + "/" + kLockName, error)) return false;
  std::ifstream file(config.output_dir + "/" + kResolvedConfig);
  std::string line, text;
  while (std::getline(file, line))
    if (!line.starts_with('#')) text += line + '\n';
  return text == dump_resolved(config);
}

// A resumed run finds its own files there, even if it died before its first snapshot.
bool goes_on_by_itself(const Config& config) { return config.resume == "auto" && config.saves_snapshots(); }

bool goes_on(const Config& config) {
  return goes_on_by_itself(config) && (has_own_snapshots(config) || died_there(config));
}

std::string list_files(const std::vector<std::string>& found) {
  const std::size_t named = std::min(found.size(), kMostNamed);
  const std::string names = fmt::format("{}", fmt::join(found.begin(), found.begin() + named, ", "));
  return found.size() > named ? fmt::format("{} and {} more", names, found.size() - named) : names;
}

bool is_within(const fs::path& path, const fs::path& folder) {
  std::error_code error;  // e.g. for /dev/fd/63, which is no file
  const fs::path real = fs::weakly_canonical(path, error), around = fs::weakly_canonical(folder, error);
  if (error) return false;
  const fs::path from = real.lexically_relative(around);
  return !from.empty() && *from.begin() != "..";
}

// A file that would move and that the run reads; "" if there is none. The configuration does not count,
// because it has been read already.
std::string read_among(const Config& config, const std::vector<std::string>& names) {
  std::vector<std::string> read = files_read(config);
  const auto configuration = config.origins.find("");
  if (configuration != config.origins.end()) std::erase(read, configuration->second.text);
  if (config.resume != "auto" && config.resume != "never") read.push_back(config.resume);
  for (const std::string& file : read)
    for (const std::string& name : names)
      if (is_within(file, config.output_dir + "/" + name)) return file;
  return "";
}

// Why the files of an earlier run cannot be moved: they belong to no run, this run reads one, or it would
// replace snapshots.
std::string why_they_stay(const Config& config, const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), kResolvedConfig) == names.end())
    return fmt::format("{} holds files that a run would replace: {}", config.output_dir, list_files(names));
  const std::string holds =
      fmt::format("{} holds the files of another run: {}", config.output_dir, list_files(names));
  if (const std::string file = read_among(config, names); !file.empty())
    return fmt::format("{}; and this one reads {}", holds, file);
  const std::string snapshots = config.snapshot_folder();
  if (config.saves_snapshots() && !config.snapshot.path.empty() && !SnapshotFolder(snapshots).steps().empty())
    return fmt::format("{}; and snapshot.path {} holds snapshots already", holds, snapshots);
  return "";
}

}  // namespace

OutputFolder::OutputFolder(const Config& config)
    : config_(config),
      path_(config.output_dir),
      gradients_(config.debug.dump_gradients),
      overwrite_(config.overwrite || goes_on(config)),
      goes_on_by_itself_(goes_on_by_itself(config)) {
  check_gradients_file(config);
  const std::string there = nearest_existing(path_);
  std::error_code error;
  if (!fs::is_directory(there, error)) cannot("make the folder", path_, ENOTDIR);
  const int lock = open_lock(0);
  const bool locked = lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (locked) refuse_locked(lock);
  if (lock >= 0) ::close(lock);
  files_to_move();  // throws as early as possible
}

OutputFolder::~OutputFolder() {
  earlier_.reset();  // moves back if the run did not begin
  if (LaunchAttempt().name().empty() && !(began_ && goes_on_by_itself_)) leave();
  if (lock_ >= 0) ::close(lock_);
}

int OutputFolder::open_lock(int flags) const {
  const std::string path = path_ + "/" + kLockName;
  return ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0666);
}

void OutputFolder::refuse_locked(int lock) const {
  std::string who = read_lock(lock);
  ::close(lock);
  const std::size_t line = who.find("\nprocess ");
  who = line == std::string::npos ? "" : who.substr(line + 1, who.find('\n', line + 1) - line - 1);
  throw Error(
      ExitCode::kStorage,
      fmt::format("another run is writing to {}{}", path_, who.empty() ? "" : ": " + escaped_name(who)),
      "wait for its end, or name another output_dir");
}

// Files of an earlier attempt of the same launch belong to this run.
bool OutputFolder::may_replace() const {
  if (overwrite_) return true;
  const LaunchAttempt attempt;
  const int lock = attempt.is_later() ? open_lock(0) : -1;
  if (lock < 0) return false;
  const std::string before = read_lock(lock), run = "run ";
  ::close(lock);
  return before.starts_with(run) &&
         attempt.follows(before.substr(run.size(), before.find('\n') - run.size()));
}

std::vector<std::string> OutputFolder::files_to_move() const {
  if (may_replace()) return {};
  check_no_gradients();
  std::vector<std::string> names = files_of_a_run(path_);
  if (names.empty()) return names;
  if (const std::string why = why_they_stay(config_, names); !why.empty())
    throw Error(ExitCode::kStorage, why,
                "name another output_dir, or let them be replaced: overwrite: true, or --overwrite");
  return names;
}

void OutputFolder::check_no_gradients() const {
  struct stat there {};
  if (!gradients_.empty() && ::lstat(gradients_.c_str(), &there) == 0 && S_ISREG(there.st_mode))
    throw Error(ExitCode::kStorage, fmt::format("debug.dump_gradients {} exists", gradients_),
                "name another file, or let it be replaced: overwrite: true, or --overwrite");
}

void OutputFolder::check_space(const std::vector<PlannedFile>& files) const {
  struct statvfs disk {};
  if (::statvfs(nearest_existing(path_).c_str(), &disk) != 0) return;
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  uint64_t needed = 0;
  std::string list;
  for (const PlannedFile& file : files) {
    needed += file.bytes;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", file.what, bytes_text(file.bytes));
  }
  if (needed <= free) return;
  throw Error(ExitCode::kStorage,
              fmt::format("the run will write up to {} to {} ({}); its disk has {} free", byte_count(needed),
                          path_, list, byte_count(free)),
              "free some space, name another output_dir, or write less: logging.report_to, "
              "memory_report.formats");
}

void OutputFolder::take(const std::vector<PlannedFile>& files) {
  check_space(files);
  try {
    make_folders(path_);
  } catch (const Error& error) {
    throw Error(ExitCode::kStorage, error.what(), "output_dir must be a folder that can be made and written");
  }
  while (true) {
    lock_ = open_lock(O_CREAT);
    if (lock_ < 0) cannot("lock", path_, errno);
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) refuse_locked(std::exchange(lock_, -1));
      warn("{} cannot be locked ({}): see to it that no other run writes there", path_,
           system_message(errno));
    }
    struct stat mine {
    }, there{};
    const std::string path = path_ + "/" + kLockName;
    if (::fstat(lock_, &mine) == 0 && ::lstat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino)
      break;
    ::close(std::exchange(lock_, -1));  // the lock of a run that just ended
  }
  const std::vector<std::string> before = files_to_move();  // another run may have come and ended
  const std::string text = lock_text();
  const bool written = ::ftruncate(lock_, 0) == 0 &&
                       ::pwrite(lock_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  if (!written) cannot("write to", path_, errno);
  remove_stale_temporaries(path_);
  if (!before.empty()) earlier_.emplace(path_, before);
  folder_ = Descriptor{::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
}

// If the second file cannot be written, the first is removed; otherwise it would block the next start as the
// file of another run.
void OutputFolder::begin(const std::string& resolved, const std::string& plan) {
  const std::string first = path_ + "/" + kResolvedConfig;
  std::error_code ignored;
  const bool is_new = !fs::exists(first, ignored);
  try {
    write_text_file(first, resolved);
    write_text_file(path_ + "/plan.yaml", plan);
  } catch (const Error&) {
    if (is_new) fs::remove(first, ignored);
    throw;
  }
  began_ = true;
  if (!earlier_) return;
  earlier_->keep();
  say("{} holds the files of the run that was in {} before\n", earlier_->place(), path_);
}

void OutputFolder::check_place() const {
  if (!has_other_folder(folder_, path_)) return;
  throw Error(ExitCode::kStorage,
              fmt::format("{} is another folder than the one that this run began in", path_),
              "what the run has saved is where its folder was moved to; leave it there until the run ends");
}

void OutputFolder::leave() {
  if (lock_ < 0) return;
  ::unlink((path_ + "/" + kLockName).c_str());
  ::close(std::exchange(lock_, -1));
}

}  // namespace recollect
