// Reads weights from safetensors files. A rank reads only the rows of its own shard. Values are converted a
// few at a time while they are read, so no second copy of a tensor exists. A file that is shortened meanwhile
// is an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/input_file.h"
#include "engine/io/safetensors_header.h"

namespace recollect {

inline constexpr int64_t kAllRows = -1;

// One file. Its functions throw kInput, naming the file, the tensor and the offset.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<TensorEntry>& entries() const { return header_.entries; }  // in file order
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // Returns null if there is no such tensor.
  const TensorEntry* find(std::string_view name) const;
  // Throws if there is no such tensor, or if its dtype cannot be used in computation.
  const TensorEntry& at(std::string_view name) const;

  // Reads rows [first_row, first_row + rows) of the first dim into `destination`, converted to T (float or
  // double) from F64, F32, BF16 or F16. A scalar counts as one row. Throws kInput for any other dtype, and if
  // the file has lost these bytes since it was opened.
  template <typename T>
  void read_as(const TensorEntry& entry, T* destination, int64_t first_row = 0,
               int64_t rows = kAllRows) const;
  void read_bytes(const TensorEntry& entry, std::span<std::byte> to) const;  // all bytes, of any dtype
  void will_read(const TensorEntry& entry) const;                            // as in InputFile

 private:
  InputFile file_;
  SafetensorsHeader header_;
};

// The weights of one model, whether in one file or in several. `path` is
//   a folder with model.safetensors or, failing that, model.safetensors.index.json and its shards;
//   a .safetensors file; or an index file.
// Shards must be plain names in the index's own folder: no separators, no "..", no symbolic link that leads
// out of it (but the Hugging Face cache's snapshots/REVISION -> blobs links are followed). Index and shards
// must agree on which tensor lies where. `metadata.total_size` must be a count but is not compared with
// anything: published files often state a wrong one. Errors: kInput. Folders that hold only pickled weights
// are refused with the way to convert them.
class SafetensorsSet {
 public:
  explicit SafetensorsSet(const std::string& path);

  const std::deque<SafetensorsFile>& files() const { return files_; }
  std::vector<std::string> names() const;  // sorted

  // As in SafetensorsFile, over all files.
  const TensorEntry* find(std::string_view name) const;
  const TensorEntry& at(std::string_view name) const;
  template <typename T>
  void read_as(std::string_view name, T* destination, int64_t first_row = 0, int64_t rows = kAllRows) const;
  void read_bytes(std::string_view name, std::span<std::byte> to) const;
  void will_read(std::string_view name) const;

 private:
  void open_index(const std::string& path);
  void add_file(const std::string& path);
  const SafetensorsFile& file_of(std::string_view name) const;

  std::string path_;
  std::deque<SafetensorsFile> files_;
  std::map<std::string, const SafetensorsFile*, std::less<>> where_;
};

}  // namespace recollect
