#include "tests/engine/op_harness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "engine/core/float8.h"
#include "engine/core/philox.h"

namespace recollect::test {
namespace {

constexpr std::size_t kGuard = 64;

std::byte guard_byte(std::size_t i) { return static_cast<std::byte>(0xA5 ^ (i * 29)); }

template <typename F>
void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF64:
      return f(double{});
    case DType::kF32:
      return f(float{});
    case DType::kBF16:
      return f(bf16{});
    case DType::kF16:
      return f(f16{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kU8:
      return f(uint8_t{});
    case DType::kE4M3:
      return f(e4m3{});
    case DType::kE5M2:
      return f(e5m2{});
    default:
      FAIL() << "no test stores " << name_of(dtype);
  }
}

Numbers rounded(const Numbers& numbers, DType dtype) {
  Numbers result = numbers;
  with_type(dtype, [&](auto type) {
    using T = decltype(type);
    // Types of 16 and 8 bits are made from float: rounding twice is harmless here, both sides start from the result.
    for (double& x : result)
      x = static_cast<double>(T(static_cast<std::conditional_t<sizeof(T) <= 2, float, double>>(x)));
  });
  return result;
}

void fill_positions(const ValueSpec& spec, uint64_t seed, Numbers& numbers) {
  const auto length = static_cast<std::size_t>(spec.shape[1]), least = static_cast<std::size_t>(spec.offset);
  std::size_t begin = 0;
  bool padding = false;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double u = random_unit({.seed = seed, .site = 0}, i), v = random_unit({.seed = seed, .site = 1}, i);
    const bool first = i % length == 0;
    if (first || (i - begin >= least && u * static_cast<double>(spec.limit) < 1)) {
      begin = i;
      padding = !first && (v < 0.25 || length - i % length < least);
    }
    numbers[i] = padding ? -1 : static_cast<double>(i - begin);
  }
}

uint64_t seed_of(const std::string& name) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace

DType dtype_of(Storage storage, Precision precision) {
  switch (storage) {
    case Storage::kActivation:
      return precision.activation;
    case Storage::kStatistics:
      return precision.statistics;
    case Storage::kI32:
      return DType::kI32;
    case Storage::kF32:
      return DType::kF32;
    case Storage::kF64:
      return DType::kF64;
    case Storage::kU8:
      return DType::kU8;
    case Storage::kE4M3:
      return DType::kE4M3;
    case Storage::kE5M2:
      return DType::kE5M2;
  }
  return DType::kF64;
}

void write(const Tensor& tensor, const Numbers& numbers) {
  ASSERT_EQ(static_cast<std::size_t>(tensor.elements()), numbers.size());
  with_type(tensor.dtype, [&](auto type) {
    using T = decltype(type);
    using From = std::conditional_t<sizeof(T) <= 2, float, double>;
    for (std::size_t i = 0; i < numbers.size(); ++i) tensor.as<T>()[i] = T(static_cast<From>(numbers[i]));
  });
}

Numbers read(const Tensor& tensor) {
  Numbers numbers(tensor.elements());
  with_type(tensor.dtype, [&](auto type) {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<double>(tensor.as<decltype(type)>()[i]);
  });
  return numbers;
}

Numbers random_numbers(const ValueSpec& spec, uint64_t seed) {
  Numbers numbers(spec.shape.elements());
  if (spec.fill == Fill::kPositions) fill_positions(spec, seed, numbers);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double u = random_unit({.seed = seed, .site = 0}, i), v = random_unit({.seed = seed, .site = 1}, i);
    const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
    switch (spec.fill) {
      case Fill::kNormal:
        numbers[i] = spec.offset + spec.scale * normal;
        break;
      case Fill::kPositive:
        numbers[i] = spec.offset + spec.scale * std::fabs(normal);
        break;
      case Fill::kIds:
        numbers[i] = std::floor(u * static_cast<double>(spec.limit));
        break;
      case Fill::kTargets:
        numbers[i] = i % 3 == 2 ? -100 : std::floor(u * static_cast<double>(spec.limit));
        break;
      case Fill::kIgnored:
        numbers[i] = -100;
        break;
      case Fill::kLengths:
        numbers[i] = spec.offset + std::floor(u * (static_cast<double>(spec.limit) + 1 - spec.offset));
        if (i % 4 == 1) numbers[i] = static_cast<double>(spec.limit);
        if (i % 4 == 2) numbers[i] = spec.offset;
        break;
      case Fill::kAbsent:
      case Fill::kGarbage:
        numbers[i] = std::nan("");
        break;
      case Fill::kPositions:
        break;
      case Fill::kPlaces: {
        const auto step = static_cast<std::size_t>(spec.limit) / numbers.size();
        numbers[i] = i == 1 ? -1 : static_cast<double>(i * step + static_cast<std::size_t>(u * double(step)));
        break;
      }
    }
  }
  return numbers;
}

