// An Arena is one block of memory, reserved once and handed out by offset. It never grows. The code that
// plans the offsets makes sure that values do not overlap.
#pragma once

#include <cstddef>
#include <memory>

namespace recollect {

inline constexpr std::size_t kAlignment = 64;  // bytes: of every value and workspace in an arena
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
inline constexpr std::size_t kDiskBlock = 4096;  // bytes: of every value in a file

class Arena {
 public:
  using Release = void (*)(std::byte* base, std::size_t bytes);

  // Reserves zeroed host memory and backs it with pages at once, so that a lack of memory shows here and not
  // in the middle of a run. The pages just before and after it cannot be accessed. Throws Error kDeviceMemory
  // if the system refuses.
  explicit Arena(std::size_t bytes);
  // Takes zeroed memory of another kind, which `release` frees.
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
