// Optimizer states of one byte a number: the maps are those of bitsandbytes, numbers become the entries that its published
// algorithm finds, and steps of the rules are those of a transcription, bit for bit on CPUs. (Built without fused products,
// as the kernels are.)
#include "engine/ops/quantised_states.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "engine/core/philox.h"
#include "engine/io/crc32c.h"
#include "tests/engine/cpu_kernels.h"
#include "tests/engine/op_harness.h"
#include "tests/engine/rounding.h"
#include "tests/gpu/emulation/backend.h"

namespace recollect::test::quantised_states_test {
namespace {

constexpr DynamicMap kSigned = DynamicMap::make(true), kUnsigned = DynamicMap::make(false);

uint32_t sum_of(const std::array<float, 256>& entries) {
  return crc32c({reinterpret_cast<const char*>(entries.data()), sizeof entries});
}

// tests/golden/make_dynamic_map.py prints the sums of what bitsandbytes 0.50.2 makes.
TEST(DynamicMap, IsThatOfBitsandbytes) {
  EXPECT_EQ(kSigned.entries[0], -0.99296874f);
  EXPECT_EQ(kSigned.entries[128], 5.5000004e-07f);
  EXPECT_EQ(kUnsigned.entries[1], 3.2500003e-07f);
  EXPECT_EQ(sum_of(kSigned.entries), 0x28f6b49cu);
  EXPECT_EQ(sum_of(kUnsigned.entries), 0xaa33e64bu);
}

// As published: the entry to the left of a share, or the one to the right where that is nearer.
int published_entry(const std::array<float, 256>& entries, float share) {
  int left = 0;
  while (left < 255 && entries[left + 1] <= share) ++left;
  const bool right = left < 255 && std::fabs(entries[left + 1] - share) < std::fabs(share - entries[left]);
  return right ? left + 1 : left;
}

TEST(DynamicMap, FindsThePublishedEntry) {
  for (const bool is_signed : {true, false}) {
    const DynamicMap& map = is_signed ? kSigned : kUnsigned;
    std::vector<float> shares{0, 1, 1e-30f, 0.999999f};
    for (uint32_t bits = 0x30000000; bits < 0x3f800000; bits += 99'991)
      shares.push_back(std::bit_cast<float>(bits));
    for (int i = 0; i < 255; ++i)
      for (int away = -2; away <= 2; ++away)
        shares.push_back(std::bit_cast<float>(std::bit_cast<uint32_t>(map.boundaries[i]) + away));
    for (const float share : shares)
      for (const float x : {share, -share}) {
        if (x < 0 && !is_signed) continue;
        ASSERT_EQ(nearest_entry(map.boundaries.data(), x), published_entry(map.entries, x)) << x;
      }
  }
}

// One parameter and its states, and how a step changes them.
struct Transcription {
  bool adam;
  int64_t rows, columns;
  std::vector<float> w;
  std::vector<uint8_t> m, v;
  std::vector<float> m_sizes, v_sizes;

  Transcription(bool is_adam, int64_t r, int64_t c) : adam(is_adam), rows(r), columns(c) {
    for (int64_t i = 0; i < r * c; ++i) w.push_back(static_cast<float>(random_unit({.seed = 3}, i) - 0.5));
    m.resize(w.size()), v.resize(w.size());
    m_sizes.resize(r * blocks()), v_sizes.resize(m_sizes.size());
  }
  int64_t blocks() const { return (columns + 255) / 256; }

  static void quantise(const std::array<float, 256>& entries, const std::vector<float>& block, uint8_t* to,
                       float& size) {
    size = 0;
    for (const float x : block) size = std::max(size, std::fabs(x));
    for (std::size_t i = 0; i < block.size(); ++i)
      to[i] = static_cast<uint8_t>(published_entry(entries, size > 0 ? block[i] / size : 0));
  }

  void step(int number, double rate, double decay, const Numbers& gradients) {
    const double beta1 = 0.9, beta2 = adam ? 0.999 : 0.99, factor = 0.5;
    const auto r = static_cast<float>(rate), d = static_cast<float>(decay), b1 = static_cast<float>(beta1),
               b2 = static_cast<float>(beta2), rest1 = static_cast<float>(1 - beta1),
               rest2 = static_cast<float>(1 - beta2);
    const auto size = static_cast<float>(rate / (1 - std::pow(beta1, number))),
               root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, number)));
    for (int64_t block = 0; block < rows * blocks(); ++block) {
      const int64_t column = block % blocks() * 256, first = block / blocks() * columns + column,
                    count = std::min<int64_t>(256, columns - column);
      std::vector<float> ms, vs;
      for (int64_t i = first; i < first + count; ++i) {
        const float g = static_cast<float>(gradients[i]) * static_cast<float>(factor);
        float moment = kSigned.entries[m[i]] * m_sizes[block],
              second = kUnsigned.entries[v[i]] * v_sizes[block];
        if (adam) {
          w[i] -= r * d * w[i];
          moment += rest1 * (g - moment);
          second = b2 * second + rest2 * g * g;
          w[i] -= size * moment / (std::sqrt(second) * root + 1e-8f);
        } else {
          const float direction = b1 * moment + rest1 * g;
          w[i] -= r * d * w[i];
          w[i] -= r * static_cast<float>((direction > 0) - (direction < 0));
          moment = b2 * moment + rest2 * g;
        }
        ms.push_back(moment), vs.push_back(second);
      }
      quantise(kSigned.entries, ms, &m[first], m_sizes[block]);
      if (adam) quantise(kUnsigned.entries, vs, &v[first], v_sizes[block]);
    }
  }
};

