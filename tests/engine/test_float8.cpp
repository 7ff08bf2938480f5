// 8-bit codes: their numbers and how floats are rounded to them are PyTorch's; all backends quantise to the same bits; and
// the gradient of a product of codes is that of the numbers that were quantised.
#include "engine/ops/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "engine/graph/differentiate.h"
#include "engine/graph/join_ops.h"
#include "engine/graph/op_builder.h"
#include "tests/engine/all_backends.h"
#include "tests/engine/cpu_kernels.h"
#include "tests/engine/op_harness.h"

namespace recollect::test::float8_test {
namespace {

template <typename Code>
void expect_line(const std::string& bits, uint8_t code, int line) {
  Code value;
  value.bits = code;
  if (bits == "nan") {
    EXPECT_TRUE(std::isnan(static_cast<float>(value))) << line;
    EXPECT_EQ(Code(static_cast<float>(value)).bits, float8::kNan) << line;
    return;
  }
  const auto number = std::bit_cast<float>(static_cast<uint32_t>(std::stoul(bits, nullptr, 16)));
  if (std::isinf(static_cast<float>(value))) {
    EXPECT_EQ(Code(number).bits & 0x7f, Code::Format::kLargest) << "no float becomes infinity: line " << line;
  } else {
    EXPECT_EQ(Code(number).bits, code) << "line " << line;
  }
}

TEST(Float8, IsPyTorchs) {
  std::ifstream file(RECOLLECT_SOURCE_DIR "/tests/golden/float8.txt");
  std::string format, bits, code;
  int lines = 0;
  std::map<std::string, int> of_format;
  while (file >> format >> bits >> code) {
    const auto number = static_cast<uint8_t>(std::stoul(code, nullptr, 16));
    format == "e4m3" ? expect_line<e4m3>(bits, number, ++lines) : expect_line<e5m2>(bits, number, ++lines);
    // The first 256 are the numbers of all codes.
    if (of_format[format]++ >= 256 || bits == "nan") continue;
    const float value =
        format == "e4m3" ? float8::widen<float8::E4M3>(number) : float8::widen<float8::E5M2>(number);
    EXPECT_EQ(std::bit_cast<uint32_t>(value), std::stoul(bits, nullptr, 16)) << lines;
  }
  EXPECT_GT(of_format["e4m3"], 900);
  EXPECT_GT(of_format["e5m2"], 900);
}

TEST(Float8, TheLargestBecomesTheFormatsLargest) {
  const Float8Scale scale = float8_scale(magnitude_bits(-7.0f), float8::E4M3::kMost);
  EXPECT_EQ(scale.factor, 64.0f);
  EXPECT_EQ(scale.scale, 1 / 64.0f);
  EXPECT_EQ(float8_scale(0, float8::E4M3::kMost).factor, 1.0f) << "nothing but zeros";
  const Float8Scale of_tiny = float8_scale(1, float8::E5M2::kMost);
  EXPECT_TRUE(std::isnormal(of_tiny.scale));
  EXPECT_TRUE(std::isfinite(of_tiny.factor));
  for (const float wrong : {INFINITY, -NAN})
    EXPECT_TRUE(std::isnan(float8_scale(magnitude_bits(wrong), 448).scale)) << wrong;
}

// A backend's codes and scale of x, in order of outputs.
std::vector<std::vector<std::byte>> quantised(const KernelTable& kernels, Precision precision,
                                              const OpCase& c, const Numbers& x) {
  OpRegistry registry;
  register_engine_ops(registry);
  const Graph graph = make_graph(c, registry, precision);
  GraphRunner runner(graph, kernels, {});
  write(runner.tensor(graph.op(0).inputs[0]), x);
  runner.run();
  runner.expect_intact();
  std::vector<std::vector<std::byte>> outputs;
  for (const ValueId v : graph.op(0).outputs) outputs.push_back(runner.bytes(v));
  return outputs;
}

TEST(Float8, AllBackendsQuantiseToTheSameBits) {
  const AllBackends on;
  for (const Shape& shape : {Shape{37, 70}, Shape{68, 72}})
    for (const char* format : {"e4m3", "e5m2"})
      for (const double odd : {0.0, static_cast<double>(INFINITY), std::nan("")}) {
        if (odd != 0 && shape[0] % 4 == 0) continue;
        const OpCase c{.name = "quantise",
                       .kind = "quantise",
                       .inputs = {activation("x", shape)},
                       .attributes = {{"format", std::string(format)}, {"copies", std::string("both")}}};
        Numbers x = random_numbers(c.inputs[0], 5);
        for (std::size_t i = 0; i < x.size(); ++i)
          x[i] = static_cast<float>(bf16(static_cast<float>(x[i] * std::exp2(-static_cast<double>(i % 23)))));
        x[7] = odd;
        const auto want = quantised(on.reference, kFloat, c, x);
        EXPECT_EQ(quantised(on.cpu, kFloat, c, x), want) << format << odd;
        EXPECT_EQ(quantised(on.cpu, kBfloat16, c, x), want) << format << odd;
        EXPECT_EQ(quantised(on.cuda, kFloat, c, x), want) << format << odd;
        EXPECT_EQ(quantised(on.cuda, kBfloat16, c, x), want) << format << odd;
        const bool finite = std::isfinite(odd);
        for (const std::byte code : want[1])
          ASSERT_EQ(finite, (std::to_integer<int>(code) & 0x7f) != float8::kNan)
              << "an overflow is not hidden";
      }
}

// All codes of a format, and more, as a backend widens them to numbers of that dtype.
Numbers widened(const KernelTable& kernels, Storage format, const char* dtype) {
  const OpCase c{
      .name = "dequantise",
      .kind = "dequantise",
      .inputs = {{.name = "codes", .shape = {37, 7}, .storage = format}, statistic("scale", {1}, 0, 0.3)},
      .attributes = {{"dtype", std::string(dtype)}}};
  OpRegistry registry;
  register_engine_ops(registry);
  const Graph graph = make_graph(c, registry, kFloat);
  GraphRunner runner(graph, kernels, {});
  const Tensor codes = runner.tensor(graph.op(0).inputs[0]);
  for (int64_t i = 0; i < codes.elements(); ++i)
    static_cast<uint8_t*>(codes.data)[i] = static_cast<uint8_t>(i);
  write(runner.tensor(graph.op(0).inputs[1]), {0.3});
  runner.run();
  runner.expect_intact();
  Numbers numbers = read(runner.tensor(graph.op(0).outputs[0]));
  for (double& number : numbers)
    if (std::isnan(number)) number = 1e300;  // so that it is like itself
  return numbers;
}

TEST(Float8, AllBackendsWidenToTheSameNumbers) {
  const AllBackends on;
  for (const Storage format : {Storage::kE4M3, Storage::kE5M2}) {
    const Numbers want = widened(on.reference, format, "statistics");
    EXPECT_EQ(want[1],
              static_cast<double>(static_cast<float>(format == Storage::kE4M3 ? 0x1p-9 : 0x1p-16) * 0.3f));
    EXPECT_EQ(widened(on.cpu, format, "statistics"), want);
    EXPECT_EQ(widened(on.cuda, format, "statistics"), want);
    Numbers halves = want;
    for (double& number : halves)
      if (number < 1e300) number = bf16(static_cast<float>(number));
    EXPECT_EQ(widened(on.cpu, format, "bf16"), halves);
    EXPECT_EQ(widened(on.cuda, format, "bf16"), halves);
    for (std::size_t i = 0; i < want.size(); ++i)
      halves[i] = want[i] < 1e300 ? double{f16(static_cast<float>(want[i]))} : want[i];
    EXPECT_EQ(widened(on.cuda, format, "f16"), halves);
    EXPECT_THROW(widened(on.reference, format, "bf16"), Error);
  }
}

// What an op reads that makes an activation or a norm.
std::vector<ValueId> operands(Graph& graph, DType dtype, const std::string& kind, const Shape& shape) {
  std::vector<ValueId> inputs;
  const auto rows = [&](const char* name, int64_t width) {
    inputs.push_back(
        graph.add_value({.name = name, .shape = {shape[0], width}, .dtype = dtype, .persistent = true}));
  };
  const auto columns = [&](const char* name) {
    inputs.push_back(graph.add_value({.name = name, .shape = {shape[1]}, .persistent = true}));
  };
  if (kind == "swiglu_backward") rows("dy", shape[1] / 2);
  rows("x", shape[1]);
  if (kind == "bias_gelu" || kind == "residual_norm") columns("bias");
  if (kind == "residual_norm") rows("residual", shape[1]);
  if (kind.ends_with("norm")) columns("weight");
  if (kind == "layer_norm" || kind == "residual_norm") columns("shift");
  return inputs;
}

// The bytes of all that such an op makes, of codes and of their scale, which two ops make, or one.
std::vector<std::vector<std::byte>> made_with_codes(const KernelTable& kernels, DType dtype,
                                                    const std::string& kind, const Shape& shape,
                                                    const char* copies, bool joins) {
  OpRegistry registry;
  register_engine_ops(registry);
  Graph graph;
  OpBuilder ops(graph, registry);
  const std::vector<ValueId> inputs = operands(graph, dtype, kind, shape);
  Attributes attributes;
  if (kind == "bias_gelu") attributes.set("form", std::string("erf"));
  if (kind.ends_with("norm")) attributes.set("epsilon", 1e-5);
  std::vector<ValueId> made = ops.append("y", kind, attributes, inputs).outputs;
  const std::vector<ValueId> codes =
      ops.append("y8", "quantise", {{"format", std::string("e4m3")}, {"copies", std::string(copies)}},
                 {made[kind == "residual_norm" ? 1 : 0]})
          .outputs;
  made.insert(made.end(), codes.begin(), codes.end());
  if (joins) join_ops(graph, registry);
  EXPECT_EQ(graph.ops().size(), joins ? 1u : 2u);
  EXPECT_EQ(graph.op(0).def->name, joins ? kind + "_quantise" : kind);
  GraphRunner runner(graph, kernels, {});
  for (const ValueId v : inputs)
    write(runner.tensor(v), random_numbers({.shape = graph.value(v).shape, .scale = 3}, v));
  runner.run();
  runner.expect_intact();
  std::vector<std::vector<std::byte>> bytes;
  for (const ValueId v : made) bytes.push_back(runner.bytes(v));
  return bytes;
}

void expect_bits_of_both(const AllBackends& on, const char* kind, const Shape& shape, const char* copies) {
  for (const auto& [kernels, dtype] : {std::pair{&on.reference, DType::kF32},
                                       {&on.cpu, DType::kF32},
                                       {&on.cpu, DType::kBF16},
                                       {&on.cuda, DType::kF32},
                                       {&on.cuda, DType::kBF16}})
    EXPECT_TRUE(made_with_codes(*kernels, dtype, kind, shape, copies, true) ==
                made_with_codes(*kernels, dtype, kind, shape, copies, false))
        << kind << " " << shape.to_string() << " " << name_of(dtype);
}

TEST(Float8, AnActivationWithItsCodesHasTheBitsOfBoth) {
  const AllBackends on;
  for (const char* kind : {"bias_gelu", "swiglu", "swiglu_backward"})
    expect_bits_of_both(on, kind, {20, 144}, "both");
}

// Rows of a warp, the last block not full of them, and of a block; of whole vectors, and not.
TEST(Float8, ANormWithItsCodesHasTheBitsOfBoth) {
  const AllBackends on;
  for (const char* kind : {"layer_norm", "residual_norm", "rms_norm"}) {
    expect_bits_of_both(on, kind, {20, 144}, "both");
    expect_bits_of_both(on, kind, {11, 7}, "rows");
    expect_bits_of_both(on, kind, {3, 2072}, "columns");
  }
}

// Whole numbers up to 7 are numbers of both formats with these scales: nothing is rounded.
struct LinearLayer {
  static constexpr int64_t kTokens = 5, kIn = 4, kOut = 3;

