// LayerBuilder's attention of a rank's heads; with a key/value cache if a batch continues a sequence.
#include <algorithm>

#include "engine/core/error.h"
#include "engine/ops/attention.h"
#include "parallel/layers.h"

namespace recollect {

int64_t LayerBuilder::local_key_heads(const std::string& name, const AttentionOptions& options) const {
  const int64_t ranks = layout_.tensor_size, heads = options.heads, key_heads = options.key_heads();
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error(ExitCode::kConfiguration, path(name) + ": " + what, remedy);
  };
  const std::string of_heads = std::to_string(heads) + " heads",
                    of_key_heads = std::to_string(key_heads) + " key/value heads",
                    of_ranks = std::to_string(ranks) + " tensor ranks";
  if (heads % key_heads != 0)
    refuse(of_heads + " do not share " + of_key_heads + " evenly", "take a divisor as key/value heads");
  if (heads % ranks != 0) refuse(of_ranks + " do not divide " + of_heads, "take a divisor as tensor ranks");
  const bool repeated = options.kv != kNone && ranks % key_heads == 0;
  if (key_heads % ranks != 0 && !repeated)
    refuse(of_ranks + " do not divide " + of_key_heads, "take a divisor or a multiple as tensor ranks");
  return std::max<int64_t>(key_heads / ranks, 1);
}

ValueId LayerBuilder::attention(const std::string& name, ValueId q, const AttentionOptions& options) {
  const int64_t key_heads = local_key_heads(name, options), local = options.heads / layout_.tensor_size;
  Attributes attributes{{"heads", local},
                        {"kv_heads", key_heads},
                        {"kv_group", options.heads / options.key_heads()},
                        {"head_size", options.head_size},
                        {"sequence_length", sequence_length_},
                        {"causal", int64_t{options.causal}},
                        {"first_head", layout_.tensor_rank * local},
                        {"all_heads", options.heads}};
  // A window as long as the sequence changes nothing, and may prevent a faster kernel.
  if (options.window > 0 && options.window < (continues() ? capacity_ : sequence_length_))
    attributes.set(kWindow, options.window);
  if (options.score_cap > 0) attributes.set(kScoreCap, options.score_cap);
  if (options.score_scale > 0) attributes.set(kScoreScale, options.score_scale);
  if (continues()) return cached_attention(name, q, options, std::move(attributes));
  attributes.set("p", options.dropout);
  attributes.set("layer", int64_t{layer()});
  attributes.set("site", site_++);
  std::vector<ValueId> inputs{q, options.kv, options.lengths, options.positions};
  while (inputs.back() == kNone) inputs.pop_back();
  return emit(name, "attention", std::move(attributes), std::move(inputs));
}

ValueId LayerBuilder::cached_attention(const std::string& name, ValueId q, const AttentionOptions& options,
                                       Attributes attributes) {
  require(options.causal && options.lengths == kNone,
          path(name) + ": no backend has a kernel for a cache of sequences of several lengths");
  const auto cache = [&](const char* what) {
    return graph_.add_value(
        {.name = path(name) + "/" + what,
         .shape = {samples_ * attributes.integer("kv_heads"), capacity_, options.head_size},
         .dtype = dtype_,
         .category = Category::kCache,
         .placement = part_of_ranks(),
         .persistent = true,
         .accumulator = true,
         .layer = layer()});
  };
  const ValueId keys = cache("keys"), values = cache("values");
  return emit(name, "cached_attention", std::move(attributes), {q, options.kv, filled_},
              {kNone, keys, values}, Accumulate::kAlways);
}

}  // namespace recollect
