// cuDNN's attention on a device: against attention in double, whole against cut, and its dropout masks, which
// are cuDNN's own and therefore judged by what must hold of any mask.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/core/philox.h"
#include "engine/ops/cuda/cudnn.h"
#include "engine/ops/cuda/libraries.h"
#include "tests/gpu/device_memory.h"

namespace recollect::cuda {
namespace {

std::vector<bf16> random_numbers(std::size_t count, uint64_t seed) {
  std::vector<bf16> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = bf16(static_cast<float>(2 * random_unit({.seed = seed}, i) - 1));
  return values;
}

struct Sizes {
  int64_t samples, heads, length, head_size;
  int64_t width() const { return heads * head_size; }
  int64_t tokens() const { return samples * length; }
  int64_t qkv(int64_t sample, int64_t token, int part, int64_t head) const {
    return (sample * length + token) * 3 * width() + part * width() + head * head_size;
  }
  int64_t o(int64_t sample, int64_t token, int64_t head) const {
    return (sample * length + token) * width() + head * head_size;
  }
};

// Causal, without dropout. `lse` and the gradient of qkv too.
struct Exact {
  Exact(const Sizes& z, const std::vector<bf16>& qkv, const std::vector<bf16>& d_o)
      : o(z.tokens() * z.width()), lse(z.samples * z.heads * z.length), gradient(qkv.size()) {
    for (int64_t s = 0; s < z.samples; ++s)
      for (int64_t h = 0; h < z.heads; ++h)
        for (int64_t i = 0; i < z.length; ++i) row(z, qkv, d_o, s, h, i);
  }

  void row(const Sizes& z, const std::vector<bf16>& qkv, const std::vector<bf16>& d_o, int64_t s, int64_t h,
           int64_t i) {
    const double scale = 1 / std::sqrt(static_cast<double>(z.head_size));
    const auto dot = [&](const std::vector<bf16>& a, int64_t at, const std::vector<bf16>& b, int64_t bt) {
      double sum = 0;
      for (int64_t c = 0; c < z.head_size; ++c) sum += double{a[at + c]} * double{b[bt + c]};
      return sum;
    };
    std::vector<double> p(i + 1), dp(i + 1);
    double sum = 0, inner = 0;
    for (int64_t j = 0; j <= i; ++j) {
      p[j] = std::exp(scale * dot(qkv, z.qkv(s, i, 0, h), qkv, z.qkv(s, j, 1, h)));
      sum += p[j];
    }
    lse[(s * z.heads + h) * z.length + i] = std::log(sum);
    for (int64_t j = 0; j <= i; ++j) {
      p[j] /= sum;
      dp[j] = dot(d_o, z.o(s, i, h), qkv, z.qkv(s, j, 2, h));
      inner += p[j] * dp[j];
    }
    for (int64_t j = 0; j <= i; ++j) {
      const double ds = scale * p[j] * (dp[j] - inner);
      for (int64_t c = 0; c < z.head_size; ++c) {
        o[z.o(s, i, h) + c] += p[j] * double{qkv[z.qkv(s, j, 2, h) + c]};
        gradient[z.qkv(s, i, 0, h) + c] += ds * double{qkv[z.qkv(s, j, 1, h) + c]};
        gradient[z.qkv(s, j, 1, h) + c] += ds * double{qkv[z.qkv(s, i, 0, h) + c]};
        gradient[z.qkv(s, j, 2, h) + c] += p[j] * double{d_o[z.o(s, i, h) + c]};
      }
    }
  }

  std::vector<double> o, lse, gradient;
};

template <typename T>
double relative_error(const std::vector<T>& found, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

class DeviceAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    RECOLLECT_NEEDS_DEVICE();
    if (!has_fused_attention()) GTEST_SKIP() << "this build has no cudnn-frontend";
    libraries_ = std::make_unique<Libraries>(LibrariesOptions{.cache_file = "none"});
  }

  struct Result {
    std::vector<bf16> o;
    std::vector<float> lse;
    std::vector<bf16> gradient;
  };

