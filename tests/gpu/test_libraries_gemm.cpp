// Gemm against cuBLASLt's contract, on a CPU: what is computed, how an algorithm is chosen, and that it
// stays.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "engine/nvidia/multiprocessors.h"
#include "engine/ops/cuda/faster.h"
#include "engine/ops/cuda/gemm_sums.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"
#include "tests/gpu/fake_cublas.h"

namespace recollect::cuda {
namespace {

using recollect::test::expect_error;
using recollect::test::TemporaryFolder;

// A product with its operands. Numbers are small and whole: every dtype holds them and their sums.
template <typename In, typename Out>
class Product {
 public:
  Product(GemmShape shape, Libraries* libraries)
      : shape_(typed(shape)),
        gemm_(shape_, libraries),
        a_(shape.m * shape.k),
        b_(shape.k * shape.n),
        out_(shape.m * shape.n),
        bias_(shape.n),
        workspace_(gemm_.workspace_bytes() + 1) {}

  void prepare() {
    gemm_.prepare(a_.data(), b_.data(), out_.data(), workspace_.data(), FakeCublas::stream());
  }

  void run(bool accumulate = false) {
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = In(static_cast<float>(i * 5 % 7) - 3);
    for (std::size_t i = 0; i < b_.size(); ++i) b_[i] = In(static_cast<float>(i * 3 % 5) - 2);
    for (std::size_t i = 0; i < out_.size(); ++i) out_[i] = Out(static_cast<float>(i % 3));
    for (std::size_t i = 0; i < bias_.size(); ++i) bias_[i] = static_cast<float>(i) - 1;
    gemm_.run(a_.data(), b_.data(), out_.data(), shape_.biased ? bias_.data() : nullptr, accumulate,
              workspace_.data(), FakeCublas::stream());
    for (int64_t i = 0; i < shape_.m; ++i)
      for (int64_t j = 0; j < shape_.n; ++j)
        EXPECT_EQ(static_cast<float>(out_[i * shape_.n + j]), expected(i, j, accumulate)) << i << "," << j;
    EXPECT_EQ(workspace_.back(), std::byte{0}) << "it takes no more than it said";
  }

  std::size_t workspace_bytes() const { return workspace_.size(); }

 private:
  static GemmShape typed(GemmShape shape) {
    shape.in = kDTypeOf<In>;
    shape.out = kDTypeOf<Out>;
    return shape;
  }

  float expected(int64_t i, int64_t j, bool accumulate) const {
    float sum = accumulate ? static_cast<float>((i * shape_.n + j) % 3) : 0.0f;
    for (int64_t l = 0; l < shape_.k; ++l)
      sum += static_cast<float>(a_[shape_.transpose_a ? l * shape_.m + i : i * shape_.k + l]) *
             static_cast<float>(b_[shape_.transpose_b ? j * shape_.k + l : l * shape_.n + j]);
    return shape_.biased ? sum + bias_[j] : sum;
  }

