// One block of memory, reserved once and handed out by offset. An Arena never grows; whoever plans the
// offsets answers for their not overlapping.
#pragma once

#include <cstddef>

namespace recollect {

inline constexpr std::size_t kAlignment = 64;  // of every value and workspace in an arena
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class Arena {
 public:
  // Zeroed, and backed by memory at once: what cannot be had fails here, not in the middle of a run.
  // Error kDeviceMemory where the system refuses.
  explicit Arena(std::size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* at(std::size_t offset) const { return base_ + offset; }
  std::size_t offset_of(const void* address) const { return static_cast<const std::byte*>(address) - base_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace recollect
