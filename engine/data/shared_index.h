// What datasets know of their files (where lines begin, how long they are, which documents share a sample) as one piece of
// memory, which the processes of a node share: one of them has found it out and writes it, the others read it in the same
// order instead of reading the files. The memory is a file without a name: it is gone with the last process that maps it,
// however that ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace recollect {

// A mapping of all of it, in memory from the beginning, that nothing writes to once it is shared.
class SharedMemory {
 public:
  // Null where the system has no such memory left.
  static std::shared_ptr<SharedMemory> make(std::size_t bytes);
  // That which a process of this node has made, while it has it open; null where this process may not.
  static std::shared_ptr<const SharedMemory> open(int64_t process, int descriptor, std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> bytes() { return {base_, bytes_}; }
  std::span<const std::byte> bytes() const { return {base_, bytes_}; }
  int descriptor() const { return descriptor_; }
  void close_descriptor();  // nobody opens it any more; it stays mapped

 private:
  SharedMemory(std::byte* base, std::size_t bytes, int descriptor)
      : base_(base), bytes_(bytes), descriptor_(descriptor) {}

  std::byte* base_;
  std::size_t bytes_;
  int descriptor_;
};

// Writes words of 64 bits one after the other; without memory it counts them.
class IndexWriter {
 public:
  explicit IndexWriter(std::span<std::byte> to = {}) : to_(to) {}

  void number(uint64_t word) { words({&word, 1}); }
  void words(std::span<const uint64_t> words);
  void text(const std::string& text);
  std::size_t bytes() const { return at_; }

 private:
  std::span<std::byte> to_;
  std::size_t at_ = 0;
};

// What is read is not what is asked for: the files are others.
struct OtherIndex {};

class IndexReader {
 public:
  explicit IndexReader(std::shared_ptr<const SharedMemory> memory) : memory_(std::move(memory)) {}

  // All of them throw OtherIndex at the end of the memory.
  uint64_t number() { return words(1)[0]; }
  // Where they lie, as long as memory() is held.
  std::span<const uint64_t> words(uint64_t count);
  std::string text();
  void expect(uint64_t word) {
    if (number() != word) throw OtherIndex();
  }
  const std::shared_ptr<const SharedMemory>& memory() const { return memory_; }

 private:
  std::shared_ptr<const SharedMemory> memory_;
  std::size_t at_ = 0;
};

}  // namespace recollect