  explicit LinearLayer(const char* copies_of_x) {
    register_engine_ops(registry);
    x = add("x", {kTokens, kIn});
    w = add("w", {kOut, kIn});
    bias = add("bias", {kOut});
    dy = add("dy", {kTokens, kOut});
    graph.value(w).category = graph.value(bias).category = Category::kParameter;
    OpBuilder ops(graph, registry);
    if (!copies_of_x) {
      y = ops.append("y", "linear", {}, {x, w, bias}).outputs[0];
    } else {
      const auto codes = [&](const char* name, ValueId of, const char* copies) {
        return ops
            .append(name, "quantise", {{"format", std::string("e4m3")}, {"copies", std::string(copies)}},
                    {of})
            .outputs;
      };
      const auto x8 = codes("x8", x, copies_of_x), w8 = codes("w8", w, "rows");
      y = ops.append("y", "linear_fp8", {}, {x8[x8.size() - 2], x8.back(), w8[0], w8[1], w, bias}).outputs[0];
    }
    gradients = differentiate(graph, registry, {x, w, bias}, {{.value = y, .gradient = dy}});
  }

  ValueId add(const char* name, Shape shape) {
    return graph.add_value({.name = name, .shape = shape, .dtype = DType::kF64, .persistent = true});
  }

  // y and the gradients of x, w and bias.
  std::vector<Numbers> run() {
    KernelTable reference;
    reference::register_kernels(reference);
    GraphRunner runner(graph, reference, {});
    int salt = 0;
    for (const ValueId v : {x, w, bias, dy}) {
      Numbers numbers(graph.value(v).shape.elements());
      for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = i == 0 ? 7 : static_cast<double>((i * 5 + static_cast<std::size_t>(++salt)) % 15) - 7;
      write(runner.tensor(v), numbers);
    }
    runner.run();
    std::vector<Numbers> results{read(runner.tensor(y))};
    for (const ValueId v : {x, w, bias}) results.push_back(read(runner.tensor(gradients.at(v))));
    return results;
  }

  OpRegistry registry;
  Graph graph;
  ValueId x = kNone, w = kNone, bias = kNone, dy = kNone, y = kNone;
  Gradients gradients;
};

TEST(Float8, TheGradientIsThatOfWhatWasQuantised) {
  const std::vector<Numbers> want = LinearLayer(nullptr).run();
  for (const char* copies : {"both", "rows"}) {
    LinearLayer layer(copies);
    EXPECT_EQ(layer.run(), want) << copies;
    const auto reads_x = [&](const Op& op) {
      return op.phase == Phase::kBackward &&
             std::find(op.inputs.begin(), op.inputs.end(), layer.x) != op.inputs.end();
    };
    const std::vector<Op>& ops = layer.graph.ops();
    EXPECT_EQ(std::any_of(ops.begin(), ops.end(), reads_x), copies == std::string("rows"))
        << "backward reads codes where there are some";
  }
}

}  // namespace
}  // namespace recollect::test::float8_test
