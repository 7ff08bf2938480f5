#include "launch/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/core/error.h"
#include "engine/core/philox.h"

namespace recollect {

namespace {

constexpr uint32_t kSamplingLayer = 0xfffffc;  // RandomKey::layer of what is drawn here
constexpr double kRemoved = -std::numeric_limits<double>::infinity();

void check_numbers(std::span<const double> logits) {
  double greatest = kRemoved;
  bool numbers = true;
  for (const double logit : logits) {
    numbers = numbers && !std::isnan(logit);
    greatest = std::max(greatest, logit);
  }
  if (!numbers || !std::isfinite(greatest))
    throw Error(ExitCode::kNumerics, "the model's logits are not finite",
                "its weights are damaged, or too large for this training.precision");
}

}  // namespace

Sampler::Sampler(const Sampling& sampling, int64_t vocabulary) : sampling_(sampling) {
  const auto size = static_cast<std::size_t>(vocabulary);
  scores_.resize(size);
  weights_.resize(size);
  sorted_.resize(size);
  order_.reserve(size);
}

// The k-th greatest score decides, so that those equal to it stay.
void Sampler::keep_top_k() {
  const auto k = static_cast<std::size_t>(sampling_.top_k);
  if (k == 0 || k >= scores_.size()) return;
  std::copy(scores_.begin(), scores_.end(), sorted_.begin());
  const auto last = sorted_.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::nth_element(sorted_.begin(), last, sorted_.end(), std::greater<>());
  const double least = *last;
  for (double& score : scores_)
    if (score < least) score = kRemoved;
}

// From the least probable on, tokens are removed for as long as what they have in sum is no more than 1 - top_p.
// What is less than that divided by their number goes whatever its order.
void Sampler::keep_top_p() {
  if (sampling_.top_p >= 1) return;
  const double all = std::accumulate(weights_.begin(), weights_.end(), 0.0),
               most = (1 - sampling_.top_p) * all, tiny = most / static_cast<double>(weights_.size());
  double removed = 0;
  order_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] >= tiny)
      order_.push_back(static_cast<int32_t>(i));
    else
      removed += std::exchange(weights_[i], 0);
  }
  std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
    const double x = weights_[static_cast<std::size_t>(a)], y = weights_[static_cast<std::size_t>(b)];
    return x != y ? x < y : a < b;
  });
  for (std::size_t i = 0; i + 1 < order_.size(); ++i) {
    double& weight = weights_[static_cast<std::size_t>(order_[i])];
    removed += weight;
    if (removed > most) break;
    weight = 0;
  }
}

std::span<const double> Sampler::probabilities(std::span<const double> logits) {
  require(logits.size() == scores_.size(), "a sampler is made for a vocabulary");
  check_numbers(logits);
  for (std::size_t i = 0; i < logits.size(); ++i) scores_[i] = logits[i] / sampling_.temperature;
  keep_top_k();
  const double greatest = *std::max_element(scores_.begin(), scores_.end());
  for (std::size_t i = 0; i < scores_.size(); ++i) weights_[i] = std::exp(scores_[i] - greatest);
  keep_top_p();
  const double all = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  for (double& weight : weights_) weight /= all;
  return weights_;
}

int32_t Sampler::next(std::span<const double> logits, uint64_t prompt, int64_t position) {
  if (!sampling_.draws) {
    check_numbers(logits);
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  probabilities(logits);
  const double drawn = random_unit({.seed = sampling_.seed, .step = prompt, .layer = kSamplingLayer},
                                   static_cast<uint64_t>(position));
  double below = 0;
  int32_t last = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0) continue;
    last = static_cast<int32_t>(i);
    below += weights_[i];
    if (drawn < below) break;
  }
  return last;
}

}  // namespace recollect
