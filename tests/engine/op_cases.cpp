// The parts of the table that are about tokens: lookup tables, normalisation, attention and the loss. Sizes
// are odd on purpose; the large ones are there for blocked and vectorised loops, with a remainder in every
// dimension.
#include <cmath>

#include "tests/engine/op_cases.h"

namespace recollect::test {

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  add_table_cases(cases);
  add_pointwise_cases(cases);
  add_layer_norm_cases(cases);
  add_linear_cases(cases);
  add_attention_cases(cases);
  add_lm_head_cases(cases);
  add_optimizer_cases(cases);
  return cases;
}

void add_both(std::vector<OpCase>& cases, OpCase c) {
  cases.push_back(c);
  c.name += "_accumulate";
  c.accumulate = true;
  cases.push_back(c);
}

void add_table_cases(std::vector<OpCase>& cases) {
  struct Lookup {
    const char* name;
    int64_t samples, length, rows, width, first_row, ids;
  };
  for (const auto& [name, samples, length, rows, width, first_row, ids] :
       {Lookup{"small", 1, 5, 11, 7, 0, 11}, Lookup{"divided", 2, 5, 8, 7, 8, 24},
        Lookup{"length_1", 3, 1, 11, 1, 0, 11}, Lookup{"large", 2, 65, 300, 96, 0, 300},
        Lookup{"frequent", 9, 129, 20, 16, 0, 3}, Lookup{"rare", 9, 129, 600, 8, 20, 640}}) {
    const ValueSpec id{.name = "ids",
                       .shape = {samples, length},
                       .storage = Storage::kI32,
                       .fill = Fill::kIds,
                       .limit = ids};
    const Attributes attributes{{"first_row", first_row}};
    cases.push_back({.name = std::string("embedding_") + name,
                     .kind = "embedding",
                     .inputs = {id, activation("table", {rows, width})},
                     .attributes = attributes,
                     .differentiable = {1}});
    add_both(cases, {.name = std::string("embedding_backward_") + name,
                     .kind = "embedding_backward",
                     .inputs = {id, activation("dy", {samples * length, width})},
                     .attributes = attributes,
                     .accumulators = {{0, statistic("dtable", {rows, width})}}});
  }

  struct Position {
    const char* name;
    int64_t tokens, width, rows, length, first;
  };
  for (const auto& [name, tokens, width, rows, length, first] :
       {Position{"small", 6, 7, 4, 3, 0}, Position{"later_tokens", 4, 7, 3, 3, 2},
        Position{"length_1", 5, 3, 2, 1, 0}, Position{"large", 130, 96, 70, 65, 0}}) {
    const Attributes attributes{{"sequence_length", length}, {"first_token", first}};
    cases.push_back({.name = std::string("add_position_") + name,
                     .kind = "add_position",
                     .inputs = {activation("x", {tokens, width}), activation("table", {rows, width})},
                     .attributes = attributes,
                     .differentiable = {0, 1}});
    add_both(cases, {.name = std::string("add_position_backward_") + name,
                     .kind = "add_position_backward",
                     .inputs = {activation("dy", {tokens, width})},
                     .attributes = attributes,
                     .accumulators = {{0, statistic("dtable", {rows, width})}}});
  }
}

void add_layer_norm_cases(std::vector<OpCase>& cases) {
  struct Size {
    const char* name;
    int64_t tokens, width;
    double epsilon;
  };
  for (const auto& [name, tokens, width, epsilon] :
       {Size{"small", 5, 7, 1e-5}, Size{"one_token", 1, 7, 1e-5}, Size{"width_3", 4, 3, 1e-2},
        Size{"large", 65, 96, 1e-5}, Size{"wide", 3, 769, 1e-12}, Size{"wider", 5, 2056, 1e-5},
        Size{"widest", 3, 8200, 1e-5}}) {
    const Attributes attributes{{"epsilon", epsilon}};
    ValueSpec x = activation("x", {tokens, width});
    x.offset = 0.5;
    const ValueSpec weight = statistic("weight", {width}, 0.3, 1), bias = statistic("bias", {width});
    OpCase forward{.name = std::string("layer_norm_") + name,
                   .kind = "layer_norm",
                   .inputs = {x, weight, bias},
                   .attributes = attributes,
                   .differentiable = {0, 1, 2}};
    cases.push_back(forward);
    forward.name += "_with_residual";
    forward.used_elsewhere = 0;
    cases.push_back(forward);

    OpCase backward{.name = std::string("layer_norm_backward_") + name,
                    .kind = "layer_norm_backward",
                    .inputs = {activation("dy", {tokens, width}), x, weight, statistic("mean", {tokens}),
                               statistic("rstd", {tokens})},
                    .attributes = attributes,
                    .accumulators = {{1, statistic("dweight", {width})}, {2, statistic("dbias", {width})}},
                    // Any bias does for the statistics.
                    .derived = {{.kind = "layer_norm", .from = {1, 2, 2}, .inputs = {{1, 3}, {2, 4}}}}};
    add_both(cases, backward);
    backward.name += "_add";
    backward.inputs.push_back(activation("add", {tokens, width}));
    add_both(cases, backward);
  }
}

