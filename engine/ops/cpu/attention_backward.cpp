// Attention, backward, on any processor.
#include "engine/ops/cpu/attention_backward.h"

#include "engine/ops/cpu/attention_vectors.h"

namespace recollect::cpu {

namespace {

template <typename A>
class BackwardTiles : public VectorTiles<A> {
  using Base = VectorTiles<A>;
  using Base::keys_, Base::shape_, Base::size_;

 public:
  static constexpr int64_t kKeys = 256;  // with what belongs to them in the second-level cache

  BackwardTiles(const AttentionShape& shape, std::byte* start)
      : Base(shape), row_(std::min(keys_, kKeys) + kVector) {
    Scratch scratch(start);
    const int64_t head = keys_ * size_, strip = Base::kStrip * size_, scores = Base::kStrip * row_;
    for (float** of_head : {&kt_, &vt_, &k_, &dk_, &dv_, &dq_}) *of_head = scratch.take<float>(head);
    for (float** of_strip : {&q_, &dout_}) *of_strip = scratch.take<float>(strip);
    for (float** of_scores : {&p_, &ds_}) *of_scores = scratch.take<float>(scores);
    this->clear(start, scratch);
  }

  void load_keys(const A* k, const A* v, int64_t keys) {
    this->load_keys_as_columns(k, keys, kt_);
    this->load_keys_as_columns(v, keys, vt_);
    this->load_keys_as_rows(k, keys, k_);
    std::fill_n(dk_, whole_panels(keys) * size_, 0.0f);
    std::fill_n(dv_, whole_panels(keys) * size_, 0.0f);
  }
  void load_queries(const A* q, const A* dout, int64_t rows) {
    this->load_rows(q, shape_.q_row, rows, shape_.scale, q_);
    this->load_rows(dout, shape_.out_row, rows, 1.0f, dout_);
  }

  static int64_t whole_rows(int64_t rows) { return rows; }
  void multiply(const Block& block, int64_t key) {
    this->against_panel(block.rows, key, q_, kt_, scores(0, key), row_);
    this->against_panel(block.rows, key, dout_, vt_, score_gradients(0, key), row_);
  }
  float* scores(int64_t row, int64_t key) { return p_ + row * row_ + key % kKeys; }
  float* score_gradients(int64_t row, int64_t key) { return ds_ + row * row_ + key % kKeys; }
  void take_row(int64_t row, int64_t key, int64_t end) {
    for (float* of_panel : {scores(row, key), score_gradients(row, key)})
      std::fill(of_panel + whole_vectors(end), of_panel + kPanel, 0.0f);
  }

  void add_query_gradients(const Block& block, int64_t from, int64_t to, bool more) {
    tile_product(block.rows, size_, whole_panels(to) - from, score_gradients(0, from), row_, 1,
                 k_ + from * size_, size_, dq_ + block.query * size_, size_, more);
  }
  Sums query_gradients(const Block& block, int64_t) { return {dq_ + block.query * size_, size_}; }
  void add_key_gradients(int64_t rows, int64_t from, int64_t to) {
    const int64_t whole = whole_panels(to) - from, at = from * size_;
    tile_product(whole, size_, rows, scores(0, from), 1, row_, dout_, size_, dv_ + at, size_, true);
    tile_product(whole, size_, rows, score_gradients(0, from), 1, row_, q_, size_, dk_ + at, size_, true);
  }
  void store_key_gradients(A* dk, A* dv, int64_t keys) const {
    store_rows(dk_, keys, dk);
    store_rows(dv_, keys, dv);
  }

 private:
  void store_rows(const float* from, int64_t rows, A* to) const {
    for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
      for (int64_t c = 0; c < shape_.head_size; ++c) store(to + i * shape_.kv_row + c, from[i * size_ + c]);
  }

  float *kt_ = nullptr, *vt_ = nullptr;  // transposed, in panels
  float *k_ = nullptr, *dk_ = nullptr, *dv_ = nullptr, *q_ = nullptr, *dout_ = nullptr, *dq_ = nullptr;
  float *p_ = nullptr, *ds_ = nullptr;  // [kStrip, row_]
  int64_t row_;                         // from one row of either to the next
};

KernelPointer make_attention_backward(const OpView& view) {
  if (KernelPointer kernel = make_amx_attention_backward(view)) return kernel;
  return with_activation_type(view.in(0).dtype, "attention_backward", [&]<typename A>() -> KernelPointer {
    return std::make_unique<AttentionBackward<BackwardTiles<A>>>(view);
  });
}

}  // namespace

void register_attention_backward(KernelTable& table) {
  table.add("attention_backward", make_attention_backward);
}

}  // namespace recollect::cpu