  GemmShape shape_;
  Gemm gemm_;
  std::vector<In> a_, b_;
  std::vector<Out> out_;
  std::vector<float> bias_;
  std::vector<std::byte> workspace_;
};

template <typename In, typename Out>
void compute_every_kind() {
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (bool accumulates : {false, true}) {
        FakeCublas fake;
        const auto libraries = fake.libraries();
        Product<In, Out> product(
            {.m = 3, .n = 5, .k = 4, .transpose_a = ta, .transpose_b = tb, .accumulates = accumulates},
            libraries.get());
        product.prepare();
        product.run();
        if (accumulates) product.run(true);
      }
  FakeCublas fake;
  const auto libraries = fake.libraries();
  Product<In, Out> biased({.m = 3, .n = 5, .k = 4, .transpose_b = true, .biased = true}, libraries.get());
  biased.prepare();
  biased.run();
}

TEST(CublasGemm, ComputesInEveryType) {
  compute_every_kind<float, float>();
  compute_every_kind<bf16, bf16>();
  compute_every_kind<bf16, float>();
  compute_every_kind<f16, f16>();
  compute_every_kind<f16, float>();
}

// Nothing else has tf32.
TEST(CublasGemm, F32IsExactUnlessTf32IsAskedFor) {
  for (const bool asked : {false, true}) {
    FakeCublas fake;
    const auto libraries = fake.libraries("", true, asked);
    Product<float, float> single({.m = 3, .n = 5, .k = 4}, libraries.get());
    single.prepare();
    single.run();
    EXPECT_EQ(fake.tf32, asked);
    Product<bf16, float> half({.m = 3, .n = 5, .k = 4}, libraries.get());
    half.prepare();
    half.run();
    EXPECT_FALSE(fake.tf32);
  }
}

// Codes of 8 bits, each operand's with a scale of its own.
TEST(CublasGemm, MultipliesCodesWithTheirScales) {
  constexpr int64_t kRows = 32, kColumns = 16, kDepth = 48;
  FakeCublas fake;
  const auto libraries = fake.libraries();
  Gemm gemm({.m = kRows,
             .n = kColumns,
             .k = kDepth,
             .transpose_b = true,
             .in = DType::kE5M2,
             .accumulates = true,
             .second = DType::kE4M3},
            libraries.get());
  std::vector<e5m2> a(kRows * kDepth);
  std::vector<e4m3> b(kColumns * kDepth);
  std::vector<float> out(kRows * kColumns);
  std::vector<std::byte> workspace(gemm.workspace_bytes());
  gemm.prepare(a.data(), b.data(), out.data(), workspace.data(), FakeCublas::stream());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = e5m2(static_cast<float>(i * 5 % 7) - 3);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = e4m3(static_cast<float>(i * 3 % 5) - 2);
  std::fill(out.begin(), out.end(), 5.0f);
  const float of_a = 0.5f, of_b = 8.0f;
  gemm.run(a.data(), b.data(), out.data(), nullptr, true, workspace.data(), FakeCublas::stream(),
           {.a = &of_a, .b = &of_b});
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kColumns; ++j) {
      float sum = 0;
      for (int64_t d = 0; d < kDepth; ++d) sum += float(a[i * kDepth + d]) * float(b[j * kDepth + d]);
      EXPECT_EQ(out[i * kColumns + j], 5 + 4 * sum) << i << "," << j;
    }
}

const GemmShape kShape{.m = 3, .n = 5, .k = 4};

// Runs a product of `shape` and says which algorithm computed it.
uint64_t algorithm_of(FakeCublas& fake, Libraries& libraries, const GemmShape& shape = kShape) {
  Product<float, float> product(shape, &libraries);
  product.prepare();
  product.run();
  return fake.ran.back();
}

TEST(CublasGemm, TheFastestSteadyAlgorithmIsTaken) {
  FakeCublas fake;
  fake.proposals = {2, 3, 4, 6, 8};
  fake.milliseconds = {{2, 0.9}, {4, 0.1}, {6, 0.2}, {8, 0.3}};
  fake.unsteady = 4;
  const auto libraries = fake.libraries();
  EXPECT_EQ(algorithm_of(fake, *libraries), 6u);
  EXPECT_EQ(fake.timings, 4);  // not of the one that refuses
  EXPECT_EQ(fake.fills, 2);    // zeros would not be a fair trial
}

TEST(CublasGemm, AShapeIsTimedOnce) {
  FakeCublas fake;
  const auto libraries = fake.libraries();
  const uint64_t first = algorithm_of(fake, *libraries);
  const int timings = fake.timings, fills = fake.fills;
  fake.milliseconds = {{2, 9}, {4, 8}, {6, 0.1}};
  EXPECT_EQ(algorithm_of(fake, *libraries), first);
  EXPECT_EQ(fake.timings, timings);
  EXPECT_EQ(fake.fills, fills);
  EXPECT_EQ(algorithm_of(fake, *libraries, {.m = 3, .n = 5, .k = 5}), 6u);
}

TEST(CublasGemm, LaterRunsTakeTheSame) {
  const TemporaryFolder folder;
  const std::string file = folder.file("cache/gemm.json");
  FakeCublas first, second;
  first.milliseconds = {{2, 2}, {4, 1}, {6, 3}};
  second.milliseconds = {{2, 2}, {4, 3}, {6, 1}};
  EXPECT_EQ(algorithm_of(first, *first.libraries(file)), 4u);
  EXPECT_EQ(algorithm_of(second, *second.libraries(file)), 4u);
  EXPECT_EQ(second.timings, 0);

  // Not so with another version of the library, nor for another shape or arithmetic.
  FakeCublas other = second;
  other.version = 130200;
  EXPECT_EQ(algorithm_of(other, *other.libraries(file)), 6u);
  EXPECT_EQ(algorithm_of(second, *second.libraries(file), {.m = 4, .n = 5, .k = 4}), 6u);
  EXPECT_EQ(algorithm_of(second, *second.libraries(file, true, true)), 6u);
}

// Their algorithms are chosen for what collectives leave, and so is every run; the second one, as where the first is
// recomputed, has the first one's. The same shape elsewhere has a choice of its own, for the whole device.
TEST(CublasGemm, ProductsBesideCollectivesLeaveThemMultiprocessors) {
  FakeCublas fake;
  fake.multiprocessors = 132;
  const auto libraries = fake.libraries();
  GemmShape shape{.m = 3, .n = 5, .k = 4};
  const auto compute = [&](bool beside, std::map<uint64_t, double> milliseconds) {
    fake.milliseconds = std::move(milliseconds);
    fake.ran.clear(), fake.targets.clear(), fake.targets_proposed.clear();
    shape.beside_collectives = beside;
    Product<float, float> product(shape, libraries.get());
    product.prepare();
    product.run();
    return fake.ran.back();
  };
  EXPECT_EQ(compute(true, {{4, 0.5}}), 4u);
  EXPECT_EQ(fake.targets_proposed, std::vector<int32_t>{116});
  EXPECT_EQ(fake.targets, std::vector<int32_t>(fake.targets.size(), 116));
  EXPECT_EQ(compute(false, {{6, 0.5}}), 6u);
  EXPECT_EQ(fake.targets_proposed, std::vector<int32_t>{0});
  EXPECT_EQ(fake.targets, std::vector<int32_t>(fake.targets.size(), 0));
  EXPECT_EQ(compute(true, {{2, 0.5}}), 4u);
  EXPECT_TRUE(fake.targets_proposed.empty());
  EXPECT_EQ(fake.targets, std::vector<int32_t>{116});
  EXPECT_EQ(multiprocessors_beside_collectives(40), 0);
}

TEST(CublasGemm, AChoiceThatIsRefusedIsMadeAgain) {
  const TemporaryFolder folder;
  const std::string file = folder.file("gemm.json");
  FakeCublas fake;
  GemmChoices choices;
  GemmContext context{.device = "Fake", .multiprocessors = 1, .version = fake.version, .tf32 = false};
  choices.set(gemm_key(context, kShape), {7});
  std::ofstream(file) << choices.to_json();
  fake.milliseconds = {{4, 0.5}};
  EXPECT_EQ(algorithm_of(fake, *fake.libraries(file)), 4u);
  FakeCublas later;
  EXPECT_EQ(algorithm_of(later, *later.libraries(file)), 4u);
}

TEST(CublasGemm, RanksTakeTheFirstOnesChoices) {
  FakeCublas first, second;
  first.milliseconds = {{4, 0.1}};
  second.milliseconds = {{6, 0.1}};
  const auto zero = first.libraries();
  algorithm_of(first, *zero);
  const std::string learned = zero->learned();
  const auto one = second.libraries();
  one->learn(learned);
  EXPECT_EQ(algorithm_of(second, *one), 4u);
  EXPECT_EQ(second.timings, 0);
  expect_error(ExitCode::kInput, {"another rank's choices"}, [&] { one->learn("{}"); });
}

TEST(CublasGemm, UntimedTakesTheFirstProposalThatRuns) {
  const TemporaryFolder folder;
  FakeCublas fake;
  fake.proposals = {3, 6, 4};
  fake.milliseconds = {{6, 2}, {4, 1}};
  EXPECT_EQ(algorithm_of(fake, *fake.libraries(folder.file("gemm.json"), false)), 6u);
  EXPECT_EQ(fake.timings, 0);
  EXPECT_EQ(folder.count(), 0u);
}

TEST(CublasGemm, WithoutAnAlgorithmSaysForWhat) {
  FakeCublas fake;
  const auto libraries = fake.libraries();
  Product<float, float> product(kShape, libraries.get());
  fake.proposals = {};
  expect_error(ExitCode::kConfiguration, {"no algorithm", "[3, 4]", "[4, 5]", "f32"},
               [&] { product.prepare(); });
  fake.proposals = {3, 5};
  expect_error(ExitCode::kConfiguration, {"no algorithm"}, [&] { product.prepare(); });
  fake.proposals = {4};
  fake.unsteady = 4;
  expect_error(ExitCode::kConfiguration, {"no reproducible algorithm"}, [&] { product.prepare(); });
}

TEST(CublasGemm, ASpoiltFileIsOneWarning) {
  const TemporaryFolder folder;
  const std::string file = folder.write("gemm.json", "spoilt");
  FakeCublas fake;
  const auto libraries = fake.libraries(file);
  const std::vector<std::string> warnings = libraries->take_warnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find(file), std::string::npos);
  algorithm_of(fake, *libraries);
  EXPECT_TRUE(libraries->take_warnings().empty());
}

