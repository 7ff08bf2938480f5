// Queries, keys and values before attention: projections, norms of single heads, and rotary positions.
#include <algorithm>

#include "engine/core/statistics_dtype.h"
#include "parallel/layers.h"

namespace recollect {

ValueId LayerBuilder::rotary_table(const std::string& name, const RotaryOptions& o, ValueId positions) {
  const bool by_length = o.scaling == "dynamic" || o.scaling == "longrope";
  if (by_length && positions != kNone && sequence_length_ > o.original_positions)
    throw Error(ExitCode::kConfiguration,
                path(name) + ": rotary positions of type " + o.scaling +
                    " depend on how long a sequence is, and " + std::to_string(sequence_length_) +
                    " packed tokens may be one or many",
                "do not pack, or take at most " + std::to_string(o.original_positions) + " tokens");
  Attributes attributes{{"sequence_length", sequence_length_},
                        {"head_size", o.turned},
                        {"theta", o.theta},
                        {"dtype", std::string(name_of(statistics_dtype(dtype_)))},
                        {"scaling", o.scaling},
                        {"factor", o.factor},
                        {"attention_factor", o.attention_factor}};
  if (o.scaling == "llama3")
    attributes.set("low_freq_factor", o.low_freq_factor),
        attributes.set("high_freq_factor", o.high_freq_factor);
  if (o.scaling == "yarn") {
    attributes.set("beta_fast", o.beta_fast), attributes.set("beta_slow", o.beta_slow);
    attributes.set("truncate", int64_t{o.truncate});
  }
  if (o.scaling == "longrope")
    attributes.set("short_factor", o.short_factor), attributes.set("long_factor", o.long_factor);
  if (o.original_positions > 0) attributes.set("original_positions", o.original_positions);
  if (by_length && continues() && length_ == kNone) length_ = input("length", {1}, DType::kI32);
  if (by_length) attributes.set("length", sequence_length_);
  std::vector<ValueId> inputs{positions == kNone ? positions_ : positions, by_length ? length_ : kNone};
  while (!inputs.empty() && inputs.back() == kNone) inputs.pop_back();
  return emit(name, "rotary_table", std::move(attributes), std::move(inputs));
}

ValueId LayerBuilder::rotary(const std::string& name, ValueId x, ValueId table, int64_t heads,
                             int64_t head_size) {
  return emit(name, "rotary",
              {{"sequence_length", sequence_length_},
               {"head_size", head_size},
               {"rotated_heads", heads},
               {"inverse", int64_t{0}}},
              {x, table});
}

ValueId LayerBuilder::head_weight(const std::string& file_name, const AttentionOptions& options) {
  if (file_name.empty()) return kNone;
  return parameter({.name = file_name,
                    .rows = options.head_size,
                    .vector = true,
                    .partial_gradient = parallel(),
                    .init = options.norms_beside_one ? Parameter::Init::kZero : Parameter::Init::kOne});
}

ValueId LayerBuilder::head_norm(const std::string& name, ValueId x, const AttentionOptions& options,
                                std::pair<ValueId, int64_t> heads, std::pair<ValueId, int64_t> second) {
  if (heads.first == kNone) return x;
  std::vector<ValueId> inputs{x, heads.first};
  if (second.first != kNone) inputs.push_back(second.first);
  Attributes attributes{
      {"heads", heads.second}, {"second_heads", second.second}, {"epsilon", options.norm_epsilon}};
  if (options.norms_beside_one) attributes.set("weight_offset", 1.0);
  return emit(name, "head_norm", std::move(attributes), std::move(inputs));
}

ValueId LayerBuilder::self_attention(const std::string& name, ValueId x, const AttentionOptions& options,
                                     LinearOptions projections) {
  const std::vector<int64_t> blocks = options.blocks();
  const int64_t ranks = layout_.tensor_size, heads = options.heads / ranks,
                key_heads = std::max<int64_t>(1, options.key_heads() / ranks);
  require(options.query_norm.empty() == options.key_norm.empty(), "queries have norms, and keys have none");
  const auto turned = [&](const std::string& what, ValueId value, int64_t turned_heads) {
    return options.rotary_table == kNone
               ? value
               : rotary(what, value, options.rotary_table, turned_heads, options.head_size);
  };
  const auto weights = [&] {
    const ValueId of_queries = head_weight(options.query_norm, options);
    return std::pair(of_queries, head_weight(options.key_norm, options));
  };
  if (options.key_heads() >= ranks) {
    projections.blocks = blocks;
    ValueId qkv = column_linear(name + "/qkv", x, blocks[0] + blocks[1] + blocks[2], projections);
    const auto [wq, wk] = weights();
    qkv = head_norm(name + "/norm", qkv, options, {wq, heads}, {wk, key_heads});
    return attention(name + "/core", turned(name + "/rotary", qkv, heads + key_heads), options);
  }
  auto [q, kv] = repeated_projections(name, x, options, projections);
  const auto [wq, wk] = weights();
  q = head_norm(name + "/q/norm", q, options, {wq, heads}, {kNone, 0});
  kv = head_norm(name + "/kv/norm", kv, options, {wk, key_heads}, {kNone, 0});
  AttentionOptions with_kv = options;
  with_kv.kv = turned(name + "/kv/rotary", kv, key_heads);
  return attention(name + "/core", turned(name + "/q/rotary", q, heads), with_kv);
}

}  // namespace recollect
