#include "parallel/tasks/class_counts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace recollect {

namespace {

int64_t sum_of(std::span<const int64_t> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

double inner_product(std::span<const int64_t> a, std::span<const int64_t> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

double quotient(double a, double b) { return b == 0 ? 0 : a / b; }

double f1_of(int64_t hits, int64_t truths, int64_t predictions) {
  return quotient(static_cast<double>(2 * hits), static_cast<double>(truths + predictions));
}

}  // namespace

ClassCounts::ClassCounts(int64_t classes)
    : classes_(static_cast<std::size_t>(classes)), numbers_(3 * static_cast<std::size_t>(classes)) {}

void ClassCounts::clear() { std::fill(numbers_.begin(), numbers_.end(), 0); }

void ClassCounts::add(int64_t truth, int64_t predicted) {
  const auto t = static_cast<std::size_t>(truth), p = static_cast<std::size_t>(predicted);
  numbers_[t] += t == p;
  ++numbers_[classes_ + t];
  ++numbers_[2 * classes_ + p];
}

void ClassCounts::add_label(int64_t label, bool truth, bool predicted) {
  const auto l = static_cast<std::size_t>(label);
  numbers_[l] += truth && predicted;
  numbers_[classes_ + l] += truth;
  numbers_[2 * classes_ + l] += predicted;
}

double ClassCounts::accuracy() const {
  return quotient(static_cast<double>(sum_of(hits())), static_cast<double>(sum_of(truths())));
}

double ClassCounts::f1(int64_t of_class) const {
  const auto c = static_cast<std::size_t>(of_class);
  return f1_of(hits()[c], truths()[c], predictions()[c]);
}

double ClassCounts::micro_f1() const {
  return f1_of(sum_of(hits()), sum_of(truths()), sum_of(predictions()));
}

double ClassCounts::matthews() const {
  const auto samples = static_cast<double>(sum_of(truths())), right = static_cast<double>(sum_of(hits()));
  const double both = right * samples - inner_product(truths(), predictions()),
               of_truths = samples * samples - inner_product(truths(), truths()),
               of_predictions = samples * samples - inner_product(predictions(), predictions());
  return quotient(both, std::sqrt(of_truths * of_predictions));
}

int64_t greatest_of(std::span<const double> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

}  // namespace recollect
