// Weights between files and ranks. A file holds whole tensors under Hugging Face's names; a rank holds its
// part of each, padded and, where the file is transposed, turned. Everything here happens outside training
// steps and may allocate.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/safetensors.h"
#include "engine/runtime/executor.h"
#include "parallel/mesh.h"
#include "parallel/parameter.h"

namespace recollect {

class Weights {
 public:
  Weights(const std::vector<Parameter>& parameters, const Executor& executor, const Mesh& mesh)
      : parameters_(parameters), executor_(executor), mesh_(mesh) {}

  // Seeded normal, zero and one, as GPT2LMHeadModel initialises; a pure function of (seed, name, element), so
  // that the parallel layout does not matter.
  void initialize(uint64_t seed) const;

  // Names may carry a "transformer." prefix. lm_head.weight (tied) and the mask buffers of old files are
  // passed over. Error kInput lists every unknown, missing and misshapen tensor.
  void load(const SafetensorsSet& source) const;

  // Collective. World rank 0 writes the whole tensors: parameters under `prefix` + name in f64 or f32, or the
  // gradients of this moment, divided by the scale that they have.
  void save(const std::string& path, const std::string& prefix) const;
  void save_gradients(const std::string& path, double loss_scale) const;

 private:
  enum class What { kMaster, kGradient };
  void save_whole(const std::string& path, const std::string& prefix, What what, double scale) const;
  std::vector<double> gather_whole(const Parameter& parameter, ValueId value) const;
  // Numbers of this rank's rows first ... first + count - 1, which are zeros before.
  using FillRows = std::function<void(int64_t first, int64_t count, double* out)>;
  void write_rows(const Parameter& parameter, const FillRows& fill) const;
  void initialize_row(const Parameter& parameter, uint64_t index, int64_t row, uint64_t seed,
                      double* out) const;
  void load_one(const Parameter& parameter, const SafetensorsSet& source, const std::string& name) const;

  const std::vector<Parameter>& parameters_;
  const Executor& executor_;
  const Mesh& mesh_;
};

}  // namespace recollect