CaseData make_data(const OpCase& c, Precision precision) {
  CaseData data;
  const uint64_t seed = seed_of(c.name);
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    data.inputs.push_back(
        rounded(random_numbers(c.inputs[i], seed + i), dtype_of(c.inputs[i].storage, precision)));
  for (const auto& [output, spec] : c.accumulators)
    data.accumulators[output] =
        rounded(random_numbers(spec, seed + 100 + output), dtype_of(spec.storage, precision));
  for (const Derived& derived : c.derived) {
    OpCase other{.name = c.name + "_derived",
                 .kind = derived.kind,
                 .inputs = {},
                 .attributes = c.attributes,
                 .state = c.state};
    CaseData from;
    for (const int i : derived.from) {
      other.inputs.push_back(c.inputs[i]);
      from.inputs.push_back(data.inputs[i]);
    }
    KernelTable reference;
    reference::register_kernels(reference);
    const std::vector<Numbers> outputs = run_case(other, from, reference, kDouble);
    for (const auto& [output, input] : derived.inputs)
      data.inputs[input] = rounded(outputs[output], dtype_of(c.inputs[input].storage, precision));
  }
  return data;
}

GuardedBuffer::GuardedBuffer(std::size_t bytes) : storage_(bytes + 2 * kGuard + 64), bytes_(bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuard;
  start_ = storage_.data() + kGuard + (64 - address % 64) % 64;
  for (std::size_t i = 0; i < kGuard; ++i) {
    *(start_ - kGuard + i) = guard_byte(i);
    start_[bytes + i] = guard_byte(i);
  }
  fill_with_nan();
  forbid(true);
}

void GuardedBuffer::forbid([[maybe_unused]] bool forbidden) const {
#if defined(__SANITIZE_ADDRESS__)
  if (storage_.empty()) return;  // moved away
  for (const std::byte* guard : {start_ - kGuard, start_ + bytes_})
    forbidden ? ASAN_POISON_MEMORY_REGION(guard, kGuard) : ASAN_UNPOISON_MEMORY_REGION(guard, kGuard);
#endif
}

void GuardedBuffer::fill_with_nan() { std::memset(start_, 0xFF, bytes_); }

bool GuardedBuffer::intact() const {
  forbid(false);
  bool intact = true;
  for (std::size_t i = 0; i < kGuard; ++i)
    intact = intact && *(start_ - kGuard + i) == guard_byte(i) && start_[bytes_ + i] == guard_byte(i);
  forbid(true);
  return intact;
}

GraphRunner::GraphRunner(const Graph& graph, const KernelTable& kernels, const RunState& state)
    : graph_(graph), state_(state) {
  for (const Value& value : graph.values()) {
    buffers_.emplace_back(value.bytes());
    home_.push_back(static_cast<ValueId>(home_.size()));
  }
  for (const Op& op : graph.ops()) {
    kernels_.push_back(kernels.make(OpView{graph, op}));
    workspaces_.emplace_back(kernels_.back()->workspace_bytes());
  }
  for (OpId id = 0; id < static_cast<OpId>(kernels_.size()); ++id)
    with_args(id, [&](const KernelArgs& args) { kernels_[id]->prepare(args); });
  for (GuardedBuffer& buffer : buffers_) buffer.fill_with_nan();
}

template <typename F>
void GraphRunner::with_args(OpId id, F f) {
  const Op& op = graph_.op(id);
  std::vector<Tensor> in, out;
  for (const ValueId v : op.inputs) in.push_back(tensor(v));
  for (const ValueId v : op.outputs) out.push_back(tensor(v));
  f(KernelArgs{.in = in, .out = out, .workspace = workspaces_[id].data(), .state = &state_});
}

Tensor GraphRunner::tensor(ValueId id) {
  if (id == kNone) return {};
  const Value& value = graph_.value(id);
  return {.data = data(home_.at(id)), .shape = value.shape, .dtype = value.dtype};
}

std::vector<std::byte> GraphRunner::bytes(ValueId id) {
  const Tensor t = tensor(id);
  const auto* first = static_cast<const std::byte*>(t.data);
  return {first, first + t.bytes()};
}

void GraphRunner::run_op(OpId id, bool accumulate) {
  with_args(id, [&](KernelArgs args) {
    args.accumulate = accumulate;
    kernels_[id]->run(args);
  });
}

void GraphRunner::run() {
  for (OpId id : graph_.op_ids()) run_op(id, graph_.op(id).accumulate == Accumulate::kAlways);
}

void GraphRunner::expect_intact() const {
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    EXPECT_TRUE(buffers_[i].intact()) << "written beyond the ends of " << graph_.values()[i].name;
  for (std::size_t i = 0; i < workspaces_.size(); ++i)
    EXPECT_TRUE(workspaces_[i].intact())
        << "written beyond the ends of the workspace of " << graph_.ops()[i].name;
}

