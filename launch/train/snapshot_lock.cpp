#include "launch/train/snapshot_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include <fmt/format.h>

#include "comm/agree.h"
#include "engine/core/error.h"
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
  if (!wrong.empty()) throw Error(ExitCode::kStorage, wrong, hint);
}

SnapshotLock::SnapshotLock(const Config& config, Communicator& world) : config_(config), world_(world) {
  if (config.saves_snapshots()) on_first_rank(world, [&] { take(); });
}

void SnapshotLock::make() {
  on_first_rank(world_, [&] {
    if (folder_) return;
    try {
      SnapshotFolder(config_.snapshot_folder()).make();
    } catch (const Error& error) {
      throw Error(
          ExitCode::kStorage, fmt::format("snapshot.path, rank 0: {}", error.what()),
          "name a folder that all ranks can write, such as one of a file system that the nodes share");
    }
    take();
  });
}

// A folder that cannot be locked, as on some file systems, is used all the same.
void SnapshotLock::take() {
  const SnapshotFolder folder(config_.snapshot_folder());
  Descriptor opened{::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!opened) return;
  if (::flock(opened.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw Error(ExitCode::kStorage, fmt::format("another run saves its snapshots in {}", folder.path()),
                "name another snapshot.path, or wait for its end");
  folder_ = std::move(opened);
  folder.restore();
}

}  // namespace recollect
