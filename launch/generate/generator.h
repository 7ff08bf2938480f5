// One rank's model with a key/value cache: it reads tokens, and says what may follow them. All its memory is
// predicted, then reserved, when it is made; reading a token allocates nothing.
//
// There are two programs in one memory, for a piece of a prompt and for one token. They differ in the sizes of
// their inputs and of what lies between the layers; parameters, cache and logits are the same values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime/executor.h"
#include "launch/config/config.h"
#include "launch/program/forward_program.h"
#include "launch/ranks/backend.h"
#include "parallel/mesh.h"

namespace recollect {

struct GeneratorSizes {
  int64_t capacity = 1;  // tokens of the longest sequence
  int64_t piece = 64;    // tokens of a prompt that are read at a time
};

class Generator {
 public:
  // Told before anything is reserved.
  using Announce = std::function<void(const MemoryLedger& predicted)>;

  // Collective. `config` is of a causal model whose tensor_parallel_size is the world's size (fit_to_ranks() in
  // generate.h); its weights are those in model.pretrained, or drawn where that names none. Error kDeviceMemory,
  // kHostMemory where there is no room.
  Generator(const Config& config, Communicator& world, const GeneratorSizes& sizes,
            const Announce& announce = {});

  // Collective: tokens behind those that were read. At least one, and no more than the cache has room for.
  void read(std::span<const int32_t> ids);
  // The same with the last `count` tokens of a whole sequence; all tokens before were read. The sequence
  // is read anew if the cache cannot be used: beyond the cache's capacity, with the latest tokens that fit
  // (nanoGPT crops so, too); and if the cached keys do not fit a longer sequence (ModelFacts::cache_ends).
  void read_latest(std::span<const int32_t> sequence, std::size_t count);
  // Of what may follow, one for each token of the vocabulary.
  std::span<const double> logits() const { return {logits_.data(), vocabulary_}; }
  // The next read() begins a sequence.
  void clear() { cached_ = 0; }
  int64_t cached() const { return cached_; }  // tokens
  int64_t capacity() const { return capacity_; }

  // Of the program that takes most memory of those that have run; before that of either.
  const MemoryLedger& predicted() const { return fullest().predicted; }
  MemoryLedger measured() const { return fullest().executor->measured(); }
  const std::vector<std::string>& drawn() const { return drawn_; }  // parameters that the files lack

 private:
  struct Reader {
    int64_t tokens = 1;
    Model model;
    std::shared_ptr<const OpRegistry> registry;
    std::unique_ptr<Executor> executor;
    MemoryLedger predicted;
    bool has_run = false;
  };

  void check_room(const MemoryLedger& needs);
  void load_weights(const Reader& reader);
  void run(Reader& reader, std::span<const int32_t> ids);
  void take_logits(const Reader& reader);
  const Reader& fullest() const;

  Config config_;
  Backend backend_;
  Mesh mesh_;
  int64_t capacity_, cached_ = 0, cache_ends_;
  int32_t length_ = 0;  // of the sequence, including the tokens that are being read
  std::size_t vocabulary_;
  std::unique_ptr<ProgramMemory> memory_;
  std::vector<Reader> readers_;  // of one token, and of a piece
  std::vector<std::string> drawn_;
  std::vector<int32_t> ids_, positions_;
  std::vector<double> logits_;
  std::vector<float> narrow_logits_;
};

}  // namespace recollect