namespace {

struct AttentionCase {
  const char* name;
  int64_t samples, length, heads, size, first_head, all_heads;
  double p;
  int64_t group = 1;  // query heads that share a key/value head
  bool causal = true, lengths = false, own_kv = false;
};

constexpr bool kCausal = true, kAllKeys = false, kLengths = true, kOwnKv = true;

constexpr AttentionCase kAttention[] = {
    {"small", 1, 5, 1, 3, 0, 1, 0},
    {"two_heads", 2, 5, 2, 3, 0, 2, 0},
    {"dropout", 2, 5, 2, 3, 0, 2, 0.3},
    {"later_heads_dropout", 1, 5, 2, 3, 2, 4, 0.3},
    {"length_1", 3, 1, 2, 3, 0, 2, 0},
    {"length_1_dropout", 3, 1, 2, 3, 0, 2, 0.3},
    {"size_1", 1, 4, 2, 1, 0, 2, 0},
    {"large", 2, 65, 3, 32, 0, 3, 0},
    {"large_dropout", 2, 65, 3, 32, 3, 6, 0.1},
    {"long", 1, 200, 1, 64, 0, 1, 0},
    {"wide_head_dropout", 1, 37, 1, 100, 0, 1, 0.1},
    {"wider_head", 1, 37, 1, 160, 0, 1, 0.1},
    {"whole_groups_dropout", 1, 128, 2, 16, 0, 2, 0.3},
    // Keys behind the query, and of every sample only the first ones.
    {"all_keys", 2, 5, 2, 3, 0, 2, 0, 1, kAllKeys},
    {"all_keys_lengths_dropout", 4, 5, 2, 3, 0, 2, 0.3, 1, kAllKeys, kLengths},
    {"lengths", 4, 5, 2, 3, 0, 2, 0, 1, kCausal, kLengths},
    {"length_1_lengths", 3, 1, 2, 3, 0, 2, 0, 1, kAllKeys, kLengths},
    {"strips_lengths", 4, 70, 2, 3, 0, 2, 0, 1, kAllKeys, kLengths},
    {"large_all_keys", 2, 131, 2, 64, 0, 2, 0, 1, kAllKeys},
    {"large_all_keys_lengths", 4, 100, 1, 64, 0, 1, 0, 1, kAllKeys, kLengths},
    {"large_lengths_dropout", 4, 97, 2, 20, 3, 6, 0.1, 1, kCausal, kLengths},
    {"wider_head_lengths", 2, 70, 1, 160, 0, 1, 0.1, 1, kAllKeys, kLengths},
    // Key/value heads that several query heads share.
    {"groups", 2, 5, 4, 3, 0, 4, 0, 2},
    {"one_group", 2, 5, 4, 3, 4, 8, 0, 4},
    {"groups_begin_earlier_dropout", 2, 5, 4, 3, 3, 9, 0.3, 2},
    {"part_of_a_group_own_kv", 2, 5, 2, 3, 2, 8, 0, 4, kCausal, false, kOwnKv},
    {"groups_lengths_own_kv_dropout", 4, 4, 3, 2, 3, 9, 0.3, 3, kAllKeys, kLengths, kOwnKv},
    {"large_groups", 2, 67, 6, 80, 0, 6, 0, 2},
    {"large_groups_begin_earlier_lengths", 3, 97, 5, 32, 3, 16, 0, 4, kCausal, kLengths},
    {"large_groups_own_kv_lengths", 3, 70, 4, 64, 0, 4, 0, 2, kCausal, kLengths, kOwnKv},
    {"large_one_group_own_kv_lengths_dropout", 2, 70, 4, 128, 0, 4, 0.1, 4, kAllKeys, kLengths, kOwnKv},
};

}  // namespace

