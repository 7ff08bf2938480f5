#include "engine/data/shared_index.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include <fmt/format.h>

namespace recollect {

std::shared_ptr<SharedMemory> SharedMemory::make(std::size_t bytes) {
  const int descriptor = ::memfd_create("recollect-index", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  // Taken now, so that memory that runs short is found here and not by a write.
  const bool taken = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes)) == 0;
  void* const base =
      taken ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0)
            : MAP_FAILED;
  if (base == MAP_FAILED) {
    ::close(descriptor);
    return nullptr;
  }
  return std::shared_ptr<SharedMemory>(new SharedMemory(static_cast<std::byte*>(base), bytes, descriptor));
}

std::shared_ptr<const SharedMemory> SharedMemory::open(int64_t process, int descriptor, std::size_t bytes) {
  const int own = ::open(fmt::format("/proc/{}/fd/{}", process, descriptor).c_str(), O_RDONLY | O_CLOEXEC);
  if (own < 0) return nullptr;
  struct stat status {};
  void* base = MAP_FAILED;
  if (::fstat(own, &status) == 0 && static_cast<std::size_t>(status.st_size) == bytes)
    base = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, own, 0);
  ::close(own);
  if (base == MAP_FAILED) return nullptr;
  return std::shared_ptr<const SharedMemory>(new SharedMemory(static_cast<std::byte*>(base), bytes, -1));
}

SharedMemory::~SharedMemory() {
  ::munmap(base_, bytes_);
  close_descriptor();
}

void SharedMemory::close_descriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void IndexWriter::words(std::span<const uint64_t> words) {
  if (!to_.empty() && !words.empty()) std::memcpy(to_.data() + at_, words.data(), words.size_bytes());
  at_ += words.size_bytes();
}

void IndexWriter::text(const std::string& text) {
  std::vector<uint64_t> padded((text.size() + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  if (!text.empty()) std::memcpy(padded.data(), text.data(), text.size());
  number(text.size());
  words(padded);
}

std::span<const uint64_t> IndexReader::words(uint64_t count) {
  const std::size_t left = (memory_->bytes().size() - at_) / sizeof(uint64_t);
  if (count > left) throw OtherIndex();
  const auto* const first = reinterpret_cast<const uint64_t*>(memory_->bytes().data() + at_);
  at_ += count * sizeof(uint64_t);
  return {first, count};
}

std::string IndexReader::text() {
  const uint64_t length = number();
  const auto padded = words(length / sizeof(uint64_t) + (length % sizeof(uint64_t) != 0));
  return {reinterpret_cast<const char*>(padded.data()), length};
}

}  // namespace recollect
