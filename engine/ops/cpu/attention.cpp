// Attention, forward, on any processor.
#include "engine/ops/cpu/attention.h"

#include "engine/ops/cpu/attention_vectors.h"

namespace recollect::cpu {

namespace {

template <typename A>
class ForwardTiles : public VectorTiles<A> {
  using Base = VectorTiles<A>;
  using Base::keys_, Base::shape_, Base::size_;

 public:
  ForwardTiles(const AttentionShape& shape, std::byte* start) : Base(shape), row_(keys_ + kVector) {
    Scratch scratch(start);
    k_ = scratch.take<float>(keys_ * size_);
    v_ = scratch.take<float>(keys_ * size_);
    q_ = scratch.take<float>(Base::kStrip * size_);
    o_ = scratch.take<float>(Base::kStrip * size_);
    p_ = scratch.take<float>(Base::kStrip * row_);
    this->clear(start, scratch);
  }

  void load_keys(const A* k, const A* v, int64_t keys) {
    this->load_keys_as_columns(k, keys, k_);
    this->load_keys_as_rows(v, keys, v_);
  }
  void load_queries(const A* q, int64_t rows) { this->load_rows(q, shape_.q_row, rows, shape_.scale, q_); }

  void multiply(const Block& block) {
    for (int64_t key = block.from; key < block.keys; key += kPanel)
      this->against_panel(block.rows, key, q_, k_, p_ + key, row_);
  }
  float* scores(int64_t row) { return p_ + row * row_; }
  void take_probabilities(const Block& block, int64_t row, int64_t end) {
    std::fill(scores(row) + whole_vectors(end), scores(row) + whole_panels(block.keys), 0.0f);
  }

  Sums outputs(const Block& block, int64_t) {
    tile_product(block.rows, size_, whole_panels(block.keys) - block.from, p_ + block.from, row_, 1,
                 v_ + block.from * size_, size_, o_, size_, false);
    return {o_, size_};
  }

 private:
  float *k_, *v_, *q_, *o_, *p_;
  int64_t row_;  // from one row of scores to the next
};

KernelPointer make_attention(const OpView& view) {
  if (KernelPointer kernel = make_amx_attention(view)) return kernel;
  return with_activation_type(view.in(0).dtype, "attention", [&]<typename A>() -> KernelPointer {
    return std::make_unique<Attention<ForwardTiles<A>>>(view);
  });
}

}  // namespace

void register_attention(KernelTable& table) { table.add("attention", make_attention); }

}  // namespace recollect::cpu
