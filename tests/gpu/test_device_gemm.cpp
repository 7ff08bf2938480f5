// Gemm with the real cuBLASLt, on a device: against products in double, and bit for bit against itself.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/core/philox.h"
#include "engine/ops/cuda/gemm.h"
#include "engine/ops/cuda/libraries.h"
#include "tests/engine/temporary_folder.h"
#include "tests/gpu/device_memory.h"

namespace recollect::cuda {
namespace {

using recollect::test::TemporaryFolder;

template <typename T>
std::vector<T> random_numbers(std::size_t count, uint64_t seed) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = T(static_cast<float>(2 * random_unit({.seed = seed}, i) - 1));
  return values;
}

template <typename In, typename Out>
class DeviceProduct {
 public:
  DeviceProduct(GemmShape shape, Libraries& libraries)
      : shape_(typed(shape)),
        gemm_(shape_, &libraries),
        host_a_(random_numbers<In>(shape.m * shape.k, 1)),
        host_b_(random_numbers<In>(shape.k * shape.n, 2)),
        host_out_(random_numbers<Out>(shape.m * shape.n, 3)),
        host_bias_(random_numbers<float>(shape.n, 4)),
        a_(host_a_.size()),
        b_(host_b_.size()),
        out_(host_out_.size()),
        bias_(host_bias_),
        workspace_(gemm_.workspace_bytes()) {
    gemm_.prepare(a_.data(), b_.data(), out_.data(), workspace_.data(), stream_.get());
  }

  std::vector<Out> run(bool accumulate) {
    a_.write(host_a_);
    b_.write(host_b_);
    out_.write(host_out_);
    gemm_.run(a_.data(), b_.data(), out_.data(), shape_.biased ? bias_.data() : nullptr, accumulate,
              workspace_.data(), stream_.get());
    return out_.read();
  }

  // || out - expected || / || expected ||, over a hundred rows at most.
  double error(const std::vector<Out>& out, bool accumulate) const {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < shape_.m; i += std::max<int64_t>(shape_.m / 100, 1))
      for (int64_t j = 0; j < shape_.n; ++j) {
        double sum = accumulate ? host_out_[i * shape_.n + j] : 0.0;
        for (int64_t l = 0; l < shape_.k; ++l)
          sum += double{host_a_[shape_.transpose_a ? l * shape_.m + i : i * shape_.k + l]} *
                 double{host_b_[shape_.transpose_b ? j * shape_.k + l : l * shape_.n + j]};
        if (shape_.biased) sum += host_bias_[j];
        difference += std::pow(sum - double{out[i * shape_.n + j]}, 2);
        norm += sum * sum;
      }
    return std::sqrt(difference / norm);
  }

 private:
  static GemmShape typed(GemmShape shape) {
    shape.in = kDTypeOf<In>;
    shape.out = kDTypeOf<Out>;
    return shape;
  }

  GemmShape shape_;
  Gemm gemm_;
  std::vector<In> host_a_, host_b_;
  std::vector<Out> host_out_;
  std::vector<float> host_bias_;
  DeviceArray<In> a_, b_;
  DeviceArray<Out> out_;
  DeviceArray<float> bias_;
  DeviceArray<std::byte> workspace_;
  Stream stream_;
};

// A linear layer's products, the head's with its odd vocabulary, and small ones that no tile fits.
const std::vector<GemmShape> kShapes = {
    {.m = 512, .n = 2304, .k = 768, .transpose_b = true, .biased = true},
    {.m = 512, .n = 768, .k = 3072},
    {.m = 768, .n = 3072, .k = 512, .transpose_a = true, .accumulates = true},
    {.m = 64, .n = 50257, .k = 64, .transpose_b = true},
    {.m = 64, .n = 64, .k = 50257},
    {.m = 50257, .n = 64, .k = 64, .transpose_a = true, .accumulates = true},
    {.m = 7, .n = 5, .k = 3, .transpose_b = true, .biased = true},
    {.m = 5, .n = 3, .k = 7, .transpose_a = true, .accumulates = true},
    {.m = 1, .n = 1, .k = 1}};

template <typename In, typename Out>
void expect_right_and_steady(Libraries& libraries, double tolerance) {
  for (const GemmShape& shape : kShapes) {
    DeviceProduct<In, Out> product(shape, libraries), again(shape, libraries);
    for (bool accumulate : {false, true}) {
      if (accumulate && !shape.accumulates) continue;
      const std::vector<Out> out = product.run(accumulate);
      // Tensor cores cut off what they add, every few terms: an error that grows with their number.
      const double cut = 3e-9 * static_cast<double>(shape.k);
      EXPECT_LT(product.error(out, accumulate), tolerance + cut)
          << shape.m << "x" << shape.n << "x" << shape.k;
      EXPECT_TRUE(same_bits(out, product.run(accumulate)));
      EXPECT_TRUE(same_bits(out, again.run(accumulate)));
    }
  }
}

TEST(DeviceGemm, IsRightAndSteadyInEveryType) {
  RECOLLECT_NEEDS_DEVICE();
  Libraries libraries({.cache_file = "none"});
  expect_right_and_steady<float, float>(libraries, 2e-6);
  expect_right_and_steady<bf16, bf16>(libraries, 4e-3);
  expect_right_and_steady<bf16, float>(libraries, 2e-6);
  expect_right_and_steady<f16, f16>(libraries, 5e-4);
  expect_right_and_steady<f16, float>(libraries, 2e-6);
}

TEST(DeviceGemm, Tf32IsLessExactAndOnlyByOption) {
  RECOLLECT_NEEDS_DEVICE();
  Libraries libraries({.tf32 = true, .cache_file = "none"});
  expect_right_and_steady<float, float>(libraries, 1e-3);
}

TEST(DeviceGemm, RunsAgreeThroughTheFile) {
  RECOLLECT_NEEDS_DEVICE();
  const TemporaryFolder folder;
  const GemmShape shape = kShapes.front();
  std::vector<std::vector<bf16>> results;
  std::string learned;
  for (int run = 0; run < 2; ++run) {
    Libraries libraries({.cache_file = folder.file("gemm.json")});
    results.push_back(DeviceProduct<bf16, bf16>(shape, libraries).run(false));
    EXPECT_TRUE(libraries.take_warnings().empty());
    if (run == 0) learned = libraries.learned();
    EXPECT_EQ(libraries.learned(), learned);
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

TEST(DeviceGemm, UntimedIsRightToo) {
  RECOLLECT_NEEDS_DEVICE();
  Libraries libraries({.timed = false});
  expect_right_and_steady<bf16, float>(libraries, 2e-6);
}

}  // namespace
}  // namespace recollect::cuda