// The op, whose state is that of a transcription.
class QuantisedOp {
 public:
  QuantisedOp(const Transcription& t, void (*register_backend)(KernelTable&, VocabularyReduction*))
      : graph_(make(t)) {
    register_backend(kernels_, nullptr);
    runner_ = std::make_unique<GraphRunner>(graph_, kernels_, RunState{});
    set(t);
  }
  void set(const Transcription& t) {
    for (std::size_t i = 0; i < outputs(t).size(); ++i)
      std::memcpy(runner_->tensor(graph_.op(0).outputs[i]).data, outputs(t)[i].data(), outputs(t)[i].size());
  }
  void step(int number, double rate, const Numbers& gradients) {
    const Op& op = graph_.op(0);
    const double beta2 = op.attributes.real("beta2");
    write(runner_->tensor(op.inputs[0]), {rate, 1 - std::pow(0.9, number), 1 - std::pow(beta2, number)});
    write(runner_->tensor(op.inputs[1]), {0.5});
    write(runner_->tensor(op.inputs[2]), gradients);
    runner_->run_op(0, true);
    runner_->expect_intact();
  }
  std::vector<std::byte> bytes(std::size_t output) { return runner_->bytes(graph_.op(0).outputs[output]); }
  Numbers numbers(std::size_t output) { return read(runner_->tensor(graph_.op(0).outputs[output])); }

  // Of its outputs, in order.
  static std::vector<std::vector<std::byte>> outputs(const Transcription& t) {
    std::vector<std::vector<std::byte>> all;
    const auto add = [&](const auto& values) {
      const auto* first = reinterpret_cast<const std::byte*>(values.data());
      all.emplace_back(first, first + values.size() * sizeof(values[0]));
    };
    add(t.w), add(t.m), add(t.m_sizes);
    if (t.adam) add(t.v), add(t.v_sizes);
    return all;
  }

 private:
  Graph make(const Transcription& t) {
    register_engine_ops(registry_);
    const Shape shape{t.rows, t.columns}, sizes{t.rows, t.blocks()};
    OpCase c{.name = "op",
             .kind = t.adam ? "adamw8bit" : "lion8bit",
             .inputs = {{.name = "schedule", .shape = {3}, .storage = Storage::kF64},
                        {.name = "factor", .shape = {1}, .storage = Storage::kF64},
                        statistic("grad", shape)},
             .attributes = {{"weight_decay", 0.1},
                            {"cast", int64_t{0}},
                            {"beta1", 0.9},
                            {"beta2", t.adam ? 0.999 : 0.99},
                            {"epsilon", 1e-8}},
             .accumulators = {{0, statistic("master", shape)}}};
    for (int moment = 0; moment < (t.adam ? 2 : 1); ++moment) {
      c.accumulators[1 + 2 * moment] = {.name = "entries", .shape = shape, .storage = Storage::kU8};
      c.accumulators[2 + 2 * moment] = {.name = "sizes", .shape = sizes, .storage = Storage::kF32};
    }
    return make_graph(c, registry_, kFloat);
  }

