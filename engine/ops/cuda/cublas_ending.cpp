#include "engine/ops/cuda/cublas_ending.h"

#include <optional>

namespace recollect::cuda {

namespace {

class EndingChoice {
 public:
  EndingChoice(Cublas& cublas, const Ending& ending) : cublas_(cublas), ending_(ending) {}

  GemmAlgorithm make(const std::string& key) const {
    const std::optional<GemmAlgorithm> known = cublas_.choices().find(key);
    if (known && stands(*known)) return *known;
    if (!cublas_.timed()) return kApart;
    const GemmAlgorithm mine = fastest();
    GemmAlgorithm kept = cublas_.cache().settle(key, mine, known, cublas_.warning());
    if (kept != mine && !stands(kept)) kept = cublas_.cache().settle(key, mine, kept, cublas_.warning());
    cublas_.choices().set(key, kept);
    return kept;
  }

 private:
  bool stands(const GemmAlgorithm& choice) const { return choice == kApart || runs(choice); }

  bool runs(const GemmAlgorithm& algorithm) const {
    return ending_.problem.run(algorithm, ending_.operands, false) == CUBLAS_STATUS_SUCCESS;
  }

  GemmAlgorithm fastest() const {
    const GemmTrials& trials = cublas_.trials();
    const auto& [a, b, out, bias, workspace, stream, scales] = ending_.operands;
    const GemmShape& s = ending_.shape;
    trials.fill(const_cast<void*>(a), s.in, s.m * s.k, stream);
    trials.fill(const_cast<void*>(b), s.in, s.k * s.n, stream);
    double least = trials.time(ending_.apart, stream);
    GemmAlgorithm best = kApart;
    for (const GemmAlgorithm& algorithm : ending_.problem.candidates()) {
      if (!runs(algorithm)) continue;
      const double time = trials.time([&] { runs(algorithm); }, stream);
      if (time >= least || fingerprints(algorithm) != fingerprints(algorithm)) continue;
      least = time;
      best = algorithm;
    }
    return best;
  }

  std::vector<uint64_t> fingerprints(const GemmAlgorithm& algorithm) const {
    const GemmOperands& o = ending_.operands;
    runs(algorithm);
    std::vector<uint64_t> all;
    for (const auto& [data, bytes] : ending_.written)
      all.push_back(cublas_.trials().fingerprint(data, bytes, o.workspace, o.stream));
    return all;
  }

  Cublas& cublas_;
  const Ending& ending_;
};

}  // namespace

GemmAlgorithm choose_ending(Cublas& cublas, const std::string& key, const Ending& ending) {
  const auto used = cublas.in_use().find(key);
  const GemmAlgorithm chosen =
      used != cublas.in_use().end() ? used->second : EndingChoice(cublas, ending).make(key);
  cublas.in_use()[key] = chosen;
  return chosen;
}

}  // namespace recollect::cuda
