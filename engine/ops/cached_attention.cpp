// Attention of a sequence's new tokens, whose keys and values join those of all earlier ones in a cache. How far
// the cache is filled is an input, so that one program serves every token.
#include "engine/ops/cached_attention.h"

#include "engine/ops/define.h"

namespace recollect::ops {

namespace {

AttentionShape checked_cached_shape(const OpView& v) {
  const Value &q = v.in(kCachedAttentionInputs.q), &filled = v.in(kFilledInput);
  for (const char* positive : {"sequence_length", "heads", "head_size", "kv_heads", "kv_group"})
    check(v.attributes().integer(positive) > 0, v, std::string(positive) + " is not positive");
  const AttentionShape shape(v, kCachedAttentionInputs);
  check(shape.causal, v, "a query sees no later token");
  check(shape.window > 0 && shape.cap >= 0, v, "a window and a cap of scores are positive");
  check(q.shape.rank() == 2 && q.shape[1] == shape.q_row && q.shape[0] % shape.length == 0, v,
        "q is [tokens, its heads], or also those of k and v, of whole sequences");
  check(shape.kv_unit(shape.heads - 1) == shape.kv_heads - 1, v,
        "kv_heads is the number of groups that this rank's heads belong to");
  if (v.has_input(kCachedAttentionInputs.kv)) {
    check_shape(v, v.in(kCachedAttentionInputs.kv), {q.shape[0], shape.kv_row});
    check(v.in(kCachedAttentionInputs.kv).dtype == q.dtype, v, "q and kv have one dtype");
  }
  check(filled.dtype == DType::kI32 && filled.shape == Shape{2}, v, "filled is [2] i32");
  check(v.op.outputs.size() == 3, v, "the caches are given");
  return shape;
}

std::vector<OutputSpec> infer_cached(const OpView& v) {
  const Value& q = v.in(0);
  const AttentionShape shape = checked_cached_shape(v);
  const int64_t capacity = v.out(1).shape.rank() == 3 ? v.out(1).shape[1] : 0;
  check(capacity > 0, v, "a cache is [samples * kv_heads, capacity, head_size]");
  const Shape cache{shape.kv_units(), capacity, shape.head_size};
  return {{.shape = {q.shape[0], shape.out_row}, .dtype = q.dtype, .placement = q.placement},
          {.shape = cache, .dtype = q.dtype, .suffix = "keys", .placement = q.placement},
          {.shape = cache, .dtype = q.dtype, .suffix = "values", .placement = q.placement}};
}

// How far the cache is filled is not known before a run: as if by half.
Cost cached_cost(const OpView& v) {
  const AttentionShape shape = checked_cached_shape(v);
  const double keys = std::min(static_cast<double>(v.out(1).shape[1]) / 2, static_cast<double>(shape.window));
  return {.flops = 4 * static_cast<double>(v.in(0).shape[0] * shape.out_row) * keys,
          .bytes = static_cast<double>(v.in(0).bytes() + v.out(0).bytes()) +
                   2 * keys * static_cast<double>(shape.kv_units() * shape.head_size) *
                       static_cast<double>(size_of(v.in(0).dtype)),
          .pieces = static_cast<double>(shape.units())};
}

}  // namespace

void register_cached_attention(OpRegistry& registry) {
  registry.add({.name = "cached_attention",
                .infer = infer_cached,
                .cost = cached_cost,
                .unit = Unit::kAttention,
                .group = "attention"});
}

}  // namespace recollect::ops
