// Counts what kernels on the calling thread move between memory and multiprocessors, in the values that are named: what
// they load and store by engine/runtime/cuda/element.h, in units of 16 bytes. A device's caches are taken to do what they
// can be relied on for: what a block has touched it does not fetch again, and a small value is fetched once in a
// launch. What is counted is therefore passes over memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace recollect::emulation {

class Traffic {
 public:
  Traffic();  // begins to count; one at a time on a thread
  ~Traffic();
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  // Small: of so many bytes at most, like what has a number for each column or each row.
  void watch(const void* data, std::size_t bytes, std::size_t small);

  int64_t launches() const { return launches_; }
  int64_t read(std::size_t value) const { return values_.at(value).read * kUnit; }  // bytes
  int64_t written(std::size_t value) const { return values_.at(value).written * kUnit; }
  int64_t elsewhere() const { return elsewhere_; }  // read and written in what is not watched

  void begin_launch() { ++launches_; }
  void touch(const void* data, std::size_t bytes, bool writes);

 private:
  static constexpr int64_t kUnit = 16;
  struct Watched {
    const std::byte* begin;
    std::size_t bytes;
    bool small;
    std::vector<uint64_t> reader, writer;  // of each unit: who touched it last
    int64_t read = 0, written = 0;         // units
  };

  std::vector<Watched> values_;
  int64_t launches_ = 0, elsewhere_ = 0;
};

// Of the calling thread; null where nothing is counted.
inline thread_local Traffic* traffic = nullptr;

}  // namespace recollect::emulation
