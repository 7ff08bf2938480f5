// How often each class was there, was predicted, and was both. These sums are all that the metrics of classes need: they
// add up over samples and ranks in any order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace recollect {

class ClassCounts {
 public:
  explicit ClassCounts(int64_t classes);

  void clear();
  // A sample that is of one class.
  void add(int64_t truth, int64_t predicted);
  // One of the labels that a sample may have.
  void add_label(int64_t label, bool truth, bool predicted);

  // What adds up over ranks.
  std::vector<int64_t>& numbers() { return numbers_; }

  // As scikit-learn's accuracy_score, f1_score of a class, f1_score(average="micro") and matthews_corrcoef.
  // A quotient by zero is zero; the accuracy of nothing too.
  double accuracy() const;
  double f1(int64_t of_class) const;
  double micro_f1() const;
  double matthews() const;

 private:
  std::span<const int64_t> hits() const { return part(0); }
  std::span<const int64_t> truths() const { return part(1); }
  std::span<const int64_t> predictions() const { return part(2); }
  std::span<const int64_t> part(std::size_t which) const {
    return std::span(numbers_).subspan(which * classes_, classes_);
  }

  std::size_t classes_;
  std::vector<int64_t> numbers_;  // hits, truths, predictions: by class
};

// The first of the greatest, as numpy.argmax.
int64_t greatest_of(std::span<const double> logits);

}  // namespace recollect
