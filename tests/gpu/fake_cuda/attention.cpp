// What cuDNN does for the backend's attention, in loops: operands where they stand in longer rows, statistics, and masks
// that are drawn anew by backward, from the seed and the offset that lie on the device. It takes the workspace that
// cuDNN asks for, and leaves no number in it.
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/core/philox.h"
#include "engine/ops/cuda/attention_chunks.h"
#include "engine/ops/cuda/cudnn.h"
#include "engine/runtime/cuda/check.h"
#include "tests/gpu/fake_cuda/world.h"

namespace recollect::cuda {

namespace {

double number(const void* data, DType dtype, int64_t i) {
  return dtype == DType::kBF16 ? float{static_cast<const bf16*>(data)[i]}
                               : float{static_cast<const f16*>(data)[i]};
}

void set_number(void* data, DType dtype, int64_t i, double value) {
  const auto rounded = static_cast<float>(value);
  if (dtype == DType::kBF16)
    static_cast<bf16*>(data)[i] = bf16(rounded);
  else
    static_cast<f16*>(data)[i] = f16(rounded);
}

// One query head of one sample.
class HeadOfSample {
 public:
  HeadOfSample(const AttentionProblem& problem, const AttentionOperands& operands, int64_t sample,
               int64_t head)
      : p_(problem),
        o_(operands),
        sample_(sample),
        unit_(sample * problem.heads + head),
        head_at_(head * problem.head_size),
        kv_head_at_(head / (problem.heads / problem.kv_heads) * problem.head_size),
        keys_(problem.padded ? static_cast<const int32_t*>(operands.lengths)[sample] : problem.length),
        scale_(problem.scale > 0 ? problem.scale : 1 / std::sqrt(static_cast<double>(problem.head_size))) {}

  int64_t first_seen(int64_t query) const {
    return p_.window > 0 ? std::max<int64_t>(query - p_.window + 1, 0) : 0;
  }
  int64_t seen(int64_t query) const {
    const int64_t ahead = p_.causal ? 1 : p_.window > 0 ? p_.window : p_.length;
    return std::min(query + ahead, keys_);
  }
  int64_t at_q(int64_t query, int64_t c) const { return row(query) * p_.q_row + head_at_ + c; }
  int64_t at_kv(int64_t key, int64_t c) const { return row(key) * p_.kv_row + kv_head_at_ + c; }
  int64_t at_o(int64_t query, int64_t c) const { return row(query) * p_.o_row + head_at_ + c; }

  double score(int64_t query, int64_t key) const {
    double sum = 0;
    for (int64_t c = 0; c < p_.head_size; ++c)
      sum += number(o_.q, p_.dtype, at_q(query, c)) * number(o_.k, p_.dtype, at_kv(key, c));
    return sum * scale_;
  }

  // What a probability is multiplied by.
  double kept(int64_t query, int64_t key) const {
    if (p_.dropout == 0) return 1;
    const auto* random = static_cast<const int64_t*>(o_.random);
    const RandomKey of_mask{.seed = static_cast<uint64_t>(random[0])};
    const auto element = static_cast<uint64_t>(random[1] + (unit_ * p_.length + query) * p_.length + key);
    return random_word(of_mask, element) < dropout_threshold(p_.dropout) ? 0 : 1 / (1 - p_.dropout);
  }

  void forward() const {
    std::vector<double> probability(static_cast<std::size_t>(p_.length));
    for (int64_t query = 0; query < p_.length; ++query) {
      double max = -INFINITY, sum = 0;
      for (int64_t key = first_seen(query); key < seen(query); ++key) max = std::fmax(max, score(query, key));
      for (int64_t key = first_seen(query); key < seen(query); ++key)
        sum += std::exp(score(query, key) - max);
      const double lse = seen(query) > 0 ? max + std::log(sum) : 0;
      for (int64_t key = first_seen(query); key < seen(query); ++key)
        probability[static_cast<std::size_t>(key)] = std::exp(score(query, key) - lse) * kept(query, key);
      for (int64_t c = 0; c < p_.head_size; ++c) {
        double value = 0;
        for (int64_t key = first_seen(query); key < seen(query); ++key)
          value += probability[static_cast<std::size_t>(key)] * number(o_.v, p_.dtype, at_kv(key, c));
        set_number(o_.o, p_.dtype, at_o(query, c), value);
      }
      static_cast<float*>(o_.lse)[unit_ * p_.length + query] = static_cast<float>(lse);
    }
  }

