// Attention, forward, in bf16 on AMX.
#include "engine/ops/cpu/attention_amx.h"

namespace recollect::cpu {

#ifdef RECOLLECT_AMX

namespace {

class AmxForwardTiles : public AmxTiles {
 public:
  static constexpr int64_t kStrip = 64;

  AmxForwardTiles(const AttentionShape& shape, std::byte* start)
      : AmxTiles(shape), score_row_(keys_ + 16), probability_row_(keys_ + 32) {
    Scratch scratch(start);
    k_ = scratch.take<bf16>(keys_ * size_);
    v_ = scratch.take<bf16>(keys_ * size_);
    q_ = scratch.take<bf16>(kStrip * size_);
    scores_ = scratch.take<float>(kStrip * score_row_);
    probabilities_.high = scratch.take<bf16>(kStrip * probability_row_);
    probabilities_.low = scratch.take<bf16>(kStrip * probability_row_);
    bytes_ = scratch.used();
  }

  void load_keys(const bf16* k, const bf16* v, int64_t keys) {
    pack_by_key(k, keys, k_);
    pack_by_size(v, keys, v_);
  }
  void load_queries(const bf16* q, int64_t rows) { copy_rows(q, shape_.q_row, rows, q_); }

  void multiply(const Block& block) {
    for (int64_t j = block.from / kBlock; j < blocks(block.keys); ++j) {
      amx::clear_sums();
      amx::multiply_rows(q_ + block.at * size_, size_, k_ + j * kBlock * size_, sizes_);
      amx::store_sums(scores(block.at) + j * kBlock, score_row_);
    }
  }
  float* scores(int64_t row) { return scores_ + row * score_row_; }
  void take_probabilities(const Block& block, int64_t row, int64_t end) {
    const Parts parts = probabilities_.from(row * probability_row_ + block.from);
    const int64_t stored = whole_vectors(end) - block.from;
    store_parts(scores(row) + block.from, stored, parts.high, parts.low);
    parts.clear(stored, blocks(block.keys) * kBlock - block.from);
  }

  Sums outputs(const Block& block, int64_t c) {
    return multiply_parts(probabilities_.from(block.at * probability_row_ + block.from), probability_row_,
                          v_ + c * keys_ + block.from * kBlock, blocks(block.keys) - block.from / kBlock);
  }

 private:
  bf16 *k_, *v_, *q_;
  float* scores_;
  Parts probabilities_;
  int64_t score_row_, probability_row_;  // from one row to the next
};

}  // namespace

KernelPointer make_amx_attention(const OpView& view) {
  if (view.in(0).dtype != DType::kBF16 || !amx::available()) return nullptr;
  return std::make_unique<Attention<AmxForwardTiles>>(view);
}

#else

KernelPointer make_amx_attention(const OpView&) { return nullptr; }

#endif

}  // namespace recollect::cpu
