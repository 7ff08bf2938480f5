// Checks the disk of a folder: its use for disk_checkpointing, and the features that complete files need.
#include <fcntl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "engine/core/arena.h"
#include "engine/core/error.h"
#include "engine/io/disk_store.h"
#include "launch/doctor/check.h"

namespace recollect::doctor {

namespace {

std::string file_system(const std::string& folder) {
  struct Known {
    long magic;
    const char* name;
  };
  static constexpr Known kKnown[] = {{0xef53, "ext4"},      {0x58465342, "xfs"},     {0x9123683e, "btrfs"},
                                     {0x01021994, "tmpfs"}, {0x794c7630, "overlay"}, {0x6969, "nfs"},
                                     {0x2fc12fc1, "zfs"},   {0x65735546, "fuse"},    {0x0bd00bd0, "lustre"}};
  struct statfs facts {};
  if (::statfs(folder.c_str(), &facts) != 0) return "unknown file system";
  for (const Known& known : kKnown)
    if (static_cast<long>(facts.f_type) == known.magic) return known.name;
  return fmt::format("file system {:#x}", static_cast<unsigned long>(facts.f_type));
}

// Writes a block to the disk and reads it back in the same way as saved activations.
Check kept_values(const std::string& folder) {
  Check check{.name = "saved activations"};
  try {
    const Arena ring(DiskStore::kRingBytes);
    DiskStore store(folder);
    store.open(DiskStore::kBlock);
    std::byte sent[DiskStore::kBlock], back[DiskStore::kBlock] = {};
    std::memset(sent, 0x5a, sizeof sent);
    store.write("a block", sent, sizeof sent, 0, ring.at(0));
    store.read("a block", back, sizeof back, 0, ring.at(0));
    if (std::memcmp(sent, back, sizeof sent) != 0) {
      check.status = Status::kWarn;
      check.found = "a block came back with other bytes than it was sent with";
      check.fix = "do not use this disk";
      return check;
    }
    check.found = store.direct() ? "written and read past the page cache (O_DIRECT)"
                                 : "written and read through the page cache: O_DIRECT is refused";
    if (!store.direct()) {
      check.status = Status::kWarn;
      check.fix = "disk_checkpointing works here, but the page cache takes memory that no prediction counts";
    }
  } catch (const Error& error) {
    check.status = Status::kWarn;
    check.found = error.what();
    check.fix = "disk_checkpointing cannot use this folder";
  }
  return check;
}

// Whether a file can be unnamed and its space reserved, and what is used instead if not.
Check features(const std::string& folder) {
  Check check{.name = "file system", .found = file_system(folder)};
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  check.found +=
      file >= 0 ? "; files without a name (O_TMPFILE)" : "; no O_TMPFILE, names go at once instead";
  if (file >= 0) {
    const bool reserves = ::fallocate(file, 0, 0, DiskStore::kBlock) == 0;
    check.found += reserves ? "; reserves space (fallocate)" : "; no fallocate, a full disk is found late";
    ::close(file);
  }
  struct statvfs room {};
  if (::statvfs(folder.c_str(), &room) == 0)
    check.found += fmt::format("; {} free", gib(uint64_t{room.f_bavail} * room.f_frsize));
  return check;
}

}  // namespace

Group check_disk(const std::string& folder) {
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return {"disk of " + folder,
            {{.name = "file system",
              .status = Status::kWarn,
              .found = fmt::format("it cannot be written: {}", std::strerror(errno)),
              .fix = "runs write to output_dir; name another folder with --disk"}}};
  return {"disk of " + folder, {features(folder), kept_values(folder)}};
}

}  // namespace recollect::doctor