  // Forward and backward, `step` heads of one sample at a time, or all at once where it is 0.
  Result run(const Sizes& z, const std::vector<bf16>& qkv, const std::vector<bf16>& d_o, int64_t step = 0,
             double dropout = 0, int64_t seed = 1) {
    const DeviceArray<bf16> in(qkv), grad_o(d_o), o(z.tokens() * z.width()), out(qkv.size());
    const DeviceArray<float> lse(z.samples * z.heads * z.length);
    const DeviceArray<int64_t> random(std::vector<int64_t>{seed, 0});
    for (bool backward : {false, true})
      for (int64_t s = 0; s < (step ? z.samples : 1); ++s)
        for (int64_t h = 0; h < z.heads; h += step ? step : z.heads) {
          AttentionProblem p{.backward = backward,
                             .samples = step ? 1 : z.samples,
                             .heads = step ? std::min(step, z.heads - h) : z.heads,
                             .length = z.length,
                             .head_size = z.head_size,
                             .q_row = 3 * z.width(),
                             .kv_row = 3 * z.width(),
                             .o_row = z.width(),
                             .dropout = dropout};
          p.kv_heads = p.heads;
          AttentionOperands to;
          to.q = in.data() + z.qkv(s, 0, 0, h), to.k = in.data() + z.qkv(s, 0, 1, h);
          to.v = in.data() + z.qkv(s, 0, 2, h), to.o = o.data() + z.o(s, 0, h);
          to.d_o = grad_o.data() + z.o(s, 0, h), to.lse = lse.data() + (s * z.heads + h) * z.length;
          to.dq = out.data() + z.qkv(s, 0, 0, h), to.dk = out.data() + z.qkv(s, 0, 1, h);
          to.dv = out.data() + z.qkv(s, 0, 2, h), to.random = random.data();
          const auto graph = libraries_->cudnn().attention(p);
          const DeviceArray<std::byte> workspace(graph->workspace_bytes());
          graph->run(to, workspace.data(), stream_->get());
          check(cudaStreamSynchronize(stream_->get()), "attention");
        }
    return {o.read(), lse.read(), out.read()};
  }