  // Adds to the gradients of k and v, which heads share.
  void backward(std::vector<double>& dk, std::vector<double>& dv) const {
    for (int64_t query = 0; query < p_.length; ++query) {
      const double lse = static_cast<const float*>(o_.lse)[unit_ * p_.length + query];
      double inner = 0;
      for (int64_t c = 0; c < p_.head_size; ++c)
        inner += d_o(query, c) * number(o_.o, p_.dtype, at_o(query, c));
      std::vector<double> dq(static_cast<std::size_t>(p_.head_size));
      for (int64_t key = first_seen(query); key < seen(query); ++key) {
        const double probability = std::exp(score(query, key) - lse), factor = kept(query, key);
        double d_probability = 0;
        for (int64_t c = 0; c < p_.head_size; ++c) {
          d_probability += d_o(query, c) * number(o_.v, p_.dtype, at_kv(key, c)) * factor;
          dv[of_key(key, c)] += probability * factor * d_o(query, c);
        }
        const double d_score = probability * (d_probability - inner) * scale_;
        for (int64_t c = 0; c < p_.head_size; ++c) {
          dq[static_cast<std::size_t>(c)] += d_score * number(o_.k, p_.dtype, at_kv(key, c));
          dk[of_key(key, c)] += d_score * number(o_.q, p_.dtype, at_q(query, c));
        }
      }
      for (int64_t c = 0; c < p_.head_size; ++c)
        set_number(o_.dq, p_.dtype, at_q(query, c), dq[static_cast<std::size_t>(c)]);
    }
  }

  void store(const std::vector<double>& dk, const std::vector<double>& dv) const {
    for (int64_t key = 0; key < p_.length; ++key)
      for (int64_t c = 0; c < p_.head_size; ++c) {
        set_number(o_.dk, p_.dtype, at_kv(key, c), dk[of_key(key, c)]);
        set_number(o_.dv, p_.dtype, at_kv(key, c), dv[of_key(key, c)]);
      }
  }

 private:
  int64_t row(int64_t token) const { return sample_ * p_.length + token; }
  std::size_t of_key(int64_t key, int64_t c) const {
    return static_cast<std::size_t>(key * p_.head_size + c);
  }
  double d_o(int64_t query, int64_t c) const { return number(o_.d_o, p_.dtype, at_o(query, c)); }

  const AttentionProblem& p_;
  const AttentionOperands& o_;
  int64_t sample_, unit_, head_at_, kv_head_at_, keys_;
  double scale_;
};

}  // namespace

bool has_fused_attention() { return fake_cuda::world().settings().fused_attention; }

class AttentionGraph::Impl {
 public:
  explicit Impl(const AttentionProblem& problem) : problem_(problem) {}

  std::size_t workspace_bytes() const {
    const AttentionProblem& p = problem_;
    const auto units = static_cast<std::size_t>(p.samples * p.heads);
    const std::size_t scores = p.in_order ? 4 * p.length * p.head_size + 8 * divided_up(p.length, 64)
                                          : 2 * rounded_up(p.length, 64) * rounded_up(p.length, 128);
    return 256 + (p.backward ? units * (scores + 4 * p.length) : 0);
  }

  void compute(const AttentionOperands& operands) const {
    const AttentionProblem& p = problem_;
    const int64_t group = p.heads / p.kv_heads;
    for (int64_t sample = 0; sample < p.samples; ++sample) {
      for (int64_t head = 0; head < p.heads && !p.backward; ++head)
        HeadOfSample(p, operands, sample, head).forward();
      for (int64_t first = 0; first < p.heads && p.backward; first += group) {
        std::vector<double> dk(static_cast<std::size_t>(p.length * p.head_size)), dv(dk.size());
        for (int64_t head = first; head < first + group; ++head)
          HeadOfSample(p, operands, sample, head).backward(dk, dv);
        HeadOfSample(p, operands, sample, first).store(dk, dv);
      }
    }
  }

 private:
  AttentionProblem problem_;
};

AttentionGraph::AttentionGraph(const AttentionProblem& problem, const Cudnn&)
    : impl_(std::make_unique<Impl>(problem)) {}
AttentionGraph::~AttentionGraph() = default;
std::size_t AttentionGraph::workspace_bytes() const { return impl_->workspace_bytes(); }

void AttentionGraph::run(const AttentionOperands& operands, void* workspace, void* stream) {
  const auto work = [impl = impl_.get(), operands, workspace] {
    std::memset(workspace, 0xFF, impl->workspace_bytes());
    impl->compute(operands);
  };
  check(fake_cuda::enqueue(static_cast<cudaStream_t>(stream), work), "attention");
}

std::shared_ptr<AttentionGraph> Cudnn::attention(const AttentionProblem& problem) {
  std::shared_ptr<AttentionGraph>& graph = graphs_[problem];
  if (!graph) graph = std::make_shared<AttentionGraph>(problem, *this);
  return graph;
}

}  // namespace recollect::cuda
