// Which algorithm computes a matrix product: once chosen, kept, in memory and in a small file between runs. A
// choice made by timing may fall differently the next time, and another algorithm gives other bits; so that
// two runs (with checkpointing and without) agree, the first choice for a shape stays.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "engine/ops/cuda/gemm.h"

namespace recollect::cuda {

// cuBLASLt's own description of an algorithm: 64 bytes that mean the same to the same version of the library.
using GemmAlgorithm = std::array<uint64_t, 8>;

// The device and the library that choices are for, and how f32 is multiplied.
struct GemmContext {
  std::string device;       // "NVIDIA H200"
  int multiprocessors = 0;  // algorithms are chosen for so many
  std::size_t version = 0;  // of cuBLASLt
  bool tf32 = false;
};

// Everything that an algorithm may depend on, in words.
std::string gemm_key(const GemmContext& context, const GemmShape& shape);

class GemmChoices {
 public:
  std::optional<GemmAlgorithm> find(const std::string& key) const;
  void set(const std::string& key, const GemmAlgorithm& algorithm) { choices_[key] = algorithm; }
  void merge(const GemmChoices& other);  // where both have a key, the other's
  std::size_t size() const { return choices_.size(); }
  bool operator==(const GemmChoices&) const = default;

  std::string to_json() const;
  // Error kInput where the text is anything but what to_json() writes; `source` names it.
  static GemmChoices from_json(const std::string& text, const std::string& source);

 private:
  std::map<std::string, GemmAlgorithm> choices_;
};

// $XDG_CACHE_HOME/recollect/gemm-DEVICE-VERSION.json, below ~/.cache where the variable is not set; "" where
// there is no home folder.
std::string gemm_cache_file(const GemmContext& context);

// The choices in a file, shared with other runs and ranks, which may write it at the same time.
class GemmCache {
 public:
  // Nothing is read or written where `path` is empty.
  explicit GemmCache(std::string path) : path_(std::move(path)) {}

  // What the file holds; nothing where there is none. A file that is not ours is left alone: `warning` says
  // so, once, and nothing is written either.
  GemmChoices load(std::string& warning);

  // What stays for `key`: the choice that the file has by now, or else `mine`, which it then holds. Where the
  // file's is `refused` (the library no longer takes it), mine replaces it.
  GemmAlgorithm settle(const std::string& key, const GemmAlgorithm& mine,
                       const std::optional<GemmAlgorithm>& refused, std::string& warning);

 private:
  void give_up(const std::string& why, std::string& warning);

  std::string path_;
};

}  // namespace recollect::cuda
