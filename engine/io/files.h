// Writes whole files. The bytes go to a temporary file in the same folder, are flushed to the disk, and only
// then does the file take its final name. So a reader, also of the old file, never sees a partial file, and a
// failure leaves nothing behind. A temporary file is locked while its writer lives; an unlocked one belongs
// to a dead process and is removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace recollect {

// A file that takes its name only at commit(). Until then, and forever if commit() is not reached, the file
// at `path` is untouched; the destructor removes the temporary file. A link at `path` is replaced, not
// followed; a folder, a device or a pipe is refused. Throws kStorage, naming the path and the system's
// reason.
class ReplacementFile {
 public:
  explicit ReplacementFile(const std::string& path);
  ~ReplacementFile();
  ReplacementFile(ReplacementFile&& other) noexcept;
  ReplacementFile& operator=(ReplacementFile&&) = delete;

  const std::string& path() const { return path_; }
  // Reserves disk space for the first `bytes` bytes, so that a full disk is found before any of them is
  // written.
  void reserve(uint64_t bytes);
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  // Makes later writes bypass the system's page cache if the file system allows it. This needs whole disk
  // blocks: offset, size and address are multiples of kDiskBlock. The first write that is not, such as the
  // end of a file, and all later ones use the cache.
  void write_directly() noexcept { set_direct(true); }
  // Only a file that was at `path` from the beginning is replaced; one that has appeared since is an error.
  void spare_newcomers() { replaces_ = existed_; }
  // Flushes the data, renames the file, flushes the folder. It is also an error if the temporary file is not
  // the one that was written, or has another length. After an error the temporary file is gone.
  void commit();

 private:
  bool is_as_written() const;
  int take_name() const;
  void set_direct(bool direct) noexcept;
  void discard() noexcept;

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
  uint64_t bytes_ = 0;    // size of the temporary file
  bool existed_ = false;  // there was a file at `path` at the beginning
  bool replaces_ = true;
  bool direct_ = false;
};

// Replaces the file at `path` by one that contains exactly `text`. Throws kStorage.
void write_text_file(const std::string& path, std::string_view text);

// Removes the temporary files that dead processes have left in the folder.
void remove_stale_temporaries(const std::string& folder);

// A file that grows by whole lines and can be read meanwhile. It is always a new file: a process that has the
// old file open, or a second name of it, keeps the old one. It takes its name when it contains its first text
// (`begins_with`). A link at `path` is not followed. Throws kStorage.
class GrowingFile {
 public:
  explicit GrowingFile(const std::string& path, std::string_view begins_with = {});
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  // Returns false and sets errno if the text cannot be written; then none of it is in the file.
  bool append(std::string_view text) noexcept;
  // Flushes what was appended to the disk; errors are ignored. Any thread may call it.
  void flush() const noexcept;

 private:
  int descriptor_ = -1;
  uint64_t bytes_ = 0;
};

// Pickled weights are refused, because unpickling runs code chosen by the author of the file.
// looks_like_pickle() returns true for a zip archive (PyTorch 1.6 and later) and for a bare pickle. Call it
// only for a file that is not valid safetensors, because a header length can begin with the same bytes.
bool looks_like_pickle(std::span<const std::byte> bytes);
// Returns true for the extensions that PyTorch gives such files: .bin, .pt, .pth, .ckpt, .pkl.
bool has_pickle_extension(std::string_view path);
// Throws kInput with instructions to convert the file.
[[noreturn]] void refuse_pickle(const std::string& path);

}  // namespace recollect
