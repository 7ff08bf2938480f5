// What the table of op cases does not reach of the cuda backend's kernels, which run on the CPU here
// (tests/gpu/emulation): conversions, hashes, targets that are none, many tensors, the sizes of real models.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "engine/core/philox.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/op_harness.h"
#include "tests/engine/rounding.h"
#include "tests/gpu/emulation/backend.h"

namespace recollect::test {
namespace {

Tensor view(GuardedBuffer& buffer, Shape shape, DType dtype) {
  return {.data = buffer.data(), .shape = shape, .dtype = dtype};
}

Numbers normal(int64_t count, uint64_t seed) { return random_numbers(activation("x", {count}, 3), seed); }

TEST(CudaConvert, RoundsEveryElement) {
  const DType dtypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
  for (const int64_t count : {1, 3, 4, 1027}) {
    for (const DType from : dtypes) {
      for (const DType to : dtypes) {
        if (from == to) continue;
        GuardedBuffer source(count * size_of(from)), target(count * size_of(to)),
            expected(count * size_of(to));
        const Tensor in = view(source, {count}, from), out = view(target, {count}, to);
        const Tensor want = view(expected, {count}, to);
        write(in, normal(count, 7));
        write(want, read(in));
        emulation::convert(in, out);
        EXPECT_EQ(read(out), read(want)) << name_of(from) << " to " << name_of(to) << ", " << count;
        EXPECT_TRUE(target.intact());
      }
    }
  }
}

int64_t hash_of(const GuardedBuffer& buffer, std::size_t bytes) {
  int64_t hash = -1;
  emulation::hash_bytes(const_cast<GuardedBuffer&>(buffer).data(), bytes, &hash);
  return hash;
}

TEST(CudaHash, SeesEveryByteItsPlaceAndHowManyThereAre) {
  for (const std::size_t bytes : {1u, 7u, 8u, 9u, 16u, 31u, 70000u}) {
    GuardedBuffer buffer(bytes);
    for (std::size_t i = 0; i < bytes; ++i) buffer.data()[i] = static_cast<std::byte>(i % 251);
    const int64_t hash = hash_of(buffer, bytes);
    EXPECT_EQ(hash_of(buffer, bytes), hash);
    for (std::size_t i = 0; i<bytes; i += bytes> 100 ? 997 : 1) {
      buffer.data()[i] ^= std::byte{4};
      EXPECT_NE(hash_of(buffer, bytes), hash) << "byte " << i << " of " << bytes;
      buffer.data()[i] ^= std::byte{4};
    }
    if (bytes >= 16) {
      std::swap_ranges(buffer.data(), buffer.data() + 8, buffer.data() + 8);
      EXPECT_NE(hash_of(buffer, bytes), hash) << "two words have changed places";
    }
  }
  GuardedBuffer zeros(64);
  std::memset(zeros.data(), 0, 64);
  std::set<int64_t> hashes;
  for (std::size_t bytes = 0; bytes <= 64; ++bytes) hashes.insert(hash_of(zeros, bytes));
  EXPECT_EQ(hashes.size(), 65u);
}

OpCase loss_case(int64_t samples, int64_t length, int64_t chunk) {
  return {.name = "loss",
          .kind = "lm_head_loss",
          .inputs = {activation("x", {samples * length, 8}),
                     activation("w", {16, 8}, 0.3),
                     {.name = "targets",
                      .shape = {samples, length},
                      .storage = Storage::kI32,
                      .fill = Fill::kTargets,
                      .limit = 16},
                     {.name = "scale", .shape = {1}, .storage = Storage::kF64, .scale = 0, .offset = 0.25}},
          .attributes = {{"vocabulary_size", int64_t{16}},
                         {"first_row", int64_t{0}},
                         {"chunk_rows", chunk},
                         {"gradient", int64_t{1}}}};
}

TEST(CudaLoss, NamesTheFirstTargetOutsideTheVocabulary) {
  const OpCase c = loss_case(3, 5, 4);
  KernelTable kernels;
  emulation::register_kernels(kernels);
  CaseData data = make_data(c, kFloat);
  data.inputs[2][8] = 16;
  data.inputs[2][12] = -1;
  expect_error(ExitCode::kInput, {"target 16 of token 8 is outside the vocabulary of 16"},
               [&] { run_case(c, data, kernels, kFloat); });
  data.inputs[2][0] = 99;
  expect_error(ExitCode::kInput, {"target 99 of token 0 is outside the vocabulary of 16"},
               [&] { run_case(c, data, kernels, kFloat); });
}

// More tensors than one launch takes, some of several blocks.
TEST(CudaSquaredNorm, AddsUpAnyNumberOfTensors) {
  OpCase c{.name = "many", .kind = "squared_norm"};
  for (int64_t i = 0; i < 300; ++i) c.inputs.push_back(statistic("g", {i % 50 == 17 ? 70001 : 1 + i % 7}));
  const CaseData data = make_data(c, kFloat);
  KernelTable cuda, reference;
  emulation::register_kernels(cuda);
  reference::register_kernels(reference);
  expect_close(run_case(c, data, cuda, kFloat)[0], run_case(c, data, reference, kFloat)[0],
               result_bound(DType::kF64, 300 * 7 + 6 * 70001), "sum");
}

// Long enough for several rounds of every block's loop, and for whole grids.
TEST(CudaColumns, SumsOfManyRowsAreExactToFloat) {
  KernelTable cuda, reference;
  emulation::register_kernels(cuda);
  reference::register_kernels(reference);
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{3000, 8}, {40, 9000}, {1100, 72}}) {
    OpCase c{.name = "column_sum", .kind = "column_sum", .inputs = {activation("dy", {rows, width})}};
    c.accumulators[0] = statistic("dbias", {width});
    for (const Precision precision : {kFloat, kBfloat16}) {
      const CaseData data = make_data(c, precision);
      expect_close(run_case(c, data, cuda, precision)[0], run_case(c, data, reference, kDouble)[0],
                   result_bound(DType::kF32, rows), "sums");
    }
  }
}

}  // namespace
}  // namespace recollect::test
