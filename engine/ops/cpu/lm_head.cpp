// The language-model head and cross-entropy, chunk_rows rows of logits at a time, so that the full [T, V]
// logits never exist. Three steps per chunk: compute logits = x w^T into the workspace; replace them by their
// own gradient, in place; multiply that into dx = dlogits w and dw += dlogits^T x. Rows without a target have
// a gradient of exactly zero, and a chunk without any target costs no product.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/core/ignored_label.h"
#include "engine/ops/cpu/column_sums.h"
#include "engine/ops/cpu/gemm.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu/simd_math.h"
#include "engine/ops/lm_head.h"

namespace recollect::cpu {

namespace {

std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// The three products of a chunk of `rows` rows, and the column sums for the bias's gradient.
struct ChunkProducts {
  ChunkProducts(int64_t rows, int64_t vocabulary, int64_t width, DType dtype, bool bias)
      : logits({.m = rows,
                .n = vocabulary,
                .k = width,
                .transpose_b = true,
                .in = dtype,
                .out = dtype,
                .bias = bias}),
        dx({.m = rows, .n = width, .k = vocabulary, .in = dtype, .out = dtype}),
        dw({.m = vocabulary, .n = width, .k = rows, .transpose_a = true, .in = dtype, .accumulates = true}) {
    if (bias) dbias.emplace(omp_get_max_threads(), rows, vocabulary);
  }

  std::size_t workspace_bytes() const {
    return std::max({logits.workspace_bytes(), dx.workspace_bytes(), dw.workspace_bytes(),
                     dbias ? dbias->workspace_bytes() : 0});
  }

  Gemm logits, dx, dw;
  std::optional<ColumnSums> dbias;
};

template <typename A>
class LmHeadLoss : public Kernel {
 public:
  LmHeadLoss(const OpView& view, VocabularyReduction* vocabulary)
      : vocabulary_(vocabulary),
        threads_(omp_get_max_threads()),
        tokens_(view.in(0).shape[0]),
        width_(view.in(0).shape[1]),
        rows_(view.in(1).shape[0]),
        chunk_(std::min(view.attributes().integer("chunk_rows"), tokens_)),
        first_row_(view.attributes().integer("first_row")),
        vocabulary_size_(view.attributes().integer("vocabulary_size")),
        predicted_(std::clamp<int64_t>(vocabulary_size_ - first_row_, 0, rows_)),
        gradient_(view.attributes().integer("gradient") != 0),
        overwrites_(view.attributes().has("overwrite")),
        bias_(view.has_input(4)),
        cap_(static_cast<float>(logit_cap(view.attributes()))),
        gradients_(view),
        whole_(chunk_, rows_, width_, view.in(0).dtype, bias_),
        rest_(tokens_ % chunk_
                  ? std::make_unique<ChunkProducts>(tokens_ % chunk_, rows_, width_, view.in(0).dtype, bias_)
                  : nullptr) {}

  std::size_t workspace_bytes() const override {
    return logit_bytes() + statistics_bytes() +
           std::max(whole_.workspace_bytes(), rest_ ? rest_->workspace_bytes() : 0);
  }

  void run(const KernelArgs& args) override {
    const double scale = args.in[3].as<double>()[0];
    const bool gradient = gradient_ && args.state->training;
    double sum = 0;
    bool accumulate = args.accumulate && !overwrites_;
    for (int64_t first = 0; first < tokens_; first += chunk_) {
      const int64_t count = std::min(chunk_, tokens_ - first);
      if (has_target(args, first, count)) {
        sum += chunk(args, first, count, scale, gradient, accumulate);
        accumulate = true;
      } else if (gradient) {
        std::fill_n(args.out[1].as<A>() + first * width_, count * width_, A{});
      }
    }
    if (gradient && !accumulate) {
      if (gradients_.weight != kNone) clear(dweight(args));
      if (gradients_.bias != kNone) clear(dbias(args));
    }
    double* loss = args.out[0].as<double>();
    *loss = args.accumulate ? *loss + scale * sum : scale * sum;
  }

 private:
  const Tensor& dweight(const KernelArgs& args) const {
    return args.out[static_cast<std::size_t>(gradients_.weight)];
  }
  const Tensor& dbias(const KernelArgs& args) const {
    return args.out[static_cast<std::size_t>(gradients_.bias)];
  }
  std::size_t logit_bytes() const { return padded(sizeof(A) * chunk_ * rows_); }
  std::size_t statistics_bytes() const { return padded(3 * sizeof(double) * chunk_); }

  // Returns the vocabulary entry that row `row` predicts, or kIgnoredLabel.
  int64_t target(const KernelArgs& args, int64_t row) const { return args.in[2].as<int32_t>()[row]; }

  bool has_target(const KernelArgs& args, int64_t first, int64_t count) const {
    bool found = false;
    for (int64_t r = first; r < first + count; ++r) {
      const int64_t is = target(args, r);
      if (is == kIgnoredLabel) continue;
      if (is < 0 || is >= vocabulary_size_)
        throw Error(ExitCode::kInput, "target " + std::to_string(is) + " of token " + std::to_string(r) +
                                          " is outside the vocabulary of " +
                                          std::to_string(vocabulary_size_));
      found = true;
    }
    return found;
  }

