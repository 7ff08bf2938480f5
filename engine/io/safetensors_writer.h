// Writes one safetensors file, or several with an index: declare every tensor, then stream the data, then
// finish. All space is claimed before the first byte is written; the file appears under its name complete or
// not at all, even over a file that is mapped. Several files appear one after the other, and the index last.
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
  // `metadata` goes to "__metadata__"; Transformers insists on {"format": "pt"}.
  explicit SafetensorsWriter(std::string path,
                             std::map<std::string, std::string> metadata = {{"format", "pt"}});
  virtual ~SafetensorsWriter() = default;  // tests make files that are slow, or fail

  // More bytes than this are written as several files, as save_pretrained does: model-00001-of-00002.safetensors and so on,
  // and model.safetensors.index.json. A larger tensor is alone in its file. 0: one file. Call it before begin(). finish()
  // removes what an earlier save in the other form left under these names.
  void split_at(uint64_t bytes) { most_ = bytes; }
  // Names are valid UTF-8, unique and not "__metadata__" (else kInternal). Only before the first write.
  // Returns how many were declared before.
  std::size_t declare(const std::string& name, DType dtype, std::vector<int64_t> shape);
  // What is not declared by now never will be: lays out the file and claims its space, which the first write
  // does otherwise. What follows allocates nothing. Errors: kStorage.
  void begin();
  // Of it only the layout, for who writes the file otherwise: head() and bytes() are known. Nothing is opened.
  void lay_out();

  // The next bytes of a tensor. Tensors may be written in any order and in pieces of any size.
  // Errors: kStorage.
  void write(std::string_view name, std::span<const std::byte> bytes);
  // Bytes of the tensor that was declared as number `index`, from `offset` on; each of its bytes once.
  virtual void write_at(std::size_t index, uint64_t offset, std::span<const std::byte> bytes);
  // The next `count` elements of a floating tensor, rounded to its dtype. T is float or double.
  template <typename T>
  void write_converted(std::string_view name, const T* values, std::size_t count);

  // As ReplacementFile's; only once it has begun.
  void spare_newcomers();
  // Every declared tensor must be complete (else kInternal). Errors: kStorage.
  virtual void finish();

  const std::string& path() const { return path_; }
  // The header of one file, once it is laid out: the bytes before the tensors.
  // Tensors with wider elements come first, then the order is that of declaration.
  std::string head() const;
  uint64_t bytes() const { return parts_.front().total; }  // of the whole file, likewise

 private:
  struct Slot {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
    uint64_t bytes = 0;
    std::size_t part = 0;
    uint64_t begin = 0;  // in the file
    uint64_t written = 0;
  };
  struct Part {
    std::string path, header;  // header: written last
    uint64_t total = 0;
    std::optional<ReplacementFile> file;
  };

  Slot& slot_of(std::string_view name);
  void divide();
  void lay_out(std::size_t part);
  static std::string head_of(const Part& part);
  std::string index_path() const { return path_ + ".index.json"; }
  std::string index_text() const;
  // Removes files of the other form: several files after one is written, or the other way round.
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

// Whether the name is that of one of several files of a model: model-00001-of-00002.safetensors.
bool is_part_of_model(std::string_view name);

}  // namespace recollect