TEST(CublasGemm, ItsWorkspaceIsPredictedWithoutADevice) {
  const std::size_t plain = Gemm(kShape, nullptr).workspace_bytes();
  EXPECT_GE(plain, std::size_t{32} << 20);
  const GemmShape biased{.m = 3, .n = 1000, .k = 4, .in = DType::kBF16, .out = DType::kBF16, .biased = true};
  EXPECT_GE(Gemm(biased, nullptr).workspace_bytes(), plain + 2000);
}

// dw = dy^T x and the sums of dy's columns, by the product where that is faster than both apart.
class ProductWithSums {
 public:
  ProductWithSums(FakeCublas& fake, Libraries* libraries, double milliseconds_apart)
      : fake_(fake),
        gemm_(kShapeOfSums, libraries),
        apart_(milliseconds_apart),
        workspace_(gemm_.workspace_bytes()) {}

  bool prepare() {
    return gemm_.prepare(dy_.data(), x_.data(), dw_.data(), sums_.data(), workspace_.data(),
                         FakeCublas::stream(), [&] {
                           fake_.milliseconds[kNumberOfApart] = apart_;
                           fake_.ran.push_back(kNumberOfApart);
                         });
  }

  // Which algorithm.
  uint64_t run(bool accumulate) {
    std::iota(dy_.begin(), dy_.end(), -4.0f);
    std::iota(x_.begin(), x_.end(), -7.0f);
    dw_.assign(dw_.size(), 100);
    sums_.assign(sums_.size(), 100);
    gemm_.run(dy_.data(), x_.data(), dw_.data(), sums_.data(), accumulate, workspace_.data(),
              FakeCublas::stream());
    for (int64_t i = 0; i < kM; ++i) {
      float sum = 0;
      for (int64_t t = 0; t < kK; ++t) sum += dy_[t * kM + i];
      EXPECT_EQ(sums_[i], sum) << "never added to what was there";
      for (int64_t j = 0; j < kN; ++j) {
        float product = accumulate ? 100 : 0;
        for (int64_t t = 0; t < kK; ++t) product += dy_[t * kM + i] * x_[t * kN + j];
        EXPECT_EQ(dw_[i * kN + j], product);
      }
    }
    return fake_.ran.back() - FakeCublas::kSums;
  }

