// How far predicted numbers follow the true ones. Sums run in the order of the samples, so that the result is the same
// whoever has computed which of them. It is NaN where it is not defined: of fewer than two samples, or where a side never
// changes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace recollect {

// The mean of squared differences.
double mean_squared_error(std::span<const double> a, std::span<const double> b);

// As scipy.stats.pearsonr.
double pearson(std::span<const double> a, std::span<const double> b);

// As scipy.stats.spearmanr: the same of their ranks, of which equal numbers share the mean.
class Spearman {
 public:
  double operator()(std::span<const double> a, std::span<const double> b);

 private:
  void rank(std::span<const double> numbers, std::vector<double>& ranks);

  std::vector<double> a_, b_;  // these keep their memory
  std::vector<int64_t> order_;
};

}  // namespace recollect
