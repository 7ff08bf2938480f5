// The language-model head and cross-entropy as one op, some rows of logits at a time. If the vocabulary is
// sharded, each rank computes its own logits; the row's maximum, its sum of exponentials and its target's
// logit are reduced over ranks. Every rank makes the same reductions in the same order, whatever its shard
// contains.
#include <algorithm>
#include <cmath>

#include "engine/core/ignored_label.h"
#include "engine/ops/lm_head.h"
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

// Returns the vocabulary entry that a row predicts, or kIgnoredLabel.
int32_t target_of(const Tensor& targets, int64_t row, int64_t vocabulary_size) {
  const int32_t target = targets.as<int32_t>()[row];
  if (target != kIgnoredLabel && (target < 0 || target >= vocabulary_size))
    throw Error(ExitCode::kInput, "target " + std::to_string(target) + " of token " + std::to_string(row) +
                                      " is outside the vocabulary of " + std::to_string(vocabulary_size));
  return target;
}

template <typename T>
class LmHeadLoss final : public Kernel {
 public:
  LmHeadLoss(const OpView& view, VocabularyReduction* vocabulary)
      : vocabulary_(vocabulary), gradients_(view) {
    width_ = view.in(0).shape[1];
    first_row_ = view.attributes().integer("first_row");
    vocabulary_size_ = view.attributes().integer("vocabulary_size");
    cap_ = logit_cap(view.attributes());
    with_gradient_ = view.attributes().integer("gradient") != 0;
    adds_ = !view.attributes().has("overwrite");
    rows_ = view.in(1).shape[0];
    predicted_ = std::clamp<int64_t>(vocabulary_size_ - first_row_, 0, rows_);
    chunk_ = std::min(view.attributes().integer("chunk_rows"), view.in(0).shape[0]);
    require(chunk_ > 0, "lm_head_loss needs chunk_rows >= 1");
  }

  std::size_t workspace_bytes() const override { return chunk_ * (rows_ + 3) * sizeof(double); }

  void run(const KernelArgs& args) override {
    double* loss = args.out[0].as<double>();
    const double scale = args.in[3].as<double>()[0];
    const int64_t tokens = args.in[0].shape[0];
    double sum = 0;
    for (int64_t first = 0; first < tokens; first += chunk_) {
      const Chunk chunk{first, std::min(chunk_, tokens - first)};
      logits(args, chunk);
      sum += negative_log_likelihood(args, chunk);
      if (!with_gradient_ || !args.state->training) continue;
      logit_gradients(args, chunk, scale);
      input_gradient(args, chunk);
      if (gradients_.weight != kNone) weight_gradient(args, chunk);
      if (gradients_.bias != kNone) bias_gradient(args, chunk);
    }
    store(loss[0], scale * sum, args.accumulate);
  }

 private:
  struct Chunk {
    int64_t first, rows;
  };

  double* logit(const KernelArgs& args, int64_t i) const {
    return reinterpret_cast<double*>(args.workspace) + i * rows_;
  }
  double* max(const KernelArgs& args) const { return logit(args, chunk_); }
  // Sums of exponentials, then target logits: adjacent, so that one reduction sums both.
  double* sums(const KernelArgs& args) const { return max(args) + chunk_; }

  void logits(const KernelArgs& args, Chunk chunk) const {
    for (int64_t i = 0; i < chunk.rows; ++i) {
      const T* x = args.in[0].as<T>() + (chunk.first + i) * width_;
      for (int64_t v = 0; v < predicted_; ++v) {
        const T* w = args.in[1].as<T>() + v * width_;
        double sum = present(args.in, 4) ? double(args.in[4].as<T>()[v]) : 0.0;
        for (int64_t c = 0; c < width_; ++c) sum += double(x[c]) * w[c];
        logit(args, i)[v] = cap_ > 0 ? cap_ * std::tanh(sum / cap_) : sum;
      }
    }
  }