Graph make_graph(const OpCase& c, const OpRegistry& registry, Precision precision) {
  Graph graph;
  Op op{
      .def = registry.find(c.kind), .name = c.kind, .attributes = c.attributes, .inputs = {}, .outputs = {}};
  for (const ValueSpec& spec : c.inputs) {
    op.inputs.push_back(
        spec.fill == Fill::kAbsent
            ? kNone
            : graph.add_value(
                  {.name = spec.name, .shape = spec.shape, .dtype = dtype_of(spec.storage, precision)}));
  }
  for (const auto& [output, spec] : c.accumulators) {
    op.outputs.resize(output + 1, kNone);
    op.outputs[output] = graph.add_value({.name = spec.name,
                                          .shape = spec.shape,
                                          .dtype = dtype_of(spec.storage, precision),
                                          .accumulator = true});
  }
  graph.add_op(std::move(op));
  return graph;
}

namespace {

// Sets every value as it is before a run: inputs and, where the case accumulates, accumulators to their
// numbers, all else to NaN.
void prepare(GraphRunner& runner, const OpCase& c, const CaseData& data, const Op& op) {
  for (const ValueId out : op.outputs) std::memset(runner.tensor(out).data, 0xFF, runner.tensor(out).bytes());
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i] != kNone) write(runner.tensor(op.inputs[i]), data.inputs[i]);
  for (const auto& [output, spec] : c.accumulators)
    if (c.accumulate && spec.fill != Fill::kGarbage)
      write(runner.tensor(op.outputs[output]), data.accumulators.at(output));
}

std::vector<std::vector<std::byte>> bytes_of(GraphRunner& runner, const std::vector<ValueId>& ids) {
  std::vector<std::vector<std::byte>> bytes;
  for (const ValueId id : ids) bytes.push_back(id == kNone ? std::vector<std::byte>{} : runner.bytes(id));
  return bytes;
}

}  // namespace

std::vector<Numbers> run_case(const OpCase& c, const CaseData& data, const KernelTable& kernels,
                              Precision precision) {
  OpRegistry registry;
  register_engine_ops(registry);
  const Graph graph = make_graph(c, registry, precision);
  const Op& op = graph.op(0);
  GraphRunner runner(graph, kernels, c.state);
  prepare(runner, c, data, op);
  const auto inputs = bytes_of(runner, op.inputs);
  runner.run_op(0, c.accumulate);
  EXPECT_EQ(bytes_of(runner, op.inputs), inputs) << "an input was written";
  std::vector<Numbers> numbers;
  for (const ValueId out : op.outputs) numbers.push_back(read(runner.tensor(out)));
  const auto outputs = bytes_of(runner, op.outputs);

  prepare(runner, c, data, op);
  runner.run_op(0, c.accumulate);
  EXPECT_TRUE(bytes_of(runner, op.outputs) == outputs) << "a second run gave other bytes";
  runner.expect_intact();

  for (const auto& [output, input] : op.def->in_place) {
    if (output >= static_cast<int>(op.outputs.size())) continue;  // without its gradient
    GraphRunner shared(graph, kernels, c.state);
    shared.share(op.outputs[output], op.inputs[input]);
    prepare(shared, c, data, op);
    shared.run_op(0, c.accumulate);
    EXPECT_TRUE(bytes_of(shared, op.outputs) == outputs)
        << "other bytes with output " << output << " in the place of input " << input;
    shared.expect_intact();
  }
  return numbers;
}

double root_mean_square(const Numbers& numbers) {
  double squares = 0;
  for (const double x : numbers) squares += x * x;
  return numbers.empty() ? 0 : std::sqrt(squares / static_cast<double>(numbers.size()));
}

int64_t longest_sum(const OpCase& c) {
  int64_t terms = 1;
  for (const ValueSpec& input : c.inputs)
    for (int i = 0; i < input.shape.rank(); ++i) terms = std::max(terms, input.shape[i]);
  return terms;
}

double size_of_accumulator(const OpCase& c, const CaseData& data, std::size_t i) {
  const auto start = data.accumulators.find(static_cast<int>(i));
  return c.accumulate && start != data.accumulators.end() ? root_mean_square(start->second) : 0;
}

void expect_close(const Numbers& got, const Numbers& want, double tolerance, const std::string& what,
                  double scale) {
  ASSERT_EQ(got.size(), want.size()) << what;
  const double rms = std::fmax(root_mean_square(want), scale);
  std::size_t worst = 0;
  double worst_error = -1;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double difference = std::fabs(got[i] - want[i]), size = std::fmax(std::fabs(want[i]), rms);
    double error = difference == 0 ? 0 : difference / size;
    if (std::isnan(error)) error = INFINITY;
    if (error > worst_error) {
      worst_error = error;
      worst = i;
    }
  }
  if (want.empty()) return;
  EXPECT_LE(worst_error, tolerance) << what << " element " << worst << ": " << got[worst] << ", expected "
                                    << want[worst] << " (root mean square " << rms << ")";
}

}  // namespace recollect::test
