#include "parallel/tasks/correlation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace recollect {

namespace {

double mean(std::span<const double> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

double distance(std::span<const double> numbers, double from) {
  double sum = 0;
  for (const double x : numbers) sum += (x - from) * (x - from);
  return std::sqrt(sum);
}

bool never_changes(std::span<const double> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [&](double x) { return x == numbers[0]; });
}

}  // namespace

double mean_squared_error(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

double pearson(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 2 || never_changes(a) || never_changes(b)) return std::numeric_limits<double>::quiet_NaN();
  const double mean_a = mean(a), mean_b = mean(b);
  const double scale_a = distance(a, mean_a), scale_b = distance(b, mean_b);
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean_a) / scale_a * ((b[i] - mean_b) / scale_b);
  return std::clamp(sum, -1.0, 1.0);
}

void Spearman::rank(std::span<const double> numbers, std::vector<double>& ranks) {
  order_.resize(numbers.size());
  ranks.resize(numbers.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto at = [&](std::size_t place) { return numbers[static_cast<std::size_t>(order_[place])]; };
  std::sort(order_.begin(), order_.end(), [&](int64_t i, int64_t j) {
    return numbers[static_cast<std::size_t>(i)] < numbers[static_cast<std::size_t>(j)];
  });
  for (std::size_t first = 0, end = 0; first < order_.size(); first = end) {
    while (end < order_.size() && at(end) == at(first)) ++end;
    const double shared = static_cast<double>(first + 1 + end) / 2;
    for (std::size_t place = first; place < end; ++place)
      ranks[static_cast<std::size_t>(order_[place])] = shared;
  }
}

double Spearman::operator()(std::span<const double> a, std::span<const double> b) {
  rank(a, a_);
  rank(b, b_);
  return pearson(a_, b_);
}

}  // namespace recollect
