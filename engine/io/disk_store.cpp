#include "engine/io/disk_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "engine/core/byte_count.h"
#include "engine/core/error.h"

namespace recollect {

namespace {

constexpr std::size_t round_up(std::size_t bytes) {
  return (bytes + DiskStore::kBlock - 1) / DiskStore::kBlock * DiskStore::kBlock;
}

// Opens a file without a name. Returns -1 and sets errno if the folder does not allow it.
int open_nameless(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string path = folder + "/recollect-XXXXXX";  // without O_TMPFILE: the name is removed at once
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

}  // namespace

int DiskCalls::set_direct(int file) { return ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) | O_DIRECT); }
int DiskCalls::reserve(int file, uint64_t bytes) {
  return ::fallocate(file, 0, 0, static_cast<off_t>(bytes));
}
ssize_t DiskCalls::write(int file, const void* from, std::size_t bytes, off_t offset) {
  return ::pwrite(file, from, bytes, offset);
}
ssize_t DiskCalls::read(int file, void* to, std::size_t bytes, off_t offset) {
  return ::pread(file, to, bytes, offset);
}

DiskStore::~DiskStore() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
  if (file_ >= 0) ::close(file_);
}

void DiskStore::open(uint64_t bytes) {
  require(file_ < 0, "a disk store is opened once");
  file_ = open_nameless(folder_);
  if (file_ < 0)
    throw Error(ExitCode::kStorage,
                fmt::format("cannot make a file in {}: {}", folder_, system_message(errno)),
                fmt::format("{} must be a folder that exists and can be written", purpose_.key));
  reserve(bytes);
  direct_ = calls_->set_direct(file_) == 0;
  for (int i = 0; i < kSlots - 1; ++i) threads_[i] = std::thread([this, i] { slot_loop(i + 1); });
}

void DiskStore::reserve(uint64_t bytes) {
  int refused = bytes > 0 ? EINTR : 0;  // reserving zero bytes is an error
  while (refused == EINTR) refused = calls_->reserve(file_, bytes) == 0 ? 0 : errno;
  if (refused == ENOSPC || refused == EDQUOT || refused == EFBIG) {
    struct statvfs space {};
    const uint64_t available = ::fstatvfs(file_, &space) == 0 ? uint64_t{space.f_bavail} * space.f_frsize : 0;
    throw Error(ExitCode::kStorage,
                fmt::format("{} need {} in {}, where {} are available: {}", purpose_.what, byte_count(bytes),
                            folder_, byte_count(available), system_message(refused)),
                fmt::format("free some space, choose another folder, or {}", purpose_.instead));
  }
  // If a file system cannot reserve, a truncated file still reads unwritten bytes as zeros.
  if (refused == EOPNOTSUPP || refused == ENOSYS)
    refused = ::ftruncate(file_, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  if (refused != 0)
    throw Error(ExitCode::kStorage, fmt::format("cannot reserve {} in {}: {}", byte_count(bytes), folder_,
                                                system_message(refused)));
}

void DiskStore::write(std::string_view name, const void* data, std::size_t bytes, uint64_t offset,
                      std::byte* ring) {
  auto* from = static_cast<std::byte*>(const_cast<void*>(data));  // it is only read
  run({.writes = true, .name = name, .data = from, .bytes = bytes, .offset = offset, .ring = ring}, written_);
}

void DiskStore::read(std::string_view name, void* data, std::size_t bytes, uint64_t offset, std::byte* ring) {
  run({.name = name, .data = static_cast<std::byte*>(data), .bytes = bytes, .offset = offset, .ring = ring},
      read_);
}

DiskStore::Window DiskStore::window_at(uint64_t offset, std::size_t bytes) {
  const auto skip = static_cast<std::size_t>(offset % kBlock);
  return {.first = offset - skip, .skip = skip, .bytes = std::min(bytes, kSlotBytes - skip)};
}

// Writes whole blocks. The first and the last block may belong to the piece only in part, so they are read
// first.
void DiskStore::write_piece(std::string_view name, const void* data, std::size_t bytes, uint64_t offset,
                            std::byte* ring) {
  require(file_ >= 0, "a disk store is used before it is open");
  const Request reads{.name = name}, writes{.writes = true, .name = name};
  for (std::size_t done = 0; done < bytes;) {
    const Window w = window_at(offset + done, bytes - done);
    const std::size_t end = w.skip + w.bytes, last = round_up(end) - kBlock;
    if (w.skip > 0) transfer(reads, ring, kBlock, w.first);
    if (end % kBlock > 0 && (last > 0 || w.skip == 0)) transfer(reads, ring + last, kBlock, w.first + last);
    std::memcpy(ring + w.skip, static_cast<const std::byte*>(data) + done, w.bytes);
    transfer(writes, ring, round_up(end), w.first);
    done += w.bytes;
  }
}

void DiskStore::read_piece(std::string_view name, void* data, std::size_t bytes, uint64_t offset,
                           std::byte* ring) {
  require(file_ >= 0, "a disk store is used before it is open");
  const Request reads{.name = name};
  for (std::size_t done = 0; done < bytes;) {
    const Window w = window_at(offset + done, bytes - done);
    transfer(reads, ring, round_up(w.skip + w.bytes), w.first);
    std::memcpy(static_cast<std::byte*>(data) + done, ring + w.skip, w.bytes);
    done += w.bytes;
  }
}

void DiskStore::run(const Request& request, Traffic& traffic) {
  require(file_ >= 0, "a disk store is used before it is open");
  require(request.offset % kBlock == 0 && reinterpret_cast<uintptr_t>(request.ring) % kBlock == 0,
          "the disk wants aligned offsets and buffers");
  const auto start = std::chrono::steady_clock::now();
  const bool shared = request.chunks() > 1;
  {
    std::lock_guard lock(mutex_);
    request_ = request;
    next_chunk_ = 0;
    failed_ = false;
    error_ = nullptr;
    if (shared) {
      ++number_;
      busy_ = kSlots - 1;
    }
  }
  if (shared) wake_.notify_all();
  serve(0);
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return busy_ == 0; });
  if (error_) std::rethrow_exception(error_);
  traffic.bytes += request.bytes;
  traffic.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void DiskStore::slot_loop(int slot) {
  uint64_t done = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || number_ != done; });
    if (stopping_) return;
    done = number_;
    lock.unlock();
    serve(slot);
    lock.lock();
    if (--busy_ == 0) idle_.notify_all();
  }
}

