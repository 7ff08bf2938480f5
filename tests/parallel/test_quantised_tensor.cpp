// Weights of 4 and 8 bits: codes, sizes and numbers are those of bitsandbytes, bit for bit (tests/golden/make_quantised_goldens.py),
// whatever rows and columns of them a rank has; and files that cannot be read say why.
#include "parallel/quantised_tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/ops/ops.h"
#include "parallel/quantised_files.h"
#include "tests/engine/cpu_kernels.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/op_harness.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test::quantised_tensor_test {
namespace {

constexpr int64_t kRows = 34, kColumns = 512;

const SafetensorsSet& golden() {
  static const SafetensorsSet set(RECOLLECT_SOURCE_DIR "/tests/golden/quantised/numbers.safetensors");
  return set;
}

template <typename T>
std::vector<T> golden_of(const std::string& name) {
  std::vector<T> all(golden().at(name).bytes / sizeof(T));
  golden().read_bytes(name, std::as_writable_bytes(std::span(all)));
  return all;
}

QuantisedTensor quantised(const StoredRow& row) {
  return quantise_tensor("w", row, kRows, [](int64_t first, int64_t count, float* out) {
    golden().read_as("w", out, first, count);
  });
}

struct Form {
  const char* name;
  StoredRow row;
};
constexpr Form kForms[] = {{"nf4", {WeightFormat::kNF4, false, kColumns}},
                           {"nf4.nested", {WeightFormat::kNF4, true, kColumns}},
                           {"fp4", {WeightFormat::kFP4, false, kColumns}},
                           {"fp4.nested", {WeightFormat::kFP4, true, kColumns}},
                           {"int8", {WeightFormat::kInt8, false, kColumns}}};

std::string format_of(const Form& form) { return std::string(name_of(form.row.format)); }

TEST(QuantisedTensor, IsThatOfBitsandbytes) {
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.name);
    const QuantisedTensor made = quantised(form.row);
    EXPECT_EQ(made.codes, golden_of<uint8_t>(format_of(form)));
    if (!form.row.nested) {
      EXPECT_EQ(made.sizes, golden_of<float>(format_of(form) + ".absmax"));
      continue;
    }
    EXPECT_EQ(made.nested_codes, golden_of<uint8_t>(form.name));
    EXPECT_EQ(made.sizes, golden_of<float>(std::string(form.name) + ".absmax"));
    EXPECT_EQ(made.mean, golden_of<float>(std::string(form.name) + ".offset")[0]);
  }
}

// Of rows of `part.columns` columns from `first` on, what a backend makes, as floats.
std::vector<float> numbers_of(const QuantisedTensor& tensor, int64_t first, const StoredRow& part,
                              const KernelTable& kernels, DType dtype) {
  OpRegistry registry;
  register_engine_ops(registry);
  Graph graph;
  const ValueId rows = graph.add_value({.name = "rows", .shape = {kRows, part.bytes()}, .dtype = DType::kU8});
  const ValueId made = graph
                           .op(graph.add_op({.def = registry.find(kStoredRows),
                                             .name = "made",
                                             .attributes = attributes_of(part, dtype),
                                             .inputs = {rows}}))
                           .outputs[0];
  GraphRunner runner(graph, kernels, {});
  for (int64_t r = 0; r < kRows; ++r)
    store_row(tensor, r, first, part, static_cast<std::byte*>(runner.tensor(rows).data) + r * part.bytes());
  runner.run();
  runner.expect_intact();
  const Numbers numbers = read(runner.tensor(made));
  return {numbers.begin(), numbers.end()};
}

TEST(QuantisedTensor, BecomesTheNumbersOfBitsandbytes) {
  KernelTable reference, cpu;
  reference::register_kernels(reference);
  register_cpu_kernels(cpu);
  const auto rows = golden_of<int32_t>("rows");
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.name);
    const auto want = golden_of<float>(std::string(form.name) + ".rows");
    const QuantisedTensor tensor = quantised(form.row);
    const std::vector<float> whole = numbers_of(tensor, 0, form.row, reference, DType::kF32);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::vector<float> row(whole.begin() + rows[i] * kColumns,
                                   whole.begin() + (rows[i] + 1) * kColumns);
      std::vector<float> alone(kColumns);
      dequantise_row(tensor, rows[i], alone.data());
      EXPECT_EQ(std::memcmp(row.data(), want.data() + i * kColumns, kColumns * sizeof(float)), 0) << rows[i];
      EXPECT_EQ(std::memcmp(alone.data(), want.data() + i * kColumns, kColumns * sizeof(float)), 0)
          << rows[i];
    }
    EXPECT_EQ(numbers_of(tensor, 0, form.row, cpu, DType::kF32), whole);
    EXPECT_EQ(numbers_of(tensor, 0, form.row, reference, DType::kF64), whole);
    const std::vector<float> narrow = numbers_of(tensor, 0, form.row, cpu, DType::kBF16);
    for (std::size_t i = 0; i < whole.size(); ++i)
      ASSERT_EQ(narrow[i], static_cast<float>(bf16(whole[i]))) << i;
    // Of columns that another rank has: nested sizes begin in the middle of their 256.
    for (const int64_t columns : {128, 192})
      for (int64_t first = 0; first + columns <= kColumns; first += 64) {
        const StoredRow part{form.row.format, form.row.nested, columns};
        const std::vector<float> some = numbers_of(tensor, first, part, cpu, DType::kF32);
        for (int64_t r = 0; r < kRows; ++r)
          ASSERT_TRUE(std::equal(some.begin() + r * columns, some.begin() + (r + 1) * columns,
                                 whole.begin() + r * kColumns + first))
              << columns << " from " << first << ", row " << r;
      }
  }
}

