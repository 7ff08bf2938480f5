// Weights between files and ranks. A file holds whole tensors under Hugging Face's names; a rank holds its
// part of each, padded and, where the file is transposed, turned. Everything here happens outside training
// steps; what is loaded may take memory, what is saved goes through a buffer that was reserved beforehand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/arena.h"
#include "engine/core/error.h"
#include "engine/io/safetensors.h"
#include "engine/io/safetensors_writer.h"
#include "engine/runtime/executor.h"
#include "parallel/mesh.h"
#include "parallel/parameter.h"

namespace recollect {

class Weights {
 public:
  // Of a rank that saves: host memory for two tiles, the one that comes and the one that is being written.
  static constexpr std::size_t kTileBytes = std::size_t{1} << 20;
  static constexpr std::size_t kSaveBytes = 2 * kTileBytes;

  // `saves`: whether anything will be saved; reserves kSaveBytes for it.
  Weights(const std::vector<Parameter>& parameters, const Executor& executor, const Mesh& mesh, bool saves)
      : parameters_(parameters), executor_(executor), mesh_(mesh), tiles_(saves ? kSaveBytes : 0) {}

  // Seeded normal, zero and one, as GPT2LMHeadModel initialises; a pure function of (seed, name, element), so
  // that the parallel layout does not matter.
  void initialize(uint64_t seed) const;

  // Names may carry a "transformer." prefix. lm_head.weight (tied) and the mask buffers of old files are
  // passed over. Error kInput lists every unknown, missing and misshapen tensor.
  void load(const SafetensorsSet& source) const;

  // Collective. Error kNumerics on all ranks, naming the first parameter that holds an infinity or a NaN.
  void check_finite() const;

  // The parameters as `prefix` + name in f64 or f32: a file whose space is claimed and which is empty still.
  // Error kStorage.
  std::unique_ptr<SafetensorsWriter> begin_file(const std::string& path, const std::string& prefix) const;
  // Collective. Fills and finishes the file, which is rank 0's and null elsewhere. While the disk works all
  // ranks hear of it, however long it takes. Where it fails, all return so: rank 0 with the reason, and
  // nothing has taken the file's name.
  std::optional<Error> save(SafetensorsWriter* file) const;
  // Collective. The gradients of this moment, divided by the scale that they have. Error kStorage on rank 0.
  void save_gradients(const std::string& path, double loss_scale) const;

 private:
  struct Tile;
  class Saving;
  Tensor value_of(const Parameter& parameter, bool gradient) const {
    return executor_.tensor(gradient ? parameter.gradient : parameter.master);
  }
  std::unique_ptr<SafetensorsWriter> declare(const std::string& path, const std::string& prefix,
                                             bool gradients) const;
  // Numbers of this rank's rows first ... first + count - 1, which are zeros before.
  using FillRows = std::function<void(int64_t first, int64_t count, double* out)>;
  void write_rows(const Parameter& parameter, const FillRows& fill) const;
  void initialize_row(const Parameter& parameter, uint64_t index, int64_t row, uint64_t seed,
                      double* out) const;
  void load_one(const Parameter& parameter, const SafetensorsSet& source, const std::string& name) const;

  const std::vector<Parameter>& parameters_;
  const Executor& executor_;
  const Mesh& mesh_;
  Arena tiles_;
};

}  // namespace recollect