  std::unique_ptr<Libraries> libraries_;
  std::unique_ptr<Stream> stream_ = has_device() ? std::make_unique<Stream>() : nullptr;
};

TEST_F(DeviceAttention, IsAttention) {
  for (const Sizes& z :
       std::vector<Sizes>{{2, 3, 64, 64}, {1, 2, 200, 64}, {2, 2, 70, 40}, {1, 1, 128, 128}}) {
    const auto qkv = random_numbers(3 * z.tokens() * z.width(), 1),
               d_o = random_numbers(z.tokens() * z.width(), 2);
    const Exact exact(z, qkv, d_o);
    const Result found = run(z, qkv, d_o);
    EXPECT_LT(relative_error(found.o, exact.o), 1e-2);
    EXPECT_LT(relative_error(found.lse, exact.lse), 1e-5);
    EXPECT_LT(relative_error(found.gradient, exact.gradient), 1e-2);
  }
}

// The same problem has the same bits every time. Another number of samples and heads is another problem, for which cuDNN
// may plan another kernel: whole and cut agree as nearly as each is attention. One piece of a cut is a problem of its own,
// wherever it lies.
TEST_F(DeviceAttention, IsSteadyAndTheSameWholeOrCut) {
  for (const Sizes& z : std::vector<Sizes>{{3, 5, 256, 64}, {2, 3, 71, 40}}) {
    const auto qkv = random_numbers(3 * z.tokens() * z.width(), 1),
               d_o = random_numbers(z.tokens() * z.width(), 2);
    const Exact exact(z, qkv, d_o);
    for (const int64_t step : {0, 2}) {
      const Result first = run(z, qkv, d_o, step), again = run(z, qkv, d_o, step);
      EXPECT_TRUE(same_bits(first.o, again.o)) << step;
      EXPECT_TRUE(same_bits(first.lse, again.lse)) << step;
      EXPECT_TRUE(same_bits(first.gradient, again.gradient)) << step;
      EXPECT_LT(relative_error(first.o, exact.o), 1e-2) << step;
      EXPECT_LT(relative_error(first.lse, exact.lse), 1e-5) << step;
      EXPECT_LT(relative_error(first.gradient, exact.gradient), 1e-2) << step;
    }
  }
}

// A sample has the bits that it has in another place of the batch.
TEST_F(DeviceAttention, APieceHasTheBitsOfItsEqual) {
  const Sizes z{3, 2, 256, 64};
  const int64_t sample = z.length * z.width();
  const auto one_qkv = random_numbers(3 * sample, 1), one_d_o = random_numbers(sample, 2);
  std::vector<bf16> qkv, d_o;
  for (int64_t s = 0; s < z.samples; ++s) {
    qkv.insert(qkv.end(), one_qkv.begin(), one_qkv.end());
    d_o.insert(d_o.end(), one_d_o.begin(), one_d_o.end());
  }
  const Result found = run(z, qkv, d_o, 2);
  const auto part = [](const auto& all, int64_t at, int64_t size) {
    return std::vector(all.begin() + at * size, all.begin() + (at + 1) * size);
  };
  for (int64_t s = 1; s < z.samples; ++s) {
    EXPECT_TRUE(same_bits(part(found.o, 0, sample), part(found.o, s, sample)));
    EXPECT_TRUE(same_bits(part(found.gradient, 0, 3 * sample), part(found.gradient, s, 3 * sample)));
  }
}

TEST_F(DeviceAttention, MasksRepeatWithTheirSeedAlone) {
  const Sizes z{2, 4, 256, 64};
  const auto qkv = random_numbers(3 * z.tokens() * z.width(), 1),
             d_o = random_numbers(z.tokens() * z.width(), 2);
  const Result first = run(z, qkv, d_o, 0, 0.25, 7), again = run(z, qkv, d_o, 0, 0.25, 7);
  const Result other = run(z, qkv, d_o, 0, 0.25, 8), none = run(z, qkv, d_o);
  EXPECT_TRUE(same_bits(first.o, again.o));
  EXPECT_TRUE(same_bits(first.gradient, again.gradient));
  EXPECT_FALSE(same_bits(first.o, other.o));
  EXPECT_LT(relative_error(first.lse, std::vector<double>(none.lse.begin(), none.lse.end())),
            1e-5);  // statistics are of what is not yet dropped
}

// The output is linear in v, so <do, o> = <dv, v> where backward drops what forward dropped; and with v = 1
// it is a row's share that was kept, one on average.
TEST_F(DeviceAttention, BackwardDrawsTheMaskOfForward) {
  const Sizes z{2, 4, 256, 64};
  auto qkv = random_numbers(3 * z.tokens() * z.width(), 1);
  const auto d_o = random_numbers(z.tokens() * z.width(), 2);
  for (int64_t s = 0; s < z.samples; ++s)
    for (int64_t i = 0; i < z.length; ++i)
      for (int64_t c = 0; c < z.width(); ++c) qkv[z.qkv(s, i, 2, 0) + c] = bf16(1.0f);
  const Result found = run(z, qkv, d_o, 0, 0.25, 7);
  double outside = 0, inside = 0, size = 0, kept = 0;
  for (std::size_t i = 0; i < d_o.size(); ++i) {
    outside += double{d_o[i]} * double{found.o[i]};
    size += std::abs(double{d_o[i]} * double{found.o[i]});
    kept += double{found.o[i]} / static_cast<double>(d_o.size());
  }
  for (int64_t s = 0; s < z.samples; ++s)
    for (int64_t i = 0; i < z.length; ++i)
      for (int64_t c = 0; c < z.width(); ++c) inside += double{found.gradient[z.qkv(s, i, 2, 0) + c]};
  EXPECT_NEAR(outside, inside, 1e-3 * size);
  EXPECT_NEAR(kept, 1.0, 0.02);
}

}  // namespace
}  // namespace recollect::cuda
