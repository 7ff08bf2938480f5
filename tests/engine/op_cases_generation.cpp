// Cases of the ops that continue a sequence. The caches hold numbers everywhere: what lies behind the tokens that
// they are filled with must change nothing, and must stay.
#include "tests/engine/op_cases.h"

namespace recollect::test {

namespace {

// How many tokens are cached, which is 1 to `added` here, and how many join them.
ValueSpec filled(int64_t added) {
  return {.name = "filled",
          .shape = {2},
          .storage = Storage::kI32,
          .fill = Fill::kLengths,
          .offset = 1,
          .limit = added};
}

struct CachedCase {
  const char* name;
  int64_t samples, length, added, capacity, heads, size, first_head, all_heads, group;
  bool own_kv = false;
  int64_t window = 0;
  double cap = 0, scale = 0;
};

constexpr CachedCase kCached[] = {
    {"small", 1, 3, 3, 6, 1, 3, 0, 1, 1},
    {"one_token", 1, 1, 1, 2, 2, 5, 0, 2, 1},
    {"two_samples_padded", 2, 5, 3, 7, 2, 3, 0, 2, 1},
    {"groups", 1, 4, 2, 9, 4, 3, 0, 4, 2},
    {"one_group_later_ranks", 1, 3, 3, 8, 2, 6, 2, 8, 4, true},
    {"groups_begin_earlier", 2, 3, 3, 7, 3, 4, 3, 9, 2},
    {"large", 1, 33, 20, 70, 3, 64, 0, 3, 1},
    {"large_groups", 1, 17, 17, 70, 6, 80, 0, 6, 3},
    {"wide_head", 1, 5, 4, 40, 2, 160, 0, 2, 1},
    {"widest_head_own_kv", 1, 2, 2, 5, 2, 256, 0, 2, 2, true},
    {"window", 2, 5, 4, 9, 4, 3, 0, 4, 2, false, 3},
    {"window_1_own_kv", 1, 3, 3, 8, 2, 6, 2, 8, 4, true, 1},
    {"large_window_cap", 1, 33, 30, 70, 3, 64, 0, 3, 1, false, 20, 2, 0.2},
};

}  // namespace

void add_generation_cases(std::vector<OpCase>& cases) {
  for (const CachedCase& c : kCached) {
    const int64_t tokens = c.samples * c.length, width = c.heads * c.size;
    const int64_t kv_heads = (c.first_head + c.heads - 1) / c.group - c.first_head / c.group + 1;
    const int64_t kv_width = 2 * kv_heads * c.size;
    const Shape cache{c.samples * kv_heads, c.capacity, c.size};
    cases.push_back({.name = std::string("cached_attention_") + c.name,
                     .kind = "cached_attention",
                     .inputs = {c.own_kv ? activation("q", {tokens, width})
                                         : activation("qkv", {tokens, width + kv_width}),
                                c.own_kv ? activation("kv", {tokens, kv_width}) : absent(), filled(c.added)},
                     .attributes = {{"heads", c.heads},
                                    {"kv_heads", kv_heads},
                                    {"kv_group", c.group},
                                    {"head_size", c.size},
                                    {"sequence_length", c.length},
                                    {"causal", int64_t{1}},
                                    {"first_head", c.first_head},
                                    {"all_heads", c.all_heads}},
                     .accumulators = {{1, activation("keys", cache)}, {2, activation("values", cache)}},
                     .accumulate = true,
                     .bf16_roundings = 2});
    Attributes& attributes = cases.back().attributes;
    if (c.window > 0) attributes.set("window", c.window);
    if (c.cap > 0) attributes.set("score_cap", c.cap);
    if (c.scale > 0) attributes.set("score_scale", c.scale);
  }
  struct Head {
    const char* name;
    int64_t rows, width, vocabulary, added;
  };
  for (const auto& [name, rows, width, vocabulary, added] :
       {Head{"small", 4, 7, 5, 3}, Head{"one_token", 1, 3, 2, 1}, Head{"one_word", 3, 65, 1, 3},
        Head{"large", 9, 200, 701, 8}, Head{"wide", 2, 1030, 64, 2}})
    cases.push_back(
        {.name = std::string("lm_logits_") + name,
         .kind = "lm_logits",
         .inputs = {activation("x", {rows, width}), activation("w", {vocabulary, width}), filled(added)}});
  cases.push_back(cases.back());
  cases.back().name += "_capped";
  cases.back().attributes.set("logit_cap", 20.0);
}

}  // namespace recollect::test
