// Whole files that are written. Writing replaces: the bytes go to a temporary file in the same folder, reach
// the disk, and only then take the final name, so that a reader, of the old file too, never sees half of
// anything, and a failure leaves nothing behind. A temporary file is locked while its writer lives; one that
// nobody locks is a dead process's, and goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace recollect {

// A file being written that takes its name only at commit(). Until then, and for ever when commit() is not
// reached, whatever was at `path` is untouched; the destructor removes the temporary file. A link at `path`
// is replaced, not followed; a folder, a device or a pipe there is refused. Errors: kStorage, naming the path
// and the system's reason.
class ReplacementFile {
 public:
  explicit ReplacementFile(const std::string& path);
  ~ReplacementFile();
  ReplacementFile(ReplacementFile&& other) noexcept;
  ReplacementFile& operator=(ReplacementFile&&) = delete;

  const std::string& path() const { return path_; }
  // Claims disk space for the first `bytes` bytes, so that a full disk is found before any of them is
  // written.
  void reserve(uint64_t bytes);
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  // From here on goes past the system's page cache, where the file system lets it, what is in whole blocks of the disk:
  // place, size and address are multiples of kDiskBlock. The first that is not, such as the end of a file, and all behind it
  // go through the cache.
  void write_directly() noexcept { set_direct(true); }
  // Only what was at `path` from the beginning is replaced: a file that has appeared since is an error.
  void spare_newcomers() { replaces_ = existed_; }
  // Flushes to the disk, renames, flushes the folder. An error too where the temporary file is not the one
  // that was written, or is longer or shorter. After an error it is gone.
  void commit();

 private:
  bool is_as_written() const;
  int take_name() const;
  void set_direct(bool direct) noexcept;
  void discard() noexcept;

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
  uint64_t bytes_ = 0;    // that the temporary file has
  bool existed_ = false;  // a file at `path`, before
  bool replaces_ = true;
  bool direct_ = false;
};

// Replaces the file at `path` by one that holds exactly `text`. Errors: kStorage.
void write_text_file(const std::string& path, std::string_view text);

// Removes the temporary files that dead processes have left in the folder.
void remove_stale_temporaries(const std::string& folder);

// A file that grows by whole lines, to be read while it does. A new one: who has the old file open, or under
// another name too, keeps it; it takes its name when it holds what it begins with. A link at `path` is not followed.
// Errors: kStorage.
class GrowingFile {
 public:
  explicit GrowingFile(const std::string& path, std::string_view begins_with = {});
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  // False, and errno, where the text cannot be written; then none of it is there.
  bool append(std::string_view text) noexcept;
  // What was appended reaches the disk, if the disk is willing. From any thread.
  void flush() const noexcept;

 private:
  int descriptor_ = -1;
  uint64_t bytes_ = 0;
};

// Weights that would have to be unpickled are refused: unpickling runs code chosen by whoever made the file.
// True for a zip archive (PyTorch 1.6 and later) and for a bare pickle. Ask only about a file that is not
// valid safetensors: a header length can begin with the same bytes.
bool looks_like_pickle(std::span<const std::byte> bytes);
// True for the names PyTorch gives such files: .bin, .pt, .pth, .ckpt, .pkl.
bool has_pickle_extension(std::string_view path);
// Throws kInput with the way to convert the file.
[[noreturn]] void refuse_pickle(const std::string& path);

}  // namespace recollect