void add_attention_cases(std::vector<OpCase>& cases) {
  // A query of a sample of one key has no gradient: dP - delta is what rounding leaves of two sums as long as
  // a head, which in float is within the tolerance for narrow heads only.
  for (const AttentionCase& c : kAttention) {
    const int64_t tokens = c.samples * c.length, width = c.heads * c.size;
    const int64_t kv_heads = (c.first_head + c.heads - 1) / c.group - c.first_head / c.group + 1;
    const int64_t kv_width = 2 * kv_heads * c.size;
    const Attributes attributes{
        {"heads", c.heads},           {"kv_heads", kv_heads},        {"kv_group", c.group},
        {"head_size", c.size},        {"sequence_length", c.length}, {"causal", int64_t{c.causal}},
        {"first_head", c.first_head}, {"all_heads", c.all_heads},    {"p", c.p},
        {"layer", int64_t{3}},        {"site", int64_t{2}}};
    const ValueSpec q =
        c.own_kv ? activation("q", {tokens, width}) : activation("qkv", {tokens, width + kv_width});
    std::vector<ValueSpec> more;
    if (c.own_kv || c.lengths) more.push_back(c.own_kv ? activation("kv", {tokens, kv_width}) : absent());
    if (c.lengths)
      more.push_back({.name = "lengths",
                      .shape = {c.samples},
                      .storage = Storage::kI32,
                      .fill = Fill::kLengths,
                      .offset = c.size > 8 ? 17.0 : 1.0,
                      .limit = c.length});
    OpCase forward{.name = std::string("attention_") + c.name,
                   .kind = "attention",
                   .inputs = {q},
                   .attributes = attributes,
                   .differentiable = c.own_kv ? std::vector<int>{0, 1} : std::vector<int>{0},
                   .bf16_roundings = 2};
    OpCase backward{.name = std::string("attention_backward_") + c.name,
                    .kind = "attention_backward",
                    .inputs = {activation("do", {tokens, width}), q, activation("o", {tokens, width}),
                               statistic("lse", {c.samples * c.heads, c.length})},
                    .attributes = attributes,
                    .derived = {{.kind = "attention", .from = {1}, .inputs = {{0, 2}, {1, 3}}}},
                    .bf16_roundings = 2};
    for (const ValueSpec& input : more) {
      backward.derived[0].from.push_back(static_cast<int>(backward.inputs.size()));
      forward.inputs.push_back(input);
      backward.inputs.push_back(input);
    }
    cases.push_back(forward);
    cases.push_back(backward);
  }
}

// In bf16 logits are values of the activation dtype, as they are under torch's autocast: the rounding of a
// logit is an absolute error of a log-probability. Weights are scaled for logits of size 1, the largest being
// about 4; with the rounding of their gradients that makes five.
void add_lm_head_cases(std::vector<OpCase>& cases) {
  struct Size {
    const char* name;
    int64_t samples, length, width, rows, first_row, vocabulary, chunk;
  };
  for (const auto& [name, samples, length, width, rows, first_row, vocabulary, chunk] :
       {Size{"one_chunk", 1, 5, 7, 11, 0, 11, 64}, Size{"chunks_of_3", 2, 5, 7, 11, 0, 11, 3},
        Size{"padded", 2, 5, 7, 16, 0, 11, 4}, Size{"second_half", 2, 5, 7, 8, 8, 11, 4},
        Size{"length_1", 3, 1, 7, 11, 0, 11, 2}, Size{"large", 2, 65, 96, 304, 0, 300, 48},
        Size{"many_words", 1, 5, 8, 4208, 0, 4203, 3}}) {
    const int64_t tokens = samples * length;
    const ValueSpec targets{.name = "targets",
                            .shape = {samples, length},
                            .storage = Storage::kI32,
                            .fill = Fill::kTargets,
                            .limit = vocabulary};
    const ValueSpec scale{.name = "scale",
                          .shape = {1},
                          .storage = Storage::kF64,
                          .fill = Fill::kPositive,
                          .scale = 0.01,
                          .offset = 0.125};
    const ValueSpec loss{.name = "loss", .shape = {1}, .storage = Storage::kF64};
    Attributes attributes{{"vocabulary_size", vocabulary},
                          {"first_row", first_row},
                          {"chunk_rows", chunk},
                          {"gradient", int64_t{0}}};
    OpCase c{.name = std::string("lm_head_loss_") + name,
             .kind = "lm_head_loss",
             .inputs = {activation("x", {tokens, width}),
                        activation("w", {rows, width}, 1 / std::sqrt(width)), targets, scale},
             .attributes = attributes,
             .accumulators = {{0, loss}},
             .differentiable = {0, 1},
             .bf16_roundings = 5};
    add_both(cases, c);
    c.name += "_gradient";
    c.attributes.set("gradient", int64_t{1});
    c.accumulators[2] = statistic("dw", {rows, width});
    c.differentiable = {};
    add_both(cases, c);
  }
}

}  // namespace recollect::test
