// How far a result may lie from the exact one by rounding alone. Every bound of a test that compares computed numbers comes
// from here, so that none depends on a processor: neither the length of its vectors, nor whether it fuses a product and a
// sum, nor the order in which a kernel adds.
//
// The model: a rounding is an error of at most one unit roundoff u of the number rounded, evenly spread and independent of
// all others: its variance is u^2/3. A sum of n terms is n roundings of partial sums. In an order that does not depend on
// the terms, the squares of partial sums are, on average, at most half the square of the sum's size, which is its own
// value or, where terms cancel, the root mean square of the tensor that it is in. With one rounding of each product and one
// of the stored result, the variance is (n/2 + 1 + 1) u^2/3 = (n + 4) u^2/6. A function such as e^x is a sum of less than
// kFunction terms. Numbers of 16 bits are rounded where they are stored, operands too; sums of them are those of float.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/core/dtype.h"

namespace recollect::test {

// Half the distance of 1 to the next number.
constexpr double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kF32:
      return 0x1p-24;
    case DType::kF16:
      return 0x1p-11;
    case DType::kBF16:
      return 0x1p-8;
    default:
      return 0;  // whole numbers, and codes that tests look up
  }
}

constexpr int64_t kFunction = 20;  // the roundings of a function, as terms of a sum

constexpr int64_t kStored =
    7;  // of 16 bits that an op stores on its way, two operands and the result among them

// The standard deviation of a result of `dtype` that is a sum of so many terms, in units of its size.
inline double sum_deviation(DType dtype, int64_t terms) {
  const double variance = static_cast<double>(terms + kFunction + 4) / 6;
  if (size_of(dtype) > 2) return unit_roundoff(dtype) * std::sqrt(variance);
  return std::hypot(unit_roundoff(dtype) * std::sqrt(kStored / 3.0),
                    unit_roundoff(DType::kF32) * std::sqrt(variance));
}

// What no error exceeds: one of eight deviations would come once in 10^15 numbers.
constexpr double kDeviations = 8;

// Of one op's result of `dtype`, whose longest sum has so many terms, in units of its size. Numbers of 16 bits are rounded
// `roundings` times on the way, which may all go one way. `condition`: how much larger than the result the op's formula
// makes a rounding.
inline double result_bound(DType dtype, int64_t terms, double roundings = 1, double condition = 1) {
  if (size_of(dtype) > 2) return condition * kDeviations * sum_deviation(dtype, terms);
  return roundings * unit_roundoff(dtype) + result_bound(DType::kF32, terms, 0, condition);
}

// Sums of a GPU's tensor cores. An instruction multiplies exactly and adds `step` products to what has been summed: all are
// brought to the exponent of the largest, and what lies below its last bit is cut off (Fasi et al., "Numerical behavior of
// NVIDIA tensor cores", 2021). The largest is of the size of the sum; what is cut off is at most one `unit` of it, evenly
// spread, and its sign is that of the term. So a sum of n products has n cuts, and one more with each step.
struct TensorCoreSums {
  double unit;
  int64_t step;
};
inline constexpr TensorCoreSums kSumsOf16Bits{0x1p-23, 16}, kSumsOfTf32{0x1p-23, 8},
    // Hopper's keep the highest 14 bits (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.5.2).
    kSumsOfFloat8{0x1p-13, 32};

inline double result_bound(const TensorCoreSums& sums, int64_t products) {
  const int64_t cuts = products + (products + sums.step - 1) / sums.step;
  return kDeviations * sums.unit * std::sqrt(static_cast<double>(cuts) / 3);
}

// TF32 has 11 bits: each operand of a product is rounded to them, whose errors are added as squares, as products are.
inline double tf32_bound(int64_t products) {
  return kDeviations * 0x1p-11 * std::sqrt(2.0 / 3) + result_bound(kSumsOfTf32, products);
}

}  // namespace recollect::test
