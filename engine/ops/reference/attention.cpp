// Attention, one row of scores at a time: memory grows with the sequence, never with its square. Backward
// computes the probabilities again from lse, once along queries (for dq) and once along keys (for dk and dv,
// which are sums over the query heads that share them).
#include "engine/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/reference/dropout_mask.h"
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

struct AttentionRun {
  AttentionRun(const KernelArgs& args, const Attributes& attributes, const AttentionInputs& at)
      : rows(args.in, at),
        shape(attributes, rows.q.shape[0], rows.kv.data == rows.q.data),
        mask(attributes, *args.state),
        state(*args.state),
        scale(score_scale(attributes)),
        cap(score_cap(attributes)) {}

  AttentionRows rows;
  AttentionShape shape;
  DropoutMask mask;
  const RunState& state;
  double scale, cap;
};

// One query head of one segment: where its rows lie, its scores and its dropout.
template <typename T>
class Head {
 public:
  Head(const AttentionRun& run, const AttentionSegment& segment, int64_t unit)
      : run_(run),
        shape_(run.shape),
        segment_(segment),
        unit_(unit),
        q_(run.rows.q.as<T>()),
        kv_(run.rows.kv.as<T>()),
        q_begin_(shape_.q_at(unit) + segment.first * shape_.q_row),
        k_begin_(shape_.k_at(shape_.kv_unit(unit)) + segment.first * shape_.kv_row),
        v_begin_(shape_.v_at(shape_.kv_unit(unit)) + segment.first * shape_.kv_row),
        out_begin_(shape_.out_at(unit) + segment.first * shape_.out_row) {}

  // Element numbers in what holds q, in what holds k and v, and in o.
  int64_t at_q(int64_t token, int64_t c) const { return q_begin_ + token * shape_.q_row + c; }
  int64_t at_k(int64_t token, int64_t c) const { return k_begin_ + token * shape_.kv_row + c; }
  int64_t at_v(int64_t token, int64_t c) const { return v_begin_ + token * shape_.kv_row + c; }
  int64_t at_output(int64_t token, int64_t c) const { return out_begin_ + token * shape_.out_row + c; }

  double q(int64_t token, int64_t c) const { return q_[at_q(token, c)]; }
  double k(int64_t token, int64_t c) const { return kv_[at_k(token, c)]; }
  double v(int64_t token, int64_t c) const { return kv_[at_v(token, c)]; }

  // A query sees keys [first_seen, seen).
  int64_t first_seen(int64_t query) const { return shape_.first_seen(query, segment_.keys); }
  int64_t seen(int64_t query) const { return shape_.seen(query, segment_.keys); }
  // Queries [first, end) see a key; none does if first >= end.
  int64_t first_query(int64_t key) const {
    return key >= segment_.keys ? segment_.tokens : shape_.first_query(key);
  }
  int64_t end_of_queries(int64_t key) const {
    return shape_.end_of_queries(key, segment_.keys, segment_.tokens);
  }

  double score(int64_t query, int64_t key) const {
    double sum = 0;
    for (int64_t c = 0; c < shape_.head_size; ++c) sum += q(query, c) * k(key, c);
    sum *= run_.scale;
    return run_.cap > 0 ? run_.cap * std::tanh(sum / run_.cap) : sum;
  }
  // The derivative of a score with respect to q . k.
  double score_slope(double score) const {
    return run_.cap > 0 ? run_.scale * (1 - score / run_.cap * (score / run_.cap)) : run_.scale;
  }

  double dropout(double value, int64_t query, int64_t key) const {
    const int64_t first = segment_.first;
    return run_.mask.apply(value, shape_.probability_at(run_.state, unit_, first + query) + first + key);
  }

 private:
  const AttentionRun& run_;
  const AttentionShape& shape_;
  const AttentionSegment& segment_;
  int64_t unit_;
  const T *q_, *kv_;
  int64_t q_begin_, k_begin_, v_begin_, out_begin_;
};

std::size_t forward_workspace(const OpView& view) {
  return view.attributes().integer("sequence_length") * sizeof(double);
}

// `lse` is that of the segment's first token.
template <typename T>
void attend(const Head<T>& head, const AttentionSegment& segment, int64_t size, double* probability, T* o,
            T* lse) {
  for (int64_t query = 0; query < segment.tokens; ++query) {
    const int64_t first = head.first_seen(query), seen = head.seen(query);
    double max = -INFINITY, sum = 0;
    for (int64_t key = first; key < seen; ++key) {
      probability[key] = head.score(query, key);
      max = std::fmax(max, probability[key]);
    }
    for (int64_t key = first; key < seen; ++key) sum += std::exp(probability[key] - max);
    const double row_lse = seen > 0 ? max + std::log(sum) : 0;
    for (int64_t key = first; key < seen; ++key)
      probability[key] = head.dropout(std::exp(probability[key] - row_lse), query, key);
    for (int64_t c = 0; c < size; ++c) {
      double value = 0;
      for (int64_t key = first; key < seen; ++key) value += probability[key] * head.v(key, c);
      o[head.at_output(query, c)] = static_cast<T>(value);
    }
    lse[query] = static_cast<T>(row_lse);
  }
}

template <typename T>
void attention(const KernelArgs& args, const Attributes& attributes) {
  const AttentionRun run(args, attributes, kAttentionInputs);
  const AttentionShape& shape = run.shape;
  for_each_segment(shape, run.rows, [&](const AttentionSegment& segment) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      const int64_t unit = shape.unit(segment.sample, h);
      attend(Head<T>(run, segment, unit), segment, shape.head_size, reinterpret_cast<double*>(args.workspace),
             args.out[0].as<T>(), args.out[1].as<T>() + unit * shape.length + segment.first);
    }
  });
}

