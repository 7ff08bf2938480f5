// Positions that padding has no part in, and means over the tokens of a sequence. A rank may hold some tokens only: the sum of
// the ranks' parts is the mean. Every number is added up by one thread, in the order of the tokens.
#include "engine/ops/sequences.h"

#include <omp.h>

#include <algorithm>

#include "engine/ops/cpu/row_kernel.h"

namespace recollect::cpu {

namespace {

class TokenPositions : public Kernel {
 public:
  explicit TokenPositions(const OpView& view)
      : samples_(view.in(0).shape[0]),
        length_(view.in(0).shape[1]),
        padding_id_(static_cast<int32_t>(view.attributes().integer("padding_id"))) {}

  void run(const KernelArgs& args) override {
    const int32_t* ids = args.in[0].as<int32_t>();
    const int32_t* places = args.in.size() > 1 ? args.in[1].as<int32_t>() : nullptr;
    int32_t* out = args.out[0].as<int32_t>();
    for (int64_t sample = 0; sample < samples_; ++sample) {
      int32_t last = padding_id_;
      for (int64_t t = 0; t < length_; ++t) {
        const int64_t i = sample * length_ + t, place = places ? places[i] : t;
        if (place == 0) last = padding_id_;
        out[i] = place < 0 || ids[i] == padding_id_ ? padding_id_ : ++last;
      }
    }
  }

 private:
  int64_t samples_, length_;
  int32_t padding_id_;
};

Sequences sequences_of(const KernelArgs& args, const Attributes& attributes) {
  const bool packed = args.in.size() > 2;
  const int64_t length = attributes.integer("sequence_length");
  const int32_t* listed = args.in[1].as<int32_t>();
  return {packed ? nullptr : listed, packed ? listed : nullptr, packed ? args.in[2].as<int32_t>() : nullptr,
          length, attributes.integer("samples") * length};
}

template <typename A>
class MeanTokens : public RowKernel {
 public:
  explicit MeanTokens(const OpView& view)
      : RowKernel(view), attributes_(view.attributes()), first_token_(attributes_.integer("first_token")) {}

  void run(const KernelArgs& args) override {
    const Sequences sequences = sequences_of(args, attributes_);
    const A* x = args.in[0].as<A>();
    A* y = args.out[0].as<A>();
    parallel_ranges(threads_, args.out[0].shape[0], [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t count = sequences.count(i), begin = sequences.first(i) - first_token_;
        mean(x, std::max<int64_t>(begin, 0), std::min(begin + count, rows_),
             count > 0 ? 1.0f / static_cast<float>(count) : 0.0f, y + i * width_);
      }
    });
  }

 private:
  static constexpr int64_t kRun = 64;  // columns at a time

  void mean(const A* x, int64_t first, int64_t last, float share, A* y) const {
    for (int64_t begin = 0; begin < width_; begin += kRun) {
      const int64_t run = std::min(kRun, width_ - begin);
      float sums[kRun] = {};
      for (int64_t row = first; row < last; ++row) {
        const A* from = x + row * width_ + begin;
#pragma omp simd
        for (int64_t c = 0; c < run; ++c) sums[c] += load(from[c]);
      }
      write_each(y + begin, run, [&](int64_t c) { return sums[c] * share; });
    }
  }

  Attributes attributes_;
  int64_t first_token_;
};

template <typename A>
class MeanTokensBackward : public RowKernel {
 public:
  explicit MeanTokensBackward(const OpView& view)
      : RowKernel(view), attributes_(view.attributes()), first_token_(attributes_.integer("first_token")) {}

  void run(const KernelArgs& args) override {
    const Sequences sequences = sequences_of(args, attributes_);
    const A* dy = args.in[0].as<A>();
    A* dx = args.out[0].as<A>();
    parallel_ranges(threads_, args.out[0].shape[0], [&](int64_t first, int64_t last, int) {
      for (int64_t row = first; row < last; ++row) {
        const int64_t i = sequences.of_token(first_token_ + row, rows_);
        const float share = i < 0 ? 0.0f : 1.0f / static_cast<float>(sequences.count(i));
        const A* from = dy + std::max<int64_t>(i, 0) * width_;
        if (i < 0)
          std::fill_n(dx + row * width_, width_, A{});
        else
          write_each(dx + row * width_, width_, [&](int64_t c) { return load(from[c]) * share; });
      }
    });
  }

 private:
  Attributes attributes_;
  int64_t first_token_;
};

}  // namespace

void register_sequences(KernelTable& table) {
  table.add("token_positions",
            [](const OpView& view) -> KernelPointer { return std::make_unique<TokenPositions>(view); });
  add_kernel<MeanTokens>(table, "mean_tokens");
  add_kernel<MeanTokensBackward>(table, "mean_tokens_backward");
}

}  // namespace recollect::cpu