// Takes chunks of the request until none is left.
void DiskStore::serve(int slot) {
  while (!failed_) {
    const std::size_t chunk = next_chunk_++;
    if (chunk >= request_.chunks()) return;
    try {
      move(request_, chunk, request_.ring + slot * kSlotBytes);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      failed_ = true;
    }
  }
}

void DiskStore::move(const Request& request, std::size_t chunk, std::byte* slot) {
  const std::size_t begin = chunk * kSlotBytes, bytes = std::min(kSlotBytes, request.bytes - begin);
  if (request.writes) std::memcpy(slot, request.data + begin, bytes);
  transfer(request, slot, round_up(bytes), request.offset + begin);
  if (!request.writes) std::memcpy(request.data + begin, slot, bytes);
}

// Repeats until all bytes have been transferred. The system may transfer fewer than asked; the next call then
// continues at a whole block.
void DiskStore::transfer(const Request& request, std::byte* slot, std::size_t bytes, uint64_t offset) {
  constexpr int kPatience = 3;  // consecutive calls that transfer less than a block
  std::size_t done = 0;
  for (int idle = 0; done < bytes;) {
    const auto at = static_cast<off_t>(offset + done);
    const ssize_t moved = request.writes ? calls_->write(file_, slot + done, bytes - done, at)
                                         : calls_->read(file_, slot + done, bytes - done, at);
    if (moved < 0 && errno == EINTR) continue;
    const std::size_t blocks = moved > 0 ? static_cast<std::size_t>(moved) / kBlock * kBlock : 0;
    idle = blocks > 0 ? 0 : idle + 1;
    if (moved < 0 || idle == kPatience) {
      const std::string why = moved < 0        ? system_message(errno)
                              : request.writes ? "nothing is written"
                                               : "the file ends there";
      throw Error(ExitCode::kStorage,
                  fmt::format("cannot {} {} {} the disk: {}, at offset {} of the file in {}",
                              request.writes ? "write" : "read", request.name, request.writes ? "to" : "from",
                              why, at, folder_),
                  fmt::format("look at the disk that holds {}", purpose_.key));
    }
    done += blocks;
  }
}

}  // namespace recollect