 private:
  static constexpr int64_t kM = 3, kN = 5, kK = 4;
  static constexpr GemmShape kShapeOfSums{
      .m = kM, .n = kN, .k = kK, .transpose_a = true, .accumulates = true};
  static constexpr uint64_t kNumberOfApart = 99;

  FakeCublas& fake_;
  GemmWithSums gemm_;
  double apart_;
  std::vector<float> dy_ = std::vector<float>(kK * kM), x_ = std::vector<float>(kK * kN),
                     dw_ = std::vector<float>(kM * kN), sums_ = std::vector<float>(kM);
  std::vector<std::byte> workspace_;
};

TEST(CublasSums, AreMadeByTheFastestSteadyProduct) {
  FakeCublas fake;
  fake.proposals = {2, 4, 6, 8};
  fake.milliseconds = {{1002, 0.9}, {1004, 0.1}, {1006, 0.2}, {1008, 0.15}};
  fake.unsteady = 4;
  fake.unsteady_sums = 8;
  const auto libraries = fake.libraries();
  ProductWithSums product(fake, libraries.get(), 0.5);
  ASSERT_TRUE(product.prepare());
  EXPECT_EQ(product.run(false), 6u);
  EXPECT_EQ(product.run(true), 6u);
}

TEST(CublasSums, AreMadeApartWhereThatIsFasterOrProductsMakeNone) {
  const TemporaryFolder folder;
  const std::string file = folder.file("gemm.json");
  FakeCublas fake;
  EXPECT_FALSE(ProductWithSums(fake, fake.libraries(file).get(), 0.5).prepare());
  FakeCublas later;  // the first choice stays, whatever would be faster by now
  EXPECT_FALSE(ProductWithSums(later, later.libraries(file).get(), 2).prepare());
  EXPECT_EQ(later.timings, 0);

  FakeCublas without, untimed;
  without.sums = false;
  EXPECT_FALSE(ProductWithSums(without, without.libraries().get(), 2).prepare());
  EXPECT_FALSE(ProductWithSums(untimed, untimed.libraries("", false).get(), 2).prepare());
}

