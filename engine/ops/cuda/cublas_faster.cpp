// is_faster(), which shares the trials and the cache file of cuBLASLt's choices.
#include "engine/ops/cuda/cublas.h"
#include "engine/ops/cuda/faster.h"
#include "engine/ops/cuda/libraries.h"

namespace recollect::cuda {

namespace {

constexpr GemmAlgorithm kOne{1}, kOther{};  // not algorithms: the two answers, stored as choices

GemmAlgorithm timed_choice(Cublas& cublas, const std::string& key, const std::function<void()>& one,
                           const std::function<void()>& other, void* stream) {
  if (const std::optional<GemmAlgorithm> known = cublas.choices().find(key)) return *known;
  if (!cublas.timed()) return kOther;
  const GemmTrials& trials = cublas.trials();
  const double of_other = trials.time(other, stream), of_one = trials.time(one, stream);
  const GemmAlgorithm mine = of_one < of_other ? kOne : kOther;
  const GemmAlgorithm kept = cublas.cache().settle(key, mine, std::nullopt, cublas.warning());
  cublas.choices().set(key, kept);
  return kept;
}

}  // namespace

bool is_faster(Libraries* libraries, const std::string& name, const std::function<void()>& one,
               const std::function<void()>& other, void* stream) {
  require(libraries, name + ": a choice is made where programs are only planned");
  Cublas& cublas = libraries->cublas();
  const std::string key =
      cublas.context().device + " x" + std::to_string(cublas.context().multiprocessors) + " " + name;
  const auto used = cublas.in_use().find(key);
  const GemmAlgorithm chosen =
      used != cublas.in_use().end() ? used->second : timed_choice(cublas, key, one, other, stream);
  cublas.in_use()[key] = chosen;
  return chosen == kOne;
}

}  // namespace recollect::cuda