  // Returns the chunk's sum of negative log likelihoods.
  double chunk(const KernelArgs& args, int64_t first, int64_t count, double scale, bool gradient,
               bool accumulate) {
    ChunkProducts& products = count == chunk_ ? whole_ : *rest_;
    A* logits = reinterpret_cast<A*>(args.workspace);
    double* max = reinterpret_cast<double*>(args.workspace + logit_bytes());
    double* sums = max + chunk_;
    std::byte* scratch = args.workspace + logit_bytes() + statistics_bytes();
    const A* x = args.in[0].as<A>() + first * width_;

    products.logits.run(x, args.in[1].data, logits, bias_ ? args.in[4].as<float>() : nullptr, false, scratch);
    statistics(args, first, count, logits, max, sums);
    double loss = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double log_sum = max[i] + std::log(sums[i]);
      if (target(args, first + i) != kIgnoredLabel) loss += log_sum - sums[count + i];
      max[i] = log_sum;
    }
    if (!gradient) return loss;

    parallel_ranges(threads_, count, [&](int64_t from, int64_t to, int) {
      for (int64_t i = from; i < to; ++i)
        logit_gradient(logits + i * rows_, static_cast<float>(max[i]), target(args, first + i), scale);
    });
    products.dx.run(logits, args.in[1].data, args.out[1].as<A>() + first * width_, nullptr, false, scratch);
    if (gradients_.weight != kNone)
      products.dw.run(logits, x, dweight(args).data, nullptr, accumulate, scratch);
    if (gradients_.bias != kNone)
      products.dbias->run(scratch, dbias(args).template as<float>(), accumulate, [&](int64_t i, float* sum) {
        const A* row = logits + i * rows_;
#pragma omp simd
        for (int64_t v = 0; v < rows_; ++v) sum[v] += load(row[v]);
      });
    return loss;
  }

  // For each row, over the whole vocabulary: the maximum logit, the sum of exp(logit - max), and the target's
  // logit. If the vocabulary is sharded, the maxima and then the sums are reduced over the ranks.
  void statistics(const KernelArgs& args, int64_t first, int64_t count, const A* logits, double* max,
                  double* sums) const {
    const auto each_row = [&](auto f) {
      parallel_ranges(threads_, count, [&](int64_t from, int64_t to, int) {
        for (int64_t i = from; i < to; ++i) f(i, logits + i * rows_);
      });
    };
    const auto exponentials = [&](int64_t i, const A* row) {
      sums[i] = sum_of_exponentials(row, static_cast<float>(max[i]));
      const int64_t t = target(args, first + i) - first_row_;
      sums[count + i] = t >= 0 && t < predicted_ ? capped(load(row[t])) : 0.0f;
    };
    if (!vocabulary_) {
      each_row([&](int64_t i, const A* row) {
        max[i] = capped(greatest(row, predicted_));
        exponentials(i, row);
      });
      return;
    }
    each_row([&](int64_t i, const A* row) { max[i] = capped(greatest(row, predicted_)); });
    vocabulary_->max(max, count);
    each_row(exponentials);
    vocabulary_->sum(sums, 2 * count);
  }

  float sum_of_exponentials(const A* row, float max) const {
    float sum = 0.0f;
    if (cap_ > 0) {
#pragma omp simd reduction(+ : sum)
      for (int64_t v = 0; v < predicted_; ++v) sum += fast_exp(cap_ * fast_tanh(load(row[v]) / cap_) - max);
      return sum;
    }
#pragma omp simd reduction(+ : sum)
    for (int64_t v = 0; v < predicted_; ++v) sum += fast_exp(load(row[v]) - max);
    return sum;
  }

  // Logits are stored uncapped and capped at every read. If this rank has only padding of the vocabulary, the
  // logit is kLeast of greatest(), which must not be capped.
  float capped(float logit) const {
    return cap_ > 0 && predicted_ > 0 ? cap_ * fast_tanh(logit / cap_) : logit;
  }

  // Replaces logits by their gradient: scale * (probability - [is the target]) * derivative of the cap. It is
  // zero in padding and in rows without a target.
  void logit_gradient(A* row, float log_sum, int64_t target, double scale) const {
    if (target == kIgnoredLabel) {
      std::fill_n(row, rows_, A{});
      return;
    }
    const float s = static_cast<float>(scale);
    const int64_t t = target - first_row_;
    const bool mine = t >= 0 && t < predicted_;
    const float own = mine ? load(row[t]) : 0.0f, tanh = cap_ > 0 ? fast_tanh(own / cap_) : 0.0f;
    const float probability = mine ? fast_exp(capped(own) - log_sum) : 0.0f;
    if (cap_ > 0)
      write_each(row, predicted_, [&](int64_t v) {
        const float t = fast_tanh(load(row[v]) / cap_);
        return s * fast_exp(cap_ * t - log_sum) * (1.0f - t * t);
      });
    else
      write_each(row, predicted_, [&](int64_t v) { return s * fast_exp(load(row[v]) - log_sum); });
    if (mine) store(row + t, s * (probability - 1.0f) * (1.0f - tanh * tanh));
    std::fill(row + predicted_, row + rows_, A{});
  }

  void clear(const Tensor& gradient) const {
    float* to = gradient.as<float>();
    parallel_ranges(threads_, gradient.elements(),
                    [&](int64_t first, int64_t last, int) { std::fill(to + first, to + last, 0.0f); });
  }

  VocabularyReduction* vocabulary_;
  int threads_;
  int64_t tokens_, width_, rows_, chunk_, first_row_, vocabulary_size_, predicted_;
  bool gradient_, overwrites_, bias_;
  float cap_;
  HeadGradients gradients_;
  ChunkProducts whole_;
  std::unique_ptr<ChunkProducts> rest_;
};

}  // namespace

void register_lm_head(KernelTable& table, VocabularyReduction* vocabulary) {
  table.add("lm_head_loss", [vocabulary](const OpView& view) {
    return with_activation_type(view.in(0).dtype, "lm_head_loss", [&]<typename A>() -> KernelPointer {
      return std::make_unique<LmHeadLoss<A>>(view, vocabulary);
    });
  });
}

}  // namespace recollect::cpu
