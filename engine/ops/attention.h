// The sizes of attention and the places of its numbers, read from an op once for its definition and for the
// kernels of every backend. A unit is one query head of one sample: unit = sample * heads + head. A kv unit
// is a key/value head of one sample: kv_unit = sample * kv_heads + head; consecutive query heads share it.
//
// Several sequences may stand back to back in one sample, and attend none but their own tokens. What says
// where they are is the position of every token in its sequence, as Transformers' `position_ids` and its
// flash attention have it: a sequence begins where a position is 0. So the shapes of a program know neither
// how many sequences there are nor how long they are, and the work follows the sum of their squared lengths.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "engine/core/host_device.h"
#include "engine/graph/op_def.h"
#include "engine/runtime/kernel.h"

namespace recollect {

// Where they stand among the inputs of either op; all but q may be absent.
struct AttentionInputs {
  int q, kv, lengths, positions;
};
inline constexpr AttentionInputs kAttentionInputs{0, 1, 2, 3}, kAttentionBackwardInputs{1, 4, 5, 6};

// An attribute of either op, and of both or neither of a pair: backward is to take little memory, and more time
// (cuda/attention_chunks.h). It is a matter of a program, not of a plan: the bits of gradients differ with it.
inline constexpr const char* kKeysInOrder = "keys_in_order";

// Optional attributes. A query i sees only keys j with |i - j| < window; scores become cap * tanh(score / cap);
// scores are multiplied by scale instead of 1 / sqrt(head_size).
inline constexpr const char *kWindow = "window", *kScoreCap = "score_cap", *kScoreScale = "score_scale";
inline constexpr int64_t kNoWindow = int64_t{1} << 30;  // more than any sequence has tokens

inline double score_scale(const Attributes& attributes) {
  return attributes.has(kScoreScale) ? attributes.real(kScoreScale)
                                     : 1 / std::sqrt(static_cast<double>(attributes.integer("head_size")));
}
inline double score_cap(const Attributes& attributes) {
  return attributes.has(kScoreCap) ? attributes.real(kScoreCap) : 0;
}

// Tokens of a sample that follow each other and are attended by none but themselves: all of them, or a
// sequence of several. Queries and keys are numbered from its first token on.
struct AttentionSegment {
  int64_t sample, first, tokens;
  int64_t keys;  // that count, the first ones; 0: the tokens are padding, which has zeros as outputs
};

struct AttentionShape {
  // `joined`: k and v stand in the rows of q.
  AttentionShape(const Attributes& attributes, int64_t tokens, bool joined)
      : heads(attributes.integer("heads")),
        kv_heads(attributes.integer("kv_heads")),
        kv_group(attributes.integer("kv_group")),
        head_size(attributes.integer("head_size")),
        length(attributes.integer("sequence_length")),
        first_head(attributes.integer("first_head")),
        all_heads(attributes.integer("all_heads")),
        causal(attributes.integer("causal") != 0),
        window(attributes.has(kWindow) ? attributes.integer(kWindow) : kNoWindow),
        samples(tokens / length),
        out_row(heads * head_size),
        q_row(out_row + (joined ? 2 * kv_heads * head_size : 0)),
        kv_row(joined ? q_row : 2 * kv_heads * head_size),
        first_key(joined ? out_row : 0),
        scale(static_cast<float>(score_scale(attributes))),
        cap(static_cast<float>(score_cap(attributes))) {}
  AttentionShape(const OpView& view, const AttentionInputs& at)
      : AttentionShape(view.attributes(), view.in(at.q).shape[0], !view.has_input(at.kv)) {}

  RECOLLECT_HOST_DEVICE int64_t units() const { return samples * heads; }
  RECOLLECT_HOST_DEVICE int64_t kv_units() const { return samples * kv_heads; }
  RECOLLECT_HOST_DEVICE int64_t unit(int64_t sample, int64_t head) const { return sample * heads + head; }
  RECOLLECT_HOST_DEVICE int64_t kv_unit(int64_t unit) const {
    return unit / heads * kv_heads + (first_head + unit % heads) / kv_group - first_head / kv_group;
  }
  // The units of a kv unit: from here to that of the next one.
  RECOLLECT_HOST_DEVICE int64_t group_begin(int64_t kv_unit) const {
    const int64_t head = (first_head / kv_group + kv_unit % kv_heads) * kv_group - first_head;
    return unit(kv_unit / kv_heads, head > 0 ? head : 0);
  }
  // All groups of this rank have the same number of its heads.
  bool whole_groups() const { return kv_heads == 1 || (first_head % kv_group == 0 && heads % kv_group == 0); }

