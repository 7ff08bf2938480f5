// Blocks on a disk, written and read by offset in a private file. The file has no name, so nothing remains
// when the process ends in any way. If the disk allows it, data bypasses the system's page cache (O_DIRECT),
// through a ring of aligned slots that the caller provides. Each slot has its own thread, so that several
// requests are in progress at once. A call returns when its bytes are in the file, or in memory. Nothing is
// allocated after open().
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "engine/core/arena.h"

namespace recollect {

// The system calls of a DiskStore. Tests replace them to make them fail. Each sets errno like the system
// call.
class DiskCalls {
 public:
  virtual ~DiskCalls() = default;
  virtual int set_direct(int file);
  virtual int reserve(int file, uint64_t bytes);
  virtual ssize_t write(int file, const void* from, std::size_t bytes, off_t offset);
  virtual ssize_t read(int file, void* to, std::size_t bytes, off_t offset);
};

// The purpose of a store, for error messages.
struct DiskPurpose {
  std::string_view what = "saved activations";
  std::string_view key = "activation_checkpointing.disk_checkpointing.path";  // the key that names its folder
  std::string_view instead = "save less (activation_checkpointing.mode)";
};

class DiskStore {
 public:
  static constexpr std::size_t kBlock = kDiskBlock;  // offsets and requests are multiples of it
  static constexpr int kSlots = 4;
  static constexpr std::size_t kSlotBytes = std::size_t{1} << 20;
  static constexpr std::size_t kRingBytes = kSlots * kSlotBytes;

  // Bytes transferred in one direction, and the time spent in calls.
  struct Traffic {
    uint64_t bytes = 0;
    double seconds = 0;  // spent in calls
    double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
  };

  explicit DiskStore(std::string folder, const DiskPurpose& purpose = {})
      : folder_(std::move(folder)), purpose_(purpose) {}
  ~DiskStore();
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;

  // `calls` must outlive the store. Call it before open().
  void replace_calls(DiskCalls& calls) { calls_ = &calls; }
  // Reserves that many bytes, all zero. Throws kStorage if the folder cannot be written or has too little
  // space.
  void open(uint64_t bytes);

  // `name` is used in messages. `offset` and `ring` are multiples of kBlock, and `ring` is kRingBytes long.
  // The file's bytes from the end of the data to the next multiple of kBlock are overwritten. One call at a
  // time. Throws kStorage with the name, the system's reason and the offset in the file.
  void write(std::string_view name, const void* data, std::size_t bytes, uint64_t offset, std::byte* ring);
  void read(std::string_view name, void* data, std::size_t bytes, uint64_t offset, std::byte* ring);
  // The same for any offset, without overwriting other bytes of the file. They are slower.
  void write_piece(std::string_view name, const void* data, std::size_t bytes, uint64_t offset,
                   std::byte* ring);
  void read_piece(std::string_view name, void* data, std::size_t bytes, uint64_t offset, std::byte* ring);

  bool direct() const { return direct_; }
  const Traffic& written() const { return written_; }
  const Traffic& read() const { return read_; }

 private:
  struct Request {
    bool writes = false;
    std::string_view name;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    uint64_t offset = 0;
    std::byte* ring = nullptr;
    std::size_t chunks() const { return (bytes + kSlotBytes - 1) / kSlotBytes; }
  };

  // The part of a piece that is transferred at once.
  struct Window {
    uint64_t first = 0;               // offset in the file, a multiple of kBlock
    std::size_t skip = 0, bytes = 0;  // the piece starts `skip` bytes after `first` and has `bytes` here
  };
  static Window window_at(uint64_t offset, std::size_t bytes);

  void reserve(uint64_t bytes);
  void run(const Request& request, Traffic& traffic);
  void serve(int slot);
  void move(const Request& request, std::size_t chunk, std::byte* slot);
  void transfer(const Request& request, std::byte* slot, std::size_t bytes, uint64_t offset);
  void slot_loop(int slot);

  std::string folder_;
  DiskPurpose purpose_;
  DiskCalls system_;
  DiskCalls* calls_ = &system_;
  int file_ = -1;
  bool direct_ = false;
  Traffic written_, read_;

  // The calling thread serves the first slot.
  std::array<std::thread, kSlots - 1> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  Request request_;
  uint64_t number_ = 0;  // counts the requests in which the threads take part
  int busy_ = 0;
  bool stopping_ = false;
  std::atomic<std::size_t> next_chunk_ = 0;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;
};

}  // namespace recollect
