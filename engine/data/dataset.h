// Training data as samples of named fields. A dataset is read by index, from any thread, in any order; only
// what is asked for is read from its files. Every id that read() hands out is inside the vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/bad_records.h"
#include "engine/data/data_format.h"
#include "engine/data/field_spec.h"
#include "engine/data/fields.h"
#include "engine/data/shared_index.h"

namespace recollect {

// The RandomKey::layer of everything random about data; dropout uses the layers below it and 0xffffff.
inline constexpr uint32_t kDataRandomLayer = 0xfffffe;
// Its sites. The order of samples has those from 0x10 to 0x17.
inline constexpr uint32_t kRandomIdSite = 0, kMaskingSite = 0x20, kRandomNumberSite = 0x40,
                          kRandomLengthSite = 0x60;

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;             // samples
  virtual int64_t sequence_length() const = 0;  // the most tokens of a sample
  // The tokens of sample `index` in [0, size()), of its longest sequence where it has several. Allocates and
  // reads nothing.
  virtual int64_t length(int64_t) const { return sequence_length(); }

  // Fills an empty sample with the fields of number `index` in [0, size()): "ids", and what else the data has
  // of DatasetSpec::fields, as their names in a sample say. Allocates nothing in a sample that it has filled
  // before. Errors: kInput for a file that was shortened or changed after it was opened, or for an id outside
  // the vocabulary where that was not checked at the start.
  virtual void read(int64_t index, Fields& sample) const = 0;

  // A sentence for each kind of record that was passed over.
  virtual std::vector<std::string> remarks() const { return {}; }

  // What it has found out of its files, in an order of its own; and the same, read again in the place of what it has.
  virtual void write_index(IndexWriter&) const {}
  virtual void read_index(IndexReader&) {}
};

struct DatasetSpec {
  // random: ids uniform in [random_low, random_high), and all other fields that are required; a pure function
  //         of (seed, index, position).
  // jsonl:  one {"input_ids": [...], ...} per line, with the keys of `fields`; lines of more than
  //         sequence_length ids are an error. Folders: *.jsonl.
  // tokens: .npy, llm.c .bin, Megatron .bin/.idx (the file, the .idx or their common prefix), or headerless;
  //         each file is one stream cut into windows, its tail dropped. Folders: *.bin and *.npy.
  //         Records that hold nothing, or are damaged, are passed over as on_bad_record says.
  // text:   bytes as ids 0-255, the files joined by one newline byte each, cut into windows. Folders: *.txt.
  DataFormat format = DataFormat::kText;
  // Files or folders (searched recursively, sorted by path).
  std::vector<std::string> paths = {};
  int64_t sequence_length = 0;
  int64_t vocabulary_size = 0;
  // For headerless token files: uint8, uint16, uint32, int32 or int64. A file that states its type must
  // agree.
  std::string dtype = "auto";
  int64_t random_low = 0;
  int64_t random_high = 0;                 // 0: vocabulary_size
  int64_t random_size = int64_t{1} << 40;  // sequences
  // Of random data: so many tokens, from low to high, of a share of the samples. None: all of sequence_length.
  struct Lengths {
    int64_t low = 0, high = 0;
    double share = 1;
  };
  std::vector<Lengths> random_lengths = {};
  int64_t random_label = -1;  // every label; -1: they are drawn
  OnBadRecord on_bad_record = OnBadRecord::kSkipBlank;
  uint64_t seed = 0;
  // What another process has found out of the same files, in the place of reading them; OtherIndex where they are not.
  IndexReader* index = nullptr;
  // What the task (tasks.h) is told of a sample, the ids first. None: as causal language modelling has it.
  std::vector<FieldSpec> fields = {};
};

// Errors: kConfiguration for a spec that makes no sense, kInput for files that are missing, damaged, too
// short or hold ids outside the vocabulary, naming file and line or byte. (Token files of more than 1 GiB
// together are checked for the latter as they are read.)
std::unique_ptr<Dataset> open_dataset(const DatasetSpec& spec);

// All files that a dataset of this format reads, in order. Error kInput for paths that lead nowhere.
std::vector<std::string> files_of_data(DataFormat format, const std::vector<std::string>& paths);

}  // namespace recollect
