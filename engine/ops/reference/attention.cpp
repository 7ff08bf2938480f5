// Causal attention, one row of scores at a time: memory grows with the sequence, never with its square.
// Backward computes the probabilities again from lse, once along queries (for dq) and once along keys (for dk
// and dv).
#include "engine/ops/attention.h"

#include <cmath>

#include "engine/ops/reference/dropout_mask.h"
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

// One head of one sample: where its rows lie, its scores and its dropout.
template <typename T>
class Head {
 public:
  Head(const KernelArgs& args, const Attributes& attributes, const AttentionShape& shape, const T* qkv,
       int64_t unit)
      : mask_(attributes, *args.state),
        state_(*args.state),
        shape_(shape),
        unit_(unit),
        qkv_(qkv),
        begin_{shape.qkv_at(unit, 0), shape.qkv_at(unit, 1), shape.qkv_at(unit, 2)},
        out_begin_(shape.out_at(unit)) {}

  // Element numbers in qkv (part 0 is q, 1 is k, 2 is v) and in o.
  int64_t at(int part, int64_t token, int64_t c) const { return begin_[part] + token * shape_.qkv_row() + c; }
  int64_t at_output(int64_t token, int64_t c) const { return out_begin_ + token * shape_.out_row() + c; }

  double q(int64_t token, int64_t c) const { return qkv_[at(0, token, c)]; }
  double k(int64_t token, int64_t c) const { return qkv_[at(1, token, c)]; }
  double v(int64_t token, int64_t c) const { return qkv_[at(2, token, c)]; }
  double scale() const { return 1 / std::sqrt(double(shape_.head_size)); }

  double score(int64_t query, int64_t key) const {
    double sum = 0;
    for (int64_t c = 0; c < shape_.head_size; ++c) sum += q(query, c) * k(key, c);
    return sum * scale();
  }

  double dropout(double value, int64_t query, int64_t key) const {
    return mask_.apply(value, shape_.probability_at(state_, unit_, query) + key);
  }

 private:
  DropoutMask mask_;
  const RunState& state_;
  const AttentionShape& shape_;
  int64_t unit_;
  const T* qkv_;
  int64_t begin_[3], out_begin_;
};

std::size_t forward_workspace(const OpView& view) {
  return view.attributes().integer("sequence_length") * sizeof(double);
}

template <typename T>
void attention(const KernelArgs& args, const Attributes& attributes) {
  const T* qkv = args.in[0].as<T>();
  T* o = args.out[0].as<T>();
  T* lse = args.out[1].as<T>();
  const AttentionShape shape(attributes, args.in[0].shape[0]);
  const int64_t size = shape.head_size, length = shape.length;
  double* probability = reinterpret_cast<double*>(args.workspace);
  for (int64_t unit = 0; unit < shape.units(); ++unit) {
    const Head<T> head(args, attributes, shape, qkv, unit);
    for (int64_t query = 0; query < length; ++query) {
      double max = -INFINITY, sum = 0;
      for (int64_t key = 0; key <= query; ++key) {
        probability[key] = head.score(query, key);
        max = std::fmax(max, probability[key]);
      }
      for (int64_t key = 0; key <= query; ++key) sum += std::exp(probability[key] - max);
      const double row_lse = max + std::log(sum);
      for (int64_t key = 0; key <= query; ++key)
        probability[key] = head.dropout(std::exp(probability[key] - row_lse), query, key);
      for (int64_t c = 0; c < size; ++c) {
        double value = 0;
        for (int64_t key = 0; key <= query; ++key) value += probability[key] * head.v(key, c);
        o[head.at_output(query, c)] = static_cast<T>(value);
      }
      lse[unit * length + query] = static_cast<T>(row_lse);
    }
  }
}

std::size_t backward_workspace(const OpView& view) { return 3 * forward_workspace(view); }

// With P the probabilities, D dropout and dP = D(do v'): dscore = P * (dP - delta), where delta, the sum of P
// * dP over a row, equals do . o.
template <typename T>
struct Backward {
  const Head<T>& head;
  const T* d_o;
  const T* lse;  // of this head
  int64_t length, size;
  double* delta;    // [length], by query
  double* dropped;  // [length], probabilities after dropout
  double* dscore;   // [length]

  // Fills dropped[at] and dscore[at] for one pair of query and key.
  void pair(int64_t query, int64_t key, int64_t at) const {
    double d_probability = 0;
    for (int64_t c = 0; c < size; ++c) d_probability += d_o[head.at_output(query, c)] * head.v(key, c);
    const double probability = std::exp(head.score(query, key) - lse[query]);
    dropped[at] = head.dropout(probability, query, key);
    dscore[at] = probability * (head.dropout(d_probability, query, key) - delta[query]) * head.scale();
  }

  void along_queries(T* dqkv) const {
    for (int64_t query = 0; query < length; ++query) {
      for (int64_t key = 0; key <= query; ++key) pair(query, key, key);
      for (int64_t c = 0; c < size; ++c) {
        double dq = 0;
        for (int64_t key = 0; key <= query; ++key) dq += dscore[key] * head.k(key, c);
        dqkv[head.at(0, query, c)] = static_cast<T>(dq);
      }
    }
  }

  void along_keys(T* dqkv) const {
    for (int64_t key = 0; key < length; ++key) {
      for (int64_t query = key; query < length; ++query) pair(query, key, query);
      for (int64_t c = 0; c < size; ++c) {
        double dk = 0, dv = 0;
        for (int64_t query = key; query < length; ++query) {
          dk += dscore[query] * head.q(query, c);
          dv += dropped[query] * d_o[head.at_output(query, c)];
        }
        dqkv[head.at(1, key, c)] = static_cast<T>(dk);
        dqkv[head.at(2, key, c)] = static_cast<T>(dv);
      }
    }
  }
};

template <typename T>
void attention_backward(const KernelArgs& args, const Attributes& attributes) {
  const T* d_o = args.in[0].as<T>();
  const T* o = args.in[2].as<T>();
  T* dqkv = args.out[0].as<T>();
  const AttentionShape shape(attributes, args.in[0].shape[0]);
  const int64_t size = shape.head_size, length = shape.length;
  double* delta = reinterpret_cast<double*>(args.workspace);
  for (int64_t unit = 0; unit < shape.units(); ++unit) {
    const Head<T> head(args, attributes, shape, args.in[1].as<T>(), unit);
    for (int64_t query = 0; query < length; ++query) {
      delta[query] = 0;
      for (int64_t c = 0; c < size; ++c)
        delta[query] += double(d_o[head.at_output(query, c)]) * o[head.at_output(query, c)];
    }
    const Backward<T> backward{head,
                               d_o,
                               args.in[3].as<T>() + unit * length,
                               length,
                               size,
                               delta,
                               delta + length,
                               delta + 2 * length};
    backward.along_queries(dqkv);
    backward.along_keys(dqkv);
  }
}

}  // namespace

void register_attention(KernelTable& table) {
  add_kernel(table, "attention", attention<double>, attention<float>, forward_workspace);
  add_kernel(table, "attention_backward", attention_backward<double>, attention_backward<float>,
             backward_workspace);
}

}  // namespace recollect::reference
