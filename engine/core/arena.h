// One block of memory, reserved once and handed out by offset. An Arena never grows; whoever plans the
// offsets answers for their not overlapping.
#pragma once

#include <cstddef>
#include <memory>

namespace recollect {

inline constexpr std::size_t kAlignment = 64;  // of every value and workspace in an arena
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
inline constexpr std::size_t kDiskBlock = 4096;  // of every value in a file

class Arena {
 public:
  using Release = void (*)(std::byte* base, std::size_t bytes);

  // Host memory: zeroed, and backed by pages at once, so that what cannot be had fails here, not in the
  // middle of a run. A page before and one after cannot be touched. Error kDeviceMemory where the system
  // refuses.
  explicit Arena(std::size_t bytes);
  // Memory of another kind, zeroed, that `release` gives back.
  Arena(std::byte* base, std::size_t bytes, Release release) : memory_(base, Deleter{bytes, release}) {}

  std::byte* at(std::size_t offset) const { return memory_.get() + offset; }
  std::size_t offset_of(const void* address) const {
    return static_cast<const std::byte*>(address) - memory_.get();
  }
  std::size_t bytes() const { return memory_.get_deleter().bytes; }

 private:
  struct Deleter {
    std::size_t bytes;
    Release release;
    void operator()(std::byte* base) const { release(base, bytes); }
  };
  std::unique_ptr<std::byte, Deleter> memory_{nullptr, Deleter{0, nullptr}};
};

}  // namespace recollect
