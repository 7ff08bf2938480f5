#include "engine/io/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/core/error.h"
#include "engine/io/input_file.h"

namespace recollect {
namespace {

[[noreturn]] void storage_error(const std::string& action, const std::string& path, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
  throw Error(ExitCode::kStorage, fmt::format("cannot {} {}: {}", action, path, system_message(error_number)),
              full ? "free some space, raise the file-size limit or choose another folder"
                   : "check that the folder exists and can be written");
}

// Owns a descriptor for the length of a scope.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const InputFile file(path);
  size_ = file.size();
  if (size_ == 0) return;
  void* mapping = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (mapping == MAP_FAILED)
    throw Error(ExitCode::kInput,
                fmt::format("cannot map {} ({} bytes): {}", path_, size_, system_message(errno)));
  data_ = mapping;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

ReplacementFile::ReplacementFile(const std::string& path) : path_(path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) storage_error("write", path, EISDIR);
  const std::filesystem::path target(path);
  const std::string stem = fmt::format(".{}.{}", target.filename().string(), ::getpid());
  // The name is taken when a thread of this process, or a killed process of the same number, is at the same
  // target.
  for (int attempt = 0; attempt < 1000 && descriptor_ < 0; ++attempt) {
    temporary_ = fmt::format("{}/{}.{}.tmp", folder_of(path), stem, attempt);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) storage_error("create", path, errno);
}

ReplacementFile::ReplacementFile(ReplacementFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

ReplacementFile::~ReplacementFile() { discard(); }

void ReplacementFile::discard() noexcept {
  if (descriptor_ < 0) return;
  ::close(std::exchange(descriptor_, -1));
  ::unlink(temporary_.c_str());
}

void ReplacementFile::reserve(uint64_t bytes) {
  require(descriptor_ >= 0, "reserve() on a file that was already committed");
  if (bytes == 0) return;
  if (bytes > static_cast<uint64_t>(INT64_MAX)) storage_error("reserve space for", path_, EFBIG);
  const int error_number = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
  // A file system that cannot reserve still reports a full disk, only later.
  if (error_number == 0 || error_number == EOPNOTSUPP || error_number == EINVAL) return;
  storage_error(fmt::format("reserve {} bytes for", bytes), path_, error_number);
}

void ReplacementFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  require(descriptor_ >= 0, "write_at() on a file that was already committed");
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) storage_error("write", path_, written < 0 ? errno : EIO);
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void ReplacementFile::commit() {
  require(descriptor_ >= 0, "commit() on a file that was already committed");
  // A failed fsync is final: the kernel may have marked the lost pages clean, so a second one would say
  // "fine".
  const bool synced = ::fsync(descriptor_) == 0;
  int error_number = synced ? 0 : errno;
  if (synced && ::rename(temporary_.c_str(), path_.c_str()) != 0) error_number = errno;
  if (error_number != 0) {
    discard();
    storage_error("write", path_, error_number);
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) storage_error("close", path_, errno);
  const Descriptor folder{::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  // Some file systems cannot flush a folder and say EINVAL; that is not a loss of data.
  if (folder.value >= 0 && ::fsync(folder.value) != 0 && errno != EINVAL)
    storage_error("flush the folder of", path_, errno);
}

void write_text_file(const std::string& path, std::string_view text) {
  ReplacementFile file(path);
  file.reserve(text.size());
  file.write_at(0, std::as_bytes(std::span(text)));
  file.commit();
}

bool looks_like_pickle(std::span<const std::byte> bytes) {
  if (bytes.size() < 4) return false;
  const auto at = [&](std::size_t i) { return std::to_integer<int>(bytes[i]); };
  const bool zip = at(0) == 'P' && at(1) == 'K' && at(2) == 3 && at(3) == 4;
  const bool pickle = at(0) == 0x80 && at(1) >= 2 && at(1) <= 5;  // the opcode PROTO and its number
  return zip || pickle;
}

bool has_pickle_extension(std::string_view path) {
  constexpr std::array<std::string_view, 5> kExtensions = {".bin", ".pt", ".pth", ".ckpt", ".pkl"};
  return std::any_of(kExtensions.begin(), kExtensions.end(),
                     [&](std::string_view extension) { return path.ends_with(extension); });
}

void refuse_pickle(const std::string& path) {
  throw Error(ExitCode::kInput, fmt::format("{} holds pickled weights, which can run code when read", path),
              "convert it in Python where you trust it: AutoModelForCausalLM.from_pretrained(FOLDER)"
              ".save_pretrained(NEW_FOLDER) writes model.safetensors");
}

}  // namespace recollect
