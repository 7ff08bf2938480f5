// The next token, of the logits of all. Temperature, top-k and top-p mean what Transformers' logits processors
// of these names mean, and act in their order. Randomness has no state: a token follows from the seed, the
// number of the prompt and the token's place, so that all ranks draw the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace recollect {

struct Sampling {
  bool draws = false;      // false: the most probable token, of several the first
  double temperature = 1;  // above 0; logits are divided by it
  int64_t top_k = 0;       // as many of the most probable tokens, and those as probable as the last; 0: all
  double top_p = 1;        // the fewest of the most probable tokens that have more than this in sum; 1: all
  uint64_t seed = 0;
};

class Sampler {
 public:
  Sampler(const Sampling& sampling, int64_t vocabulary);

  // Allocates nothing. `prompt`: its number; `position`: that of the token in the sequence. Error kNumerics where
  // a logit is not a number, or none is finite.
  int32_t next(std::span<const double> logits, uint64_t prompt, int64_t position);

  // What next() draws from; good until the next call.
  std::span<const double> probabilities(std::span<const double> logits);

 private:
  void keep_top_k();
  void keep_top_p();

  Sampling sampling_;
  std::vector<double> scores_, weights_, sorted_;
  std::vector<int32_t> order_;
};

}  // namespace recollect