// Of every head of a group, three rows of numbers.
std::size_t backward_workspace(const OpView& view) {
  const Attributes& a = view.attributes();
  return std::min(a.integer("kv_group"), a.integer("heads")) * 3 * forward_workspace(view);
}

// With P the probabilities, D dropout and dP = D(do v'): dscore = P * (dP - delta), where delta, the sum of P
// * dP over a row, equals do . o.
template <typename T>
struct Backward {
  Backward(const KernelArgs& args, const AttentionRun& run, const AttentionSegment& segment, int64_t unit)
      : head(run, segment, unit),
        d_o(args.in[0].as<T>()),
        lse(args.in[3].as<T>() + unit * run.shape.length + segment.first),
        length(segment.tokens),
        size(run.shape.head_size) {
    const int64_t in_group = unit - run.shape.group_begin(run.shape.kv_unit(unit));
    delta = reinterpret_cast<double*>(args.workspace) + in_group * 3 * length;
    dropped = delta + length;
    dscore = dropped + length;
  }

  Head<T> head;
  const T* d_o;
  const T* lse;          // of this head
  int64_t length, size;  // length: the segment's tokens
  double* delta;         // [length], by query
  double* dropped;       // [length], probabilities after dropout
  double* dscore;        // [length]

  void make_delta(const T* o) const {
    for (int64_t query = 0; query < length; ++query) {
      delta[query] = 0;
      for (int64_t c = 0; c < size; ++c)
        delta[query] += double(d_o[head.at_output(query, c)]) * o[head.at_output(query, c)];
    }
  }

  // Fills dropped[at] and dscore[at] for one pair of query and key.
  void pair(int64_t query, int64_t key, int64_t at) const {
    double d_probability = 0;
    for (int64_t c = 0; c < size; ++c) d_probability += d_o[head.at_output(query, c)] * head.v(key, c);
    const double score = head.score(query, key), probability = std::exp(score - lse[query]);
    dropped[at] = head.dropout(probability, query, key);
    dscore[at] =
        probability * (head.dropout(d_probability, query, key) - delta[query]) * head.score_slope(score);
  }

  void along_keys(T* dq_rows) const {
    for (int64_t query = 0; query < length; ++query) {
      const int64_t first = head.first_seen(query), seen = head.seen(query);
      for (int64_t key = first; key < seen; ++key) pair(query, key, key);
      for (int64_t c = 0; c < size; ++c) {
        double dq = 0;
        for (int64_t key = first; key < seen; ++key) dq += dscore[key] * head.k(key, c);
        dq_rows[head.at_q(query, c)] = static_cast<T>(dq);
      }
    }
  }

  void along_queries_of(int64_t key) const {
    const int64_t end = head.end_of_queries(key);
    for (int64_t query = head.first_query(key); query < end; ++query) pair(query, key, query);
  }

  // Of column c of dk and dv, over this head and the following ones of its group, whose rows follow its own.
  void add_heads(int64_t heads, int64_t key, int64_t c, double& dk, double& dv) const {
    const int64_t end = head.end_of_queries(key);
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t query = head.first_query(key); query < end; ++query) {
        dk += dscore[h * 3 * length + query] * head.q(query, h * size + c);
        dv += dropped[h * 3 * length + query] * d_o[head.at_output(query, h * size + c)];
      }
  }
};

// A key/value head of one segment, with all query heads that share it.
template <typename T>
void backward_of_group(const KernelArgs& args, const AttentionRun& run, const AttentionSegment& segment,
                       int64_t kv_unit) {
  const AttentionShape& shape = run.shape;
  const AttentionRows gradients(args.out, 0, 1);
  T *dq = gradients.q.as<T>(), *dkv = gradients.kv.as<T>();
  const int64_t first = shape.group_begin(kv_unit), end = shape.group_begin(kv_unit + 1);
  for (int64_t unit = first; unit < end; ++unit) {
    const Backward<T> backward(args, run, segment, unit);
    backward.make_delta(args.in[2].as<T>());
    backward.along_keys(dq);
  }
  const Backward<T> group(args, run, segment, first);
  for (int64_t key = 0; key < segment.tokens; ++key) {
    for (int64_t unit = first; unit < end; ++unit)
      Backward<T>(args, run, segment, unit).along_queries_of(key);
    for (int64_t c = 0; c < shape.head_size; ++c) {
      double dk = 0, dv = 0;
      group.add_heads(end - first, key, c, dk, dv);
      dkv[group.head.at_k(key, c)] = static_cast<T>(dk);
      dkv[group.head.at_v(key, c)] = static_cast<T>(dv);
    }
  }
}

template <typename T>
void attention_backward(const KernelArgs& args, const Attributes& attributes) {
  const AttentionRun run(args, attributes, kAttentionBackwardInputs);
  for_each_segment(run.shape, run.rows, [&](const AttentionSegment& segment) {
    for (int64_t h = 0; h < run.shape.kv_heads; ++h)
      backward_of_group<T>(args, run, segment, segment.sample * run.shape.kv_heads + h);
  });
}

}  // namespace

void register_attention(KernelTable& table) {
  add_kernel(table, "attention", attention<double>, attention<float>, forward_workspace);
  add_kernel(table, "attention_backward", attention_backward<double>, attention_backward<float>,
             backward_workspace);
}

}  // namespace recollect::reference