  double negative_log_likelihood(const KernelArgs& args, Chunk chunk) const {
    double* row_max = max(args);
    double* sum = sums(args);
    double* target_logit = sum + chunk.rows;
    for (int64_t i = 0; i < chunk.rows; ++i) {
      row_max[i] = -INFINITY;
      for (int64_t v = 0; v < predicted_; ++v) row_max[i] = std::fmax(row_max[i], logit(args, i)[v]);
    }
    if (vocabulary_) vocabulary_->max(row_max, chunk.rows);
    for (int64_t i = 0; i < chunk.rows; ++i) {
      const int64_t target = target_of(args.in[2], chunk.first + i, vocabulary_size_) - first_row_;
      sum[i] = 0;
      for (int64_t v = 0; v < predicted_; ++v) sum[i] += std::exp(logit(args, i)[v] - row_max[i]);
      target_logit[i] = target >= 0 && target < predicted_ ? logit(args, i)[target] : 0;
    }
    if (vocabulary_) vocabulary_->sum(sum, 2 * chunk.rows);
    double total = 0;
    for (int64_t i = 0; i < chunk.rows; ++i)
      if (target_of(args.in[2], chunk.first + i, vocabulary_size_) != kIgnoredLabel)
        total += row_max[i] + std::log(sum[i]) - target_logit[i];
    return total;
  }

  // Replaces logits by the gradients of the uncapped logits, in place: scale * (probability - [is the target]),
  // times the derivative of the cap; zero for ignored rows.
  void logit_gradients(const KernelArgs& args, Chunk chunk, double scale) const {
    for (int64_t i = 0; i < chunk.rows; ++i) {
      const int32_t target = target_of(args.in[2], chunk.first + i, vocabulary_size_);
      for (int64_t v = 0; v < predicted_; ++v) {
        const double probability = std::exp(logit(args, i)[v] - max(args)[i]) / sums(args)[i];
        const double one = first_row_ + v == target ? 1.0 : 0.0,
                     tanh = cap_ > 0 ? logit(args, i)[v] / cap_ : 0.0;
        logit(args, i)[v] = target == kIgnoredLabel ? 0.0 : scale * (probability - one) * (1 - tanh * tanh);
      }
    }
  }

  void input_gradient(const KernelArgs& args, Chunk chunk) const {
    const T* w = args.in[1].as<T>();
    T* dx = args.out[1].as<T>() + chunk.first * width_;
    for (int64_t i = 0; i < chunk.rows; ++i) {
      for (int64_t c = 0; c < width_; ++c) {
        double sum = 0;
        for (int64_t v = 0; v < predicted_; ++v) sum += logit(args, i)[v] * w[v * width_ + c];
        dx[i * width_ + c] = static_cast<T>(sum);
      }
    }
  }

  void weight_gradient(const KernelArgs& args, Chunk chunk) const {
    const T* x = args.in[0].as<T>() + chunk.first * width_;
    T* dw = args.out[static_cast<std::size_t>(gradients_.weight)].as<T>();
    const bool accumulate = (args.accumulate && adds_) || chunk.first > 0;
    for (int64_t v = 0; v < rows_; ++v) {
      for (int64_t c = 0; c < width_; ++c) {
        double sum = 0;
        for (int64_t i = 0; v < predicted_ && i < chunk.rows; ++i)
          sum += logit(args, i)[v] * x[i * width_ + c];
        store(dw[v * width_ + c], sum, accumulate);
      }
    }
  }

  void bias_gradient(const KernelArgs& args, Chunk chunk) const {
    for (int64_t v = 0; v < rows_; ++v) {
      double sum = 0;
      for (int64_t i = 0; v < predicted_ && i < chunk.rows; ++i) sum += logit(args, i)[v];
      store(args.out[static_cast<std::size_t>(gradients_.bias)].as<T>()[v], sum,
            (args.accumulate && adds_) || chunk.first > 0);
    }
  }

  VocabularyReduction* vocabulary_;
  int64_t width_, rows_, predicted_, first_row_, vocabulary_size_, chunk_;
  double cap_;
  bool with_gradient_, adds_;
  HeadGradients gradients_;
};

}  // namespace

void register_lm_head(KernelTable& table, VocabularyReduction* vocabulary) {
  table.add("lm_head_loss", [vocabulary](const OpView& view) -> std::unique_ptr<Kernel> {
    if (runs_in_float(view)) return std::make_unique<LmHeadLoss<float>>(view, vocabulary);
    return std::make_unique<LmHeadLoss<double>>(view, vocabulary);
  });
}

}  // namespace recollect::reference
