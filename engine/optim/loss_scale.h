// The loss scale keeps f16 gradients in range (Micikevicius et al., "Mixed precision training", ICLR 2018):
// the loss is multiplied by it before backward, and the gradients are divided by it before they are used. It
// is a power of two, so that it changes no bit of what stays in range. A dynamic scale is halved when a
// gradient overflows (that update is skipped) and doubled after `window` updates in a row without overflow,
// as in torch.amp.GradScaler.
#pragma once

#include <cstdint>

namespace recollect {

class LossScale {
 public:
  static LossScale fixed(double value) { return {value, 0}; }
  static LossScale dynamic(double initial, int64_t window) { return {initial, window}; }

  double value() const { return value_; }
  int64_t in_a_row() const { return in_a_row_; }
  // Continues from the state of a resumed training. A fixed scale does not change.
  void restore(double value, int64_t in_a_row) {
    if (!is_dynamic()) return;
    value_ = value;
    in_a_row_ = in_a_row;
  }
  void raise_to(double least) { value_ = value_ < least && is_dynamic() ? least : value_; }
  bool is_dynamic() const { return window_ > 0; }
  // Called after each step, with the same argument on every rank: were the gradients finite? Returns false if
  // a dynamic scale cannot go lower, or if a fixed scale overflowed.
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
  static constexpr double kGreatest = 0x1p60;  // a larger one gains nothing; this leaves enough room

  LossScale(double value, int64_t window) : value_(value), window_(window) {}

  double value_;
  int64_t window_;  // 0: fixed
  int64_t in_a_row_ = 0;
};

}  // namespace recollect