// Of 4096 columns: half a byte, a byte of 64 or four, and what a row has of its own.
TEST(QuantisedTensor, TakesAsMuchAsItSays) {
  EXPECT_EQ((StoredRow{WeightFormat::kNF4, false, 4096}.bytes()), 2048 + 64 * 4);
  EXPECT_EQ((StoredRow{WeightFormat::kNF4, true, 4096}.bytes()), 2048 + 64 + 4 + 2 * 4 + 1 + 3);
  EXPECT_EQ((StoredRow{WeightFormat::kNF4, true, 14336}.bytes()), 7168 + 224 + 4 + 2 * 4 + 1 + 3);
  EXPECT_EQ((StoredRow{WeightFormat::kInt8, false, 4096}.bytes()), 4096 + 16);
}

TEST(QuantisedTensor, OfNumbersThatAreNoneIsRefused) {
  const auto quantise = [](WeightFormat format, float odd) {
    quantise_tensor("w", {format, false, 64}, 2, [&](int64_t, int64_t count, float* out) {
      std::fill_n(out, count * 64, 1.0f);
      out[7] = odd;
    });
  };
  for (const WeightFormat format : {WeightFormat::kNF4, WeightFormat::kInt8})
    for (const float odd : {INFINITY, -INFINITY, std::nanf("")})
      expect_error(ExitCode::kInput, {"w holds a number that is not finite"}, [&] { quantise(format, odd); });
  quantise(WeightFormat::kNF4, 1e6f);
  expect_error(ExitCode::kInput, {"or too large for f16"}, [&] { quantise(WeightFormat::kInt8, 1e6f); });
}

void write(const std::string& path, const Form& form) {
  SafetensorsWriter file(path);
  declare_quantised(file, "m.weight", form.row, kRows);
  file.begin();
  write_quantised(file, "m.weight", quantised(form.row));
  file.finish();
}

TEST(QuantisedFiles, AreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.name);
    const std::string path = folder.file("w.safetensors");
    write(path, form);
    const SafetensorsSet set(path);
    ASSERT_TRUE(is_quantised_in(set, "m.weight"));
    const QuantisedTensor made = quantised(form.row), read = read_quantised(set, "m.weight", form.row, kRows);
    EXPECT_EQ(read.codes, made.codes);
    EXPECT_EQ(read.sizes, made.sizes);
    EXPECT_EQ(read.nested_codes, made.nested_codes);
    EXPECT_EQ(read.mean, made.mean);
    const std::vector<std::string> beside = names_beside("m.weight");
    for (const std::string& name : set.names())
      EXPECT_TRUE(name == "m.weight" || std::count(beside.begin(), beside.end(), name) == 1) << name;
  }
}

TEST(QuantisedFiles, OfAnotherFormSayWhichOne) {
  const TemporaryFolder folder;
  const std::string nested = folder.file("nested.safetensors"), int8 = folder.file("int8.safetensors");
  write(nested, kForms[1]);
  write(int8, kForms[4]);
  const auto read = [](const std::string& path, const StoredRow& row, int64_t rows = kRows) {
    return [=] { read_quantised(SafetensorsSet(path), "m.weight", row, rows); };
  };
  expect_error(ExitCode::kInput, {"m.weight is stored as nf4, and lora.base is fp4"},
               read(nested, kForms[3].row));
  expect_error(ExitCode::kInput, {"is stored as int8, and lora.base is nf4"}, read(int8, kForms[1].row));
  expect_error(ExitCode::kInput, {"is quantised twice, and lora.double_quant is false"},
               read(nested, kForms[0].row));
  expect_error(ExitCode::kInput, {"is not [17, 1024]"}, read(nested, {WeightFormat::kNF4, true, 1024}, 17));
  expect_error(ExitCode::kInput, {"needs m.weight with 8960 bytes"}, read(nested, kForms[1].row, 35));
}

}  // namespace
}  // namespace recollect::test::quantised_tensor_test
