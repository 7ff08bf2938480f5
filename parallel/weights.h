// Weights between files and ranks. A file holds whole tensors under the names of the model's family; a rank
// holds its part of each, padded and, where the file is transposed, turned. Everything here happens outside
// training steps; what is loaded may take memory, what is saved goes through a buffer that was reserved
// beforehand.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/arena.h"
#include "engine/core/error.h"
#include "engine/io/safetensors.h"
#include "engine/io/safetensors_writer.h"
#include "engine/runtime/program_memory.h"
#include "parallel/mesh.h"
#include "parallel/model.h"
#include "parallel/quantised_tensor.h"

namespace recollect {

// A tensor of a parameter that is stored in fewer bits: quantised of whole weights in files, or as files have it.
QuantisedTensor quantised_of_file(const SafetensorsSet& source, const std::string& name, const Parameter& p,
                                  int64_t rows);

class Weights {
 public:
  // Of a rank that saves: host memory for two tiles, the one that comes and the one that is being written.
  static constexpr std::size_t kTileBytes = std::size_t{1} << 20;
  static constexpr std::size_t kSaveBytes = 2 * kTileBytes;

  // `graph`: the one that the model's values are in; its program, or one like it, has `memory`. `saves`:
  // whether anything will be saved; reserves kSaveBytes for it. Model, memory and mesh must outlive the
  // weights.
  Weights(const Model& model, const Graph& graph, const ProgramMemory& memory, const Mesh& mesh, bool saves);

  // Seeded normal, zero and one; a pure function of (seed, place of the parameter in the model, element), so
  // that the parallel layout does not matter: parameters that are one in another layout have one place.
  void initialize(uint64_t seed) const;

  // Names may carry the model's prefix or not. Parameters that may be missing, and are, are initialised: their
  // names. Error kInput lists every unknown, missing and misshapen tensor.
  std::vector<std::string> load(const SafetensorsSet& source, uint64_t seed) const;

  // Of a model with adapters: what a file of PEFT's holds of it, and the names of these parameters. Error kInput as above.
  std::vector<std::string> load_adapters(const SafetensorsSet& source) const;

  // Of a model with frozen weights that are stored in fewer bits: these alone, of the source, or drawn where there is none or it lacks
  // one. Snapshots do not hold them.
  void store_base(const SafetensorsSet* source, uint64_t seed) const;

  // Collective. Error kNumerics on all ranks, naming the first parameter that holds an infinity or a NaN; `saved` ends its
  // hint.
  void check_finite(const std::string& saved) const;

  // The parameters in f64 or f32, those that are frozen in the compute dtype, by their names in files; of a model with
  // adapters these alone, and what is trained with them, as PEFT calls them. A file whose space is claimed and which is
  // empty still. `most`: a model with more bytes goes into several files (SafetensorsWriter::split_at). Error kStorage.
  std::unique_ptr<SafetensorsWriter> begin_file(const std::string& path, uint64_t most = 0) const;
  // Collective. Fills and finishes the file, which is rank 0's and null elsewhere. While the disk works all
  // ranks hear of it, however long it takes. Where it fails, all return so: rank 0 with the reason, and
  // nothing has taken the file's name.
  std::optional<Error> save(SafetensorsWriter* file) const;
  // Collective. The gradients of this moment, divided by the scale that they have. Error kStorage on rank 0.
  void save_gradients(const std::string& path, double loss_scale) const;

 private:
  struct Tile;
  struct Filling;
  class Saving;
  // Where one parameter lies in the memory, and in the model.
  // Masters and gradients may be the rows of this data rank alone.
  struct Place {
    SharedTensor value, master,
        gradient;       // undefined where nothing is trained, or it is frozen: the gradient
    SharedTensor kept;  // in files: the master; undefined of what stands beside adapters
    uint64_t drawn = 0;
    bool divided_value = false, divided_master = false, divided_gradient = false;
    const SharedTensor& saved(bool gradients) const { return gradients ? gradient : kept; }
  };
  std::unique_ptr<SafetensorsWriter> declare(const std::string& path, bool gradients, uint64_t most) const;
  // Whether one of its places is f64.
  bool is_wide(std::size_t index) const;
  // A parameter's rows by `fill`, which can make floats and doubles; by one that makes T, which are doubles where it is wide.
  template <typename Fill>
  void write_rows(Filling& filling, std::size_t index, const Fill& fill) const;
  template <typename T, typename Fill>
  void write_rows_as(Filling& filling, std::size_t index, const Fill& fill) const;
  void initialize_one(Filling& filling, std::size_t index, uint64_t seed) const;
  // `names`: of its tensors in the source.
  void load_one(Filling& filling, std::size_t index, const SafetensorsSet& source,
                const std::vector<std::string>& names) const;
  // One that is stored in fewer bits, likewise, or drawn (weights_quantised.cpp).
  void store(std::size_t index, const SafetensorsSet* source, const std::vector<std::string>& names,
             uint64_t seed) const;
  template <typename T>
  void load_transposed(Filling& filling, std::size_t index, const SafetensorsSet& source,
                       const std::vector<std::string>& names) const;

  const Model& model_;
  const ProgramMemory& memory_;
  const Mesh& mesh_;
  Arena tiles_;
  std::vector<Place> places_;                                // by parameter
  std::vector<std::vector<Parameter::FileTensor>> tensors_;  // by parameter: of files that are written
};

}  // namespace recollect
