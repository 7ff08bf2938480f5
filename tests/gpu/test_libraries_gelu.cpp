// GemmWithGelu against cuBLASLt's contract, on a CPU: what is computed, when it is chosen, and that it stays.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "engine/ops/cuda/gemm_gelu.h"
#include "tests/engine/temporary_folder.h"
#include "tests/gpu/fake_cublas.h"

namespace recollect::cuda {
namespace {

using recollect::test::TemporaryFolder;

// GELU of x w^T + bias, or its derivative times dy w.
class ProductWithGelu {
 public:
  ProductWithGelu(FakeCublas& fake, Libraries* libraries, bool forward, double milliseconds_apart,
                  int64_t columns = 16, DType dtype = DType::kBF16)
      : fake_(fake),
        shape_{.m = kM,
               .n = columns,
               .k = kK,
               .transpose_b = forward,
               .in = dtype,
               .out = dtype,
               .biased = forward},
        gemm_(shape_, libraries),
        apart_(milliseconds_apart),
        workspace_(gemm_.workspace_bytes() + 1) {}

  bool prepare() {
    return gemm_.prepare(a_.data(), b_.data(), out_.data(), pre_.data(), workspace_.data(),
                         FakeCublas::stream(), [&] {
                           fake_.milliseconds[kNumberOfApart] = apart_;
                           fake_.ran.push_back(kNumberOfApart);
                         });
  }

  // Which algorithm. Where GELU is made lies elsewhere than when it was prepared.
  uint64_t run() {
    std::vector<bf16> elsewhere(pre_.size());
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = bf16(static_cast<float>(i % 5) - 2);
    for (std::size_t i = 0; i < b_.size(); ++i) b_[i] = bf16(static_cast<float>(i % 3) / 4);
    for (std::size_t i = 0; i < bias_.size(); ++i) bias_[i] = 0.25f * static_cast<float>(i) - 1;
    for (std::size_t i = 0; i < elsewhere.size(); ++i) elsewhere[i] = bf16(0.125f * static_cast<float>(i));
    gemm_.run(a_.data(), b_.data(), out_.data(), shape_.biased ? bias_.data() : nullptr, elsewhere.data(),
              workspace_.data(), FakeCublas::stream());
    for (int64_t i = 0; i < kM; ++i)
      for (int64_t j = 0; j < shape_.n; ++j) expect_number(i, j, elsewhere[i * shape_.n + j]);
    EXPECT_EQ(workspace_.back(), std::byte{0}) << "it takes no more than it said";
    return fake_.ran.back() - FakeCublas::kGelu;
  }

 private:
  void expect_number(int64_t i, int64_t j, bf16 pre) const {
    double sum = shape_.biased ? bias_[j] : 0;
    for (int64_t l = 0; l < kK; ++l)
      sum += float(a_[i * kK + l]) * double{float(b_[shape_.transpose_b ? j * kK + l : l * shape_.n + j])};
    const auto gelu = [](double x) {
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    };
    const double h = 1e-5, at = float(pre), slope = (gelu(at + h) - gelu(at - h)) / (2 * h);
    if (shape_.biased) {
      EXPECT_EQ(float(pre), float(bf16(static_cast<float>(sum))));
    }
    const double want = shape_.biased ? gelu(sum) : sum * slope;
    EXPECT_NEAR(float(out_[i * shape_.n + j]), want, 0.01 * std::abs(want) + 1e-6) << i << "," << j;
  }

  static constexpr int64_t kM = 3, kK = 4;
  static constexpr uint64_t kNumberOfApart = 99;

  FakeCublas& fake_;
  GemmShape shape_;
  GemmWithGelu gemm_;
  double apart_;
  std::vector<float> bias_ = std::vector<float>(16);
  // With room for f32.
  std::vector<bf16> a_ = std::vector<bf16>(2 * kM * kK), b_ = std::vector<bf16>(2 * kK * shape_.n),
                    out_ = std::vector<bf16>(2 * kM * shape_.n), pre_ = out_;
  std::vector<std::byte> workspace_;
};

TEST(CublasGelu, IsMadeByTheFastestSteadyProduct) {
  for (const bool forward : {true, false}) {
    FakeCublas fake;
    fake.proposals = {2, 3, 4, 6};
    fake.milliseconds = {{2002, 0.9}, {2004, 0.1}, {2006, 0.2}};
    fake.unsteady = 4;
    const auto libraries = fake.libraries();
    ProductWithGelu product(fake, libraries.get(), forward, 0.5);
    ASSERT_TRUE(product.prepare());
    EXPECT_EQ(product.run(), 6u);
  }
}

// Rows whose GELU the library could not place, numbers of a type that it has none of, a library without any.
TEST(CublasGelu, IsMadeApartWhereThatIsFasterOrNoProductEndsWithIt) {
  const TemporaryFolder folder;
  const std::string file = folder.file("gemm.json");
  for (const bool forward : {true, false}) {
    FakeCublas fake, later;
    EXPECT_FALSE(ProductWithGelu(fake, fake.libraries(file).get(), forward, 0.5).prepare());
    EXPECT_FALSE(ProductWithGelu(later, later.libraries(file).get(), forward, 2).prepare());
    EXPECT_EQ(later.timings, 0) << "the first choice stays";

    FakeCublas without, untimed, other;
    without.gelu = false;
    EXPECT_FALSE(ProductWithGelu(without, without.libraries().get(), forward, 2).prepare());
    EXPECT_FALSE(ProductWithGelu(untimed, untimed.libraries("", false).get(), forward, 2).prepare());
    EXPECT_FALSE(ProductWithGelu(other, other.libraries().get(), forward, 2, 12).prepare());
    EXPECT_FALSE(ProductWithGelu(other, other.libraries().get(), forward, 2, 16, DType::kF32).prepare());
    EXPECT_EQ(other.heuristics, 0) << "nobody asks the library for what it has not";
  }
}

TEST(CublasGelu, StaysAsItWasChosen) {
  const TemporaryFolder folder;
  const std::string file = folder.file("gemm.json");
  for (const bool forward : {true, false}) {
    FakeCublas first, second;
    first.milliseconds = {{2004, 0.1}};
    second.milliseconds = {{2006, 0.1}};
    EXPECT_TRUE(ProductWithGelu(first, first.libraries(file).get(), forward, 2).prepare());
    const auto libraries = second.libraries(file);
    ProductWithGelu product(second, libraries.get(), forward, 0.01);
    EXPECT_TRUE(product.prepare());
    EXPECT_EQ(product.run(), 4u);
  }
}

}  // namespace
}  // namespace recollect::cuda
