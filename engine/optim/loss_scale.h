// The factor that keeps f16 gradients in range (Micikevicius et al., "Mixed precision training", ICLR 2018):
// the loss is multiplied by it before backward, the gradients are divided by it before they are used. A power
// of two, so that it changes no bit of what stays in range. Dynamic: halved when a gradient overflows, whose
// update is then left out, and doubled after `window` updates in a row without that, as torch.amp.GradScaler
// does.
#pragma once

#include <cstdint>

namespace recollect {

class LossScale {
 public:
  static LossScale fixed(double value) { return {value, 0}; }
  static LossScale dynamic(double initial, int64_t window) { return {initial, window}; }

  double value() const { return value_; }
  int64_t in_a_row() const { return in_a_row_; }
  // Where a training that is resumed had come to. A fixed one stays what it is.
  void restore(double value, int64_t in_a_row) {
    if (!is_dynamic()) return;
    value_ = value;
    in_a_row_ = in_a_row;
  }
  void raise_to(double least) { value_ = value_ < least && is_dynamic() ? least : value_; }
  bool is_dynamic() const { return window_ > 0; }
  // After each step, alike on every rank: were the gradients finite? False when the scale cannot go lower.
  bool update(bool finite) {
    if (!is_dynamic()) return finite;
    if (!finite) {
      in_a_row_ = 0;
      value_ /= 2;
      return value_ >= 1;
    }
    if (++in_a_row_ == window_ && value_ < kGreatest) {
      in_a_row_ = 0;
      value_ *= 2;
    }
    return true;
  }

 private:
  static constexpr double kGreatest = 0x1p60;  // there is nothing to win beyond, and much room left

  LossScale(double value, int64_t window) : value_(value), window_(window) {}

  double value_;
  int64_t window_;  // 0: fixed
  int64_t in_a_row_ = 0;
};

}  // namespace recollect
