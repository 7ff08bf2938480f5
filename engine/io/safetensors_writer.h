// Writes one safetensors file, or several with an index: declare every tensor, stream the data, then finish.
// All space is reserved before the first byte is written. A file appears under its name either complete or
// not at all, even if the old file is mapped by a reader. Several files appear one after another, and the
// index last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/io/files.h"

namespace recollect {

class SafetensorsWriter {
 public:
  // `metadata` becomes "__metadata__"; Transformers requires {"format": "pt"}.
  explicit SafetensorsWriter(std::string path,
                             std::map<std::string, std::string> metadata = {{"format", "pt"}});
  virtual ~SafetensorsWriter() = default;  // tests derive files that are slow or fail

  // If there are more bytes than this, several files are written, as save_pretrained does:
  // model-00001-of-00002.safetensors and so on, with model.safetensors.index.json. A larger tensor is alone
  // in its file. 0 means one file. Call it before begin(). finish() removes the files that an earlier save in
  // the other form left under these names.
  void split_at(uint64_t bytes) { most_ = bytes; }
  // Declares a tensor, before the first write. The name must be valid UTF-8, unique and not "__metadata__"
  // (else kInternal). Returns the tensor's index: the number of earlier declarations.
  std::size_t declare(const std::string& name, DType dtype, std::vector<int64_t> shape);
  // Lays out the file and reserves its space; the first write does this otherwise. No tensor can be declared
  // afterwards. Later calls allocate nothing. Throws kStorage.
  void begin();
  // Only lays out the file, for callers that write it in another way: head() and bytes() are then known.
  // Opens nothing.
  void lay_out();

  // Writes the next bytes of a tensor. Tensors may be written in any order and in pieces of any size. Throws
  // kStorage.
  void write(std::string_view name, std::span<const std::byte> bytes);
  // Writes bytes of the tensor with number `index`, from `offset` on. Each byte must be written once.
  virtual void write_at(std::size_t index, uint64_t offset, std::span<const std::byte> bytes);
  // Writes the next `count` elements of a floating tensor, rounded to its dtype. T is float or double.
  template <typename T>
  void write_converted(std::string_view name, const T* values, std::size_t count);

  // Like ReplacementFile::spare_newcomers(); only after begin().
  void spare_newcomers();
  // Completes the files. Every declared tensor must be complete (else kInternal). Throws kStorage.
  virtual void finish();

  const std::string& path() const { return path_; }
  // Returns the header of a single file after it has been laid out: the bytes before the tensors. Tensors
  // with wider elements come first, otherwise they are in the order of declaration.
  std::string head() const;
  uint64_t bytes() const { return parts_.front().total; }  // of the whole file, after it has been laid out

 private:
  struct Slot {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
    uint64_t bytes = 0;
    std::size_t part = 0;
    uint64_t begin = 0;  // offset in the file
    uint64_t written = 0;
  };
  struct Part {
    std::string path, header;  // the header is written last
    uint64_t total = 0;
    std::optional<ReplacementFile> file;
  };

  Slot& slot_of(std::string_view name);
  void divide();
  void lay_out(std::size_t part);
  static std::string head_of(const Part& part);
  std::string index_path() const { return path_ + ".index.json"; }
  std::string index_text() const;
  // Removes files of the other form: several files after one file is written, or the reverse.
  void remove_others() const;

  std::string path_;
  std::map<std::string, std::string> metadata_;
  std::vector<Slot> slots_;
  std::map<std::string, std::size_t, std::less<>> index_;
  uint64_t most_ = 0;
  std::vector<Part> parts_;
  std::optional<ReplacementFile> index_file_;
  bool has_begun_ = false;
};

// Returns true for the name of one of several files of a model: model-00001-of-00002.safetensors.
bool is_part_of_model(std::string_view name);

}  // namespace recollect