  // The number of a sample's keys that count; a query sees those in [first_seen(), seen()). Both never
  // decrease from one query to the next. A padding query sees what the query of the last key sees.
  RECOLLECT_HOST_DEVICE int64_t keys(const int32_t* lengths, int64_t sample) const {
    return lengths ? lengths[sample] : length;
  }
  RECOLLECT_HOST_DEVICE int64_t seen(int64_t query, int64_t keys) const {
    if (causal) return query < keys ? query + 1 : keys;
    return query + window < keys ? query + window : keys;
  }
  RECOLLECT_HOST_DEVICE int64_t first_seen(int64_t query, int64_t keys) const {
    const int64_t last = query < keys ? query : keys - 1;
    return last < window ? 0 : last - window + 1;
  }
  // Queries [first, end) that see a key that counts; `tokens` is the number of queries.
  RECOLLECT_HOST_DEVICE int64_t first_query(int64_t key) const {
    if (causal) return key;
    return key < window ? 0 : key - window + 1;
  }
  RECOLLECT_HOST_DEVICE int64_t end_of_queries(int64_t key, int64_t keys, int64_t tokens) const {
    return key + window < keys ? key + window : tokens;
  }
  // The number of pairs of a query and a key that it sees.
  int64_t pairs(int64_t tokens, int64_t keys) const {
    const auto triangle = [](int64_t n) { return n > 0 ? n * (n + 1) / 2 : 0; };
    const int64_t hidden = triangle(keys - window), of_padding = (tokens - keys) * std::min(keys, window);
    return (causal ? triangle(keys) - hidden : keys * keys - 2 * hidden) + of_padding;
  }

  // Where q or the output of a unit begins, and k or v of a kv unit.
  RECOLLECT_HOST_DEVICE int64_t q_at(int64_t unit) const {
    return unit / heads * length * q_row + unit % heads * head_size;
  }
  RECOLLECT_HOST_DEVICE int64_t out_at(int64_t unit) const {
    return unit / heads * length * out_row + unit % heads * head_size;
  }
  RECOLLECT_HOST_DEVICE int64_t k_at(int64_t kv_unit) const {
    return kv_unit / kv_heads * length * kv_row + first_key + kv_unit % kv_heads * head_size;
  }
  RECOLLECT_HOST_DEVICE int64_t v_at(int64_t kv_unit) const { return k_at(kv_unit) + kv_heads * head_size; }

  // The dropout index of (query, key 0): as if all samples were as long as the longest of the run.
  RECOLLECT_HOST_DEVICE uint64_t probability_at(const RunState& state, int64_t unit, int64_t query) const {
    const int64_t head = (state.first_sample + unit / heads) * all_heads + first_head + unit % heads;
    return (static_cast<uint64_t>(head) * state.token_stride + query) * state.token_stride;
  }

  int64_t heads, kv_heads;        // of this rank
  int64_t kv_group;               // query heads that share a key/value head
  int64_t head_size, length;      // length: tokens of a sample
  int64_t first_head, all_heads;  // the heads' place among those of all ranks
  bool causal;                    // a query sees no later key
  int64_t window;                 // nor keys at this distance or farther
  int64_t samples;
  int64_t out_row, q_row, kv_row;  // from one token to the next
  int64_t first_key;               // of a token's k | v
  float scale;                     // of scores
  float cap;                       // of scores; 0: no cap
};

// Whether no library for GPUs computes it: capped scores, several sequences in a sample, and a window in padded samples, where
// some queries would see no key. Our own kernels do, in fp32 without tensor cores.
inline bool needs_own_attention(const OpView& view, const AttentionInputs& at) {
  const AttentionShape shape(view, at);
  return shape.cap != 0 || view.has_input(at.positions) ||
         (shape.window < shape.length && view.has_input(at.lengths));
}

// The token that a token's sequence begins with; -1 for padding. `positions` are of its sample, or null.
RECOLLECT_HOST_DEVICE inline int64_t segment_begin(const int32_t* positions, int64_t token) {
  if (!positions) return 0;
  return positions[token] < 0 ? -1 : token - positions[token];
}

// What a run reads or, of gradients, writes: k and v stand in the rows of q, or in rows of their own.
struct AttentionRows {
  AttentionRows(std::span<const Tensor> tensors, int q_at, int kv_at)
      : q(tensors[q_at]),
        kv(static_cast<std::size_t>(kv_at) < tensors.size() && tensors[kv_at].defined() ? tensors[kv_at]
                                                                                        : q) {}
  AttentionRows(std::span<const Tensor> in, const AttentionInputs& at) : AttentionRows(in, at.q, at.kv) {
    lengths = words(in, at.lengths);
    positions = words(in, at.positions);
  }

  Tensor q, kv;
  const int32_t* lengths = nullptr;    // by sample; null: all keys count
  const int32_t* positions = nullptr;  // [samples, length]; null: a sample is one sequence

 private:
  static const int32_t* words(std::span<const Tensor> in, int at) {
    const bool there = static_cast<std::size_t>(at) < in.size() && in[at].defined();
    return there ? in[at].as<int32_t>() : nullptr;
  }
};

// f(segment) for all of them, sample by sample. Tokens of padding that follow each other are one.
template <typename F>
void for_each_segment(const AttentionShape& shape, const AttentionRows& rows, F f) {
  for (int64_t sample = 0; sample < shape.samples; ++sample) {
    if (!rows.positions) {
      f(AttentionSegment{sample, 0, shape.length, shape.keys(rows.lengths, sample)});
      continue;
    }
    const int32_t* positions = rows.positions + sample * shape.length;
    for (int64_t first = 0, end = 0; first < shape.length; first = end) {
      const bool padding = positions[first] < 0;
      for (++end; end < shape.length && (padding ? positions[end] < 0 : positions[end] > 0);) ++end;
      f(AttentionSegment{sample, first, end - first, padding ? 0 : end - first});
    }
  }
}

}  // namespace recollect
