#include "launch/train/snapshot_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

#include <fmt/format.h>

#include "comm/agree.h"
#include "engine/core/error.h"
#include "engine/io/folders.h"
#include "parallel/snapshot/snapshot_folder.h"

namespace recollect {

void on_first_rank(Communicator& world, const std::function<void()>& act) {
  std::string wrong, hint;
  if (world.rank() == 0) try {
      act();
    } catch (const Error& error) {
      if (error.code() != ExitCode::kStorage) throw;
      wrong = error.what();
      hint = error.hint();
    }
  wrong = broadcast_text(wrong, 0, world);
  hint = broadcast_text(hint, 0, world);
  if (!wrong.empty()) throw SharedError(ExitCode::kStorage, wrong, hint, world.rank() != 0);
}

Descriptor lock_snapshots(const std::string& path) {
  Descriptor folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw Error(ExitCode::kStorage, fmt::format("another run saves its snapshots in {}", path),
                "name another folder, or wait for its end");
  return folder;
}

SnapshotLock::SnapshotLock(const Config& config, Communicator& world) : config_(config), world_(world) {
  if (config.saves_snapshots()) on_first_rank(world, [&] { take(); });
}

void SnapshotLock::make() {
  on_first_rank(world_, [&] {
    const std::string path = config_.snapshot_folder();
    struct stat there {};
    if (folder_ && ::stat(path.c_str(), &there) == 0) return;  // else OutputFolder has moved it
    try {
      SnapshotFolder(config_.snapshot_folder()).make();
    } catch (const Error& error) {
      throw Error(
          ExitCode::kStorage, fmt::format("snapshot.path, rank 0: {}", error.what()),
          "name a folder that all ranks can write, such as one of a file system that the nodes share");
    }
    take();
    if (!SnapshotFolder(path).steps().empty())
      throw Error(ExitCode::kStorage,
                  fmt::format("another run has saved its snapshots in {} meanwhile", path),
                  "start this one again, which then sees them, or name another snapshot.path");
  });
}

void SnapshotLock::check() {
  const std::string path = config_.snapshot_folder();
  if (has_other_folder(folder_, path))
    throw Error(ExitCode::kStorage,
                fmt::format("{} is another folder than the one that this run began to save in", path),
                "what the run has saved is where its folder was moved to; leave it there until the run ends");
  if (struct stat there{}; !folder_ || ::stat(path.c_str(), &there) == 0) return;
  SnapshotFolder(path).make();
  take();
}

void SnapshotLock::take() {
  const SnapshotFolder folder(config_.snapshot_folder());
  Descriptor locked = lock_snapshots(folder.path());
  if (!locked) return;
  folder_ = std::move(locked);
  folder.restore();
}

}  // namespace recollect