TEST(CublasSums, StayAsTheyWereChosen) {
  const TemporaryFolder folder;
  const std::string file = folder.file("gemm.json");
  FakeCublas first, second;
  first.milliseconds = {{1004, 0.1}};
  second.milliseconds = {{1006, 0.1}};
  EXPECT_TRUE(ProductWithSums(first, first.libraries(file).get(), 2).prepare());
  const auto libraries = second.libraries(file);
  ProductWithSums product(second, libraries.get(), 0.01);
  EXPECT_TRUE(product.prepare());
  EXPECT_EQ(product.run(false), 4u);
}

// Of two ways that take so many milliseconds.
bool first_is_taken(FakeCublas& fake, Libraries& libraries, double first, double second,
                    const std::string& name = "a loss") {
  fake.milliseconds[1] = first;
  fake.milliseconds[3] = second;
  return is_faster(
      &libraries, name, [&] { fake.ran.push_back(1); }, [&] { fake.ran.push_back(3); }, FakeCublas::stream());
}

TEST(Faster, IsWhatTakesLessTimeAtFirst) {
  FakeCublas fake;
  const auto libraries = fake.libraries();
  EXPECT_TRUE(first_is_taken(fake, *libraries, 1, 2));
  EXPECT_TRUE(first_is_taken(fake, *libraries, 2, 1)) << "it stays";
  EXPECT_EQ(fake.timings, 2);
  EXPECT_FALSE(first_is_taken(fake, *libraries, 2, 1, "another"));
  EXPECT_FALSE(first_is_taken(fake, *libraries, 2, 2, "as fast"));
}

TEST(Faster, IsChosenOnceForLaterRunsAndOtherRanks) {
  const TemporaryFolder folder;
  const std::string file = folder.file("gemm.json");
  FakeCublas fake;
  EXPECT_TRUE(first_is_taken(fake, *fake.libraries(file), 1, 2));
  const auto later = fake.libraries(file);
  EXPECT_TRUE(first_is_taken(fake, *later, 2, 1));
  const std::string learned = later->learned();
  const auto other = fake.libraries();
  other->learn(learned);
  EXPECT_TRUE(first_is_taken(fake, *other, 2, 1));
  EXPECT_EQ(fake.timings, 2) << "those of the first run";
}

TEST(Faster, IsNotLookedForWhereNothingIsTimed) {
  FakeCublas fake;
  EXPECT_FALSE(first_is_taken(fake, *fake.libraries("", false), 1, 2));
  EXPECT_EQ(fake.timings, 0);
}

}  // namespace
}  // namespace recollect::cuda