  OpRegistry registry_;
  Graph graph_;
  KernelTable kernels_;
  std::unique_ptr<GraphRunner> runner_;
};

// Of very different sizes, and zeros.
Numbers gradients_of(int64_t count, int step) {
  Numbers numbers;
  for (int64_t i = 0; i < count; ++i) {
    const double u = random_unit({.seed = 11, .step = static_cast<uint64_t>(step)}, i),
                 e = random_unit({.seed = 12, .step = static_cast<uint64_t>(step)}, i);
    numbers.push_back(i % 17 == 0 ? 0.0 : static_cast<float>((u - 0.5) * std::pow(10.0, -6 * e)));
  }
  return numbers;
}

TEST(QuantisedStates, FiveStepsOnACpuAreThePublishedOnesBitForBit) {
  for (const bool adam : {true, false})
    for (const auto& [rows, columns] : {std::pair{3, 700}, {64, 64}, {1, 256}}) {
      Transcription expected(adam, rows, columns);
      const int before = omp_get_max_threads();
      omp_set_num_threads(rows == 64 ? 3 : 1);
      QuantisedOp op(expected, register_cpu_kernels);
      omp_set_num_threads(before);
      for (int step = 1; step <= 5; ++step) {
        const Numbers gradients = gradients_of(rows * columns, step);
        expected.step(step, 0.01 / step, 0.1, gradients);
        op.step(step, 0.01 / step, gradients);
        const auto want = QuantisedOp::outputs(expected);
        for (std::size_t i = 0; i < want.size(); ++i)
          ASSERT_TRUE(op.bytes(i) == want[i]) << "adam " << adam << " step " << step << " output " << i;
      }
    }
}

// Where arithmetic is done in more bits, or with fused products, an entry may be the neighbour of another.
TEST(QuantisedStates, EveryBackendMakesThatStep) {
  for (const auto backend : {reference::register_kernels, emulation::register_kernels})
    for (const bool adam : {true, false}) {
      Transcription expected(adam, 5, 600);
      QuantisedOp op(expected, backend);
      for (int step = 1; step <= 3; ++step) {
        op.set(expected);
        const Numbers gradients = gradients_of(5 * 600, step);
        expected.step(step, 0.01, 0.1, gradients);
        op.step(step, 0.01, gradients);
        expect_close(op.numbers(0), {expected.w.begin(), expected.w.end()}, result_bound(DType::kF32, 0),
                     "master");
        expect_close(op.numbers(2), {expected.m_sizes.begin(), expected.m_sizes.end()},
                     result_bound(DType::kF32, 0), "sizes");
        const Numbers entries = op.numbers(1);
        int others = 0;
        for (std::size_t i = 0; i < entries.size(); ++i) {
          others += entries[i] != expected.m[i];
          ASSERT_LE(std::fabs(entries[i] - expected.m[i]), 1) << i;
        }
        EXPECT_LE(others, 3);
      }
    }
}

TEST(QuantisedStates, ABlockOfZerosStaysOne) {
  Transcription t(true, 2, 300);
  std::fill(t.w.begin(), t.w.end(), 0.0f);
  for (const auto backend :
       {reference::register_kernels, register_cpu_kernels, emulation::register_kernels}) {
    QuantisedOp op(t, backend);
    op.step(1, 0.1, Numbers(600, 0.0));
    for (const std::size_t output : {0, 2, 4})
      for (const double x : op.numbers(output)) EXPECT_EQ(x, 0);
  }
}

}  // namespace
}  // namespace recollect::test::quantised_states_test
