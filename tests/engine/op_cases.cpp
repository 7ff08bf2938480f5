// The parts of the table that are about tokens: lookup tables, positions, normalisation and attention. Sizes
// are odd on purpose; the large ones are there for blocked and vectorised loops, with a remainder in every
// dimension.
#include "tests/engine/op_cases.h"

#include <cmath>

namespace recollect::test {

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  add_table_cases(cases);
  add_first_token_cases(cases);
  add_sequence_cases(cases);
  add_rotary_cases(cases);
  add_pointwise_cases(cases);
  add_norm_cases(cases);
  add_head_norm_cases(cases);
  add_linear_cases(cases);
  add_float8_cases(cases);
  add_attention_cases(cases);
  add_generation_cases(cases);
  add_lm_head_cases(cases);
  add_label_loss_cases(cases);
  add_optimizer_cases(cases);
  add_quantised_cases(cases);
  add_adafactor_cases(cases);
  add_muon_cases(cases);
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
    int64_t samples, length, rows, width, first_row, ids, padding = -1;
  };
  for (const auto& [name, samples, length, rows, width, first_row, ids, padding] :
       {Lookup{"small", 1, 5, 11, 7, 0, 11}, Lookup{"divided", 2, 5, 8, 7, 8, 24},
        Lookup{"length_1", 3, 1, 11, 1, 0, 11}, Lookup{"large", 2, 65, 300, 96, 0, 300},
        Lookup{"frequent", 9, 129, 20, 16, 0, 3}, Lookup{"rare", 9, 129, 600, 8, 20, 640},
        Lookup{"padding", 2, 65, 5, 7, 0, 5, 0}, Lookup{"frequent_padding", 9, 129, 20, 16, 0, 3, 1},
        Lookup{"divided_padding", 3, 65, 8, 7, 8, 24, 9}, Lookup{"others_padding", 3, 65, 8, 7, 8, 24, 3}}) {
    const ValueSpec id{.name = "ids",
                       .shape = {samples, length},
                       .storage = Storage::kI32,
                       .fill = Fill::kIds,
                       .limit = ids};
    Attributes attributes{{"first_row", first_row}};
    if (padding >= 0) attributes.set("padding_id", padding);
    OpCase forward{.name = std::string("embedding_") + name,
                   .kind = "embedding",
                   .inputs = {id, activation("table", {rows, width})},
                   .attributes = attributes};
    if (padding < 0) forward.differentiable = {1};  // else the gradient leaves something out
    cases.push_back(forward);
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

  struct Type {
    const char* name;
    int64_t samples, length, width, rows, first, tokens, ids;
    bool positions = false;  // of packed samples; -1 is padding
  };
  for (const auto& [name, samples, length, width, rows, first, tokens, ids, positions] :
       {Type{"small", 2, 3, 7, 2, 0, 6, 2}, Type{"later_tokens", 2, 5, 7, 3, 4, 5, 3},
        Type{"one_token", 1, 1, 1, 1, 0, 1, 1}, Type{"outside", 2, 7, 5, 2, 0, 14, 5},
        Type{"large", 2, 65, 96, 3, 0, 130, 3}, Type{"frequent", 9, 129, 16, 2, 5, 1100, 2},
        Type{"many_rows", 3, 65, 24, 37, 0, 195, 40}, Type{"positions", 3, 65, 24, 66, 0, 195, 9, true},
        Type{"few_positions", 4, 5, 24, 3, 0, 20, 2, true}}) {
    const ValueSpec id{.name = "ids",
                       .shape = {samples, length},
                       .storage = Storage::kI32,
                       .fill = positions ? Fill::kPositions : Fill::kIds,
                       .offset = positions ? 1.0 : 0.0,
                       .limit = ids};
    const Attributes attributes{{"first_token", first}};
    cases.push_back({.name = std::string("add_embedding_") + name,
                     .kind = "add_embedding",
                     .inputs = {activation("x", {tokens, width}), id, activation("table", {rows, width})},
                     .attributes = attributes,
                     .differentiable = {0, 2}});
    OpCase backward{.name = std::string("add_embedding_backward_") + name,
                    .kind = "add_embedding_backward",
                    .inputs = {activation("dy", {tokens, width}), id},
                    .attributes = attributes,
                    .accumulators = {{0, statistic("dtable", {rows, width})}}};
    add_both(cases, backward);
    backward.name += "_padding";
    backward.attributes.set("padding_id", int64_t{1});
    cases.push_back(backward);
  }
}

void add_first_token_cases(std::vector<OpCase>& cases) {
  struct Part {
    const char* name;
    int64_t samples, length, width, first, tokens;
  };
  std::vector<OpCase> named;
  for (const auto& [name, samples, length, width, first, tokens] :
       {Part{"whole", 3, 4, 7, 0, 12}, Part{"length_1", 5, 1, 3, 0, 5}, Part{"one_sample", 1, 6, 1, 0, 6},
        Part{"first_half", 3, 4, 7, 0, 6}, Part{"second_half", 3, 4, 7, 6, 6}, Part{"between", 2, 8, 5, 4, 4},
        Part{"large", 9, 13, 96, 39, 78}}) {
    Attributes attributes{{"samples", samples}, {"sequence_length", length}, {"first_token", first}};
    cases.push_back({.name = std::string("first_tokens_") + name,
                     .kind = "first_tokens",
                     .inputs = {activation("x", {tokens, width})},
                     .attributes = attributes,
                     .differentiable = {0}});
    attributes.set("rows", tokens);
    cases.push_back({.name = std::string("first_tokens_backward_") + name,
                     .kind = "first_tokens_backward",
                     .inputs = {activation("dy", {samples, width})},
                     .attributes = attributes});
    if (samples * length < 12) continue;
    // Tokens that a list names, some of them not here.
    const ValueSpec which{.name = "which",
                          .shape = {samples},
                          .storage = Storage::kI32,
                          .fill = Fill::kPlaces,
                          .limit = samples * length};
    for (OpCase* given : {&cases[cases.size() - 2], &cases.back()}) {
      OpCase c = *given;
      c.name += "_named";
      c.inputs.push_back(which);
      named.push_back(c);
    }
  }
  cases.insert(cases.end(), named.begin(), named.end());
}

void add_rotary_cases(std::vector<OpCase>& cases) {
  for (const char* scaling : {"default", "linear", "llama3"})
    for (const auto& [length, size] : {std::pair<int64_t, int64_t>{5, 2}, {67, 24}})
      cases.push_back({.name = std::string("rotary_table_") + scaling + "_" + std::to_string(length),
                       .kind = "rotary_table",
                       .attributes = {{"sequence_length", length},
                                      {"head_size", size},
                                      {"theta", 10000.0},
                                      {"dtype", std::string("f32")},
                                      {"scaling", std::string(scaling)},
                                      {"factor", 8.0},
                                      {"low_freq_factor", 1.0},
                                      {"high_freq_factor", 4.0},
                                      {"original_positions", int64_t{32}}}});
  OpCase given = cases.back();
  given.name += "_positions";
  given.inputs = {
      {.name = "positions", .shape = {3, 67}, .storage = Storage::kI32, .fill = Fill::kIds, .limit = 500}};
  cases.push_back(given);
  struct Heads {
    const char* name;
    int64_t samples, length, size, rotated, width;
    bool by_token = false;
    int64_t turned = 0;  // rotated elements of a head; 0: all
  };
  for (const auto& [name, samples, length, size, rotated, width, by_token, turned] :
       {Heads{"small", 2, 3, 4, 1, 4}, Heads{"by_token", 3, 5, 12, 2, 31, true},
        Heads{"some_heads", 2, 3, 6, 2, 19}, Heads{"length_1", 3, 1, 2, 3, 6},
        Heads{"odd_half", 1, 5, 10, 1, 33}, Heads{"large", 2, 65, 64, 3, 320},
        Heads{"wide_head", 1, 7, 1040, 2, 3120}, Heads{"no_whole_vectors", 2, 17, 24, 5, 150},
        Heads{"a_part", 2, 17, 64, 2, 200, false, 16}, Heads{"an_odd_part", 3, 5, 10, 2, 31, true, 6}}) {
    for (const int64_t inverse : {0, 1})
      cases.push_back(
          {.name = std::string("rotary_") + name + (inverse ? "_inverse" : ""),
           .kind = "rotary",
           .inputs = {activation("x", {samples * length, width}),
                      statistic("table", {(by_token ? samples : 1) * length, turned > 0 ? turned : size})},
           .attributes = {{"sequence_length", length},
                          {"head_size", size},
                          {"rotated_heads", rotated},
                          {"inverse", inverse}},
           .differentiable = {0}});
  }
}

void add_norm_cases(std::vector<OpCase>& cases) {
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

    // The sum is exact in every dtype: its norm would show the rounding larger.
    const auto whole = [](ValueSpec spec) {
      spec.fill = Fill::kIds;
      spec.limit = 16;
      return spec;
    };
    cases.push_back({.name = std::string("residual_norm_") + name,
                     .kind = "residual_norm",
                     .inputs = {whole(x), whole(bias), whole(activation("residual", {tokens, width})), weight,
                                statistic("shift", {width})},
                     .attributes = attributes});

    forward.name = std::string("layer_norm_no_bias_") + name;
    forward.inputs.pop_back();
    forward.differentiable.pop_back();
    cases.push_back(forward);
    cases.push_back(
        {.name = std::string("residual_norm_no_shift_") + name,
         .kind = "residual_norm",
         .inputs = {whole(x), whole(bias), whole(activation("residual", {tokens, width})), weight},
         .attributes = attributes});

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
    backward.name = std::string("layer_norm_backward_no_bias_") + name;
    backward.accumulators.erase(2);
    add_both(cases, backward);

    forward = {.name = std::string("rms_norm_") + name,
               .kind = "rms_norm",
               .inputs = {x, weight},
               .attributes = attributes,
               .differentiable = {0, 1}};
    cases.push_back(forward);
    forward.name += "_with_residual";
    forward.used_elsewhere = 0;
    cases.push_back(forward);
    forward.name = std::string("rms_norm_beside_one_") + name;
    forward.attributes.set("weight_offset", 1.0);
    cases.push_back(forward);
    backward = {.name = std::string("rms_norm_backward_") + name,
                .kind = "rms_norm_backward",
                .inputs = {activation("dy", {tokens, width}), x, weight, statistic("rstd", {tokens})},
                .attributes = attributes,
                .accumulators = {{1, statistic("dweight", {width})}},
                .derived = {{.kind = "rms_norm", .from = {1, 2}, .inputs = {{1, 3}}}}};
    add_both(cases, backward);
    backward.name += "_add";
    backward.inputs.push_back(activation("add", {tokens, width}));
    add_both(cases, backward);
    backward.name = std::string("rms_norm_backward_beside_one_") + name;
    backward.attributes.set("weight_offset", 1.0);
    cases.push_back(backward);
  }
}

void add_head_norm_cases(std::vector<OpCase>& cases) {
  struct Size {
    const char* name;
    int64_t tokens, size, heads, second, width;
  };
  for (const auto& [name, tokens, size, heads, second, width] :
       {Size{"small", 3, 4, 2, 1, 16}, Size{"one_kind", 5, 6, 3, 0, 18}, Size{"odd", 4, 5, 1, 2, 17},
        Size{"two_elements", 2, 2, 1, 1, 4}, Size{"usual", 67, 128, 3, 1, 640},
        Size{"large", 9, 256, 2, 2, 1024}, Size{"no_whole_vectors", 33, 100, 2, 1, 403}}) {
    const Attributes attributes{{"heads", heads}, {"second_heads", second}, {"epsilon", 1e-3}};
    const ValueSpec x = activation("x", {tokens, width}), weight = statistic("weight", {size}, 0.3, 1),
                    other = second > 0 ? statistic("second", {size}, 0.3, 1) : absent();
    OpCase forward{.name = std::string("head_norm_") + name,
                   .kind = "head_norm",
                   .inputs = {x, weight, other},
                   .attributes = attributes,
                   .differentiable = {0, 1}};
    if (second > 0) forward.differentiable.push_back(2);
    if (second == 0) forward.inputs.pop_back();
    cases.push_back(forward);
    OpCase backward = forward;
    backward.name = std::string("head_norm_backward_") + name;
    backward.kind = "head_norm_backward";
    backward.inputs.insert(backward.inputs.begin(), activation("dy", {tokens, width}));
    backward.differentiable = {};
    backward.accumulators = {{1, statistic("dweight", {size})}};
    if (second > 0) backward.accumulators.emplace(2, statistic("dsecond", {size}));
    add_both(cases, backward);
    for (OpCase* beside_one : {&forward, &backward}) {
      beside_one->name = beside_one->kind + "_beside_one_" + name;
      beside_one->attributes.set("weight_offset", 1.0);
      cases.push_back(*beside_one);
    }
  }
}

namespace {

struct AttentionCase {
  const char* name;
  int64_t samples, length, heads, size, first_head, all_heads;
  double p;
  int64_t group = 1;  // query heads that share a key/value head
  bool causal = true, lengths = false, own_kv = false;
  int64_t packed =
      0;  // tokens of sequences that share a sample, on average more than they must have; 0: one does
  int64_t window = 0;         // 0: no window
  double cap = 0, scale = 0;  // of scores; 0: no cap, and 1 / sqrt(head size)
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
    // Several sequences in a sample, and padding between and behind them.
    {"packed", 3, 11, 2, 3, 0, 2, 0, 1, kCausal, false, false, 3},
    {"packed_all_keys_dropout", 3, 11, 2, 3, 0, 2, 0.3, 1, kAllKeys, false, false, 2},
    {"packed_groups_own_kv", 2, 9, 4, 2, 3, 9, 0, 3, kAllKeys, false, kOwnKv, 2},
    {"large_packed", 2, 200, 2, 64, 0, 2, 0, 1, kCausal, false, false, 20},
    {"large_packed_all_keys", 3, 150, 1, 64, 0, 1, 0, 1, kAllKeys, false, false, 10},
    {"large_packed_dropout", 2, 197, 2, 20, 3, 6, 0.1, 1, kCausal, false, false, 40},
    {"large_packed_all_keys_dropout", 2, 230, 1, 32, 0, 1, 0.1, 1, kAllKeys, false, false, 60},
    {"large_packed_groups_own_kv", 2, 130, 4, 80, 0, 4, 0, 2, kAllKeys, false, kOwnKv, 30},
    {"wider_head_packed", 2, 90, 1, 160, 0, 1, 0.1, 1, kCausal, false, false, 20},
    // Windows of one key up to more than all keys; capped scores, and scores with another scale.
    {"window_1", 2, 5, 2, 3, 0, 2, 0, 1, kCausal, false, false, 0, 1},
    {"window_dropout", 2, 6, 2, 3, 0, 2, 0.3, 1, kCausal, false, false, 0, 3},
    {"window_longer", 2, 4, 2, 3, 0, 2, 0, 1, kCausal, false, false, 0, 9},
    {"window_all_keys", 2, 6, 2, 3, 0, 2, 0, 1, kAllKeys, false, false, 0, 2},
    {"window_lengths", 4, 7, 2, 3, 0, 2, 0, 1, kCausal, kLengths, false, 0, 2},
    {"window_all_keys_lengths_dropout", 4, 7, 2, 3, 0, 2, 0.3, 1, kAllKeys, kLengths, false, 0, 3},
    {"window_packed", 3, 11, 2, 3, 0, 2, 0, 1, kCausal, false, false, 3, 2},
    {"window_packed_all_keys_groups_own_kv", 2, 9, 4, 2, 3, 9, 0, 3, kAllKeys, false, kOwnKv, 2, 2},
    {"cap", 2, 5, 2, 3, 0, 2, 0, 1, kCausal, false, false, 0, 0, 1.5},
    {"cap_scale_window_groups_dropout", 2, 5, 4, 3, 3, 9, 0.3, 2, kCausal, false, false, 0, 3, 2, 0.4},
    {"large_window", 2, 330, 2, 32, 0, 2, 0, 1, kCausal, false, false, 0, 70},
    {"large_window_1", 1, 200, 2, 64, 0, 2, 0, 1, kCausal, false, false, 0, 1},
    {"large_window_64_dropout", 1, 300, 1, 64, 0, 1, 0.1, 1, kCausal, false, false, 0, 64},
    {"large_window_300", 1, 600, 1, 16, 0, 1, 0, 1, kCausal, false, false, 0, 300},
    {"large_window_all_keys", 1, 330, 2, 32, 0, 2, 0.1, 1, kAllKeys, false, false, 0, 33},
    {"large_window_all_keys_lengths", 4, 230, 1, 64, 0, 1, 0, 1, kAllKeys, kLengths, false, 0, 50},
    {"large_window_lengths_dropout", 4, 197, 2, 20, 3, 6, 0.1, 1, kCausal, kLengths, false, 0, 40},
    {"large_window_packed", 2, 330, 2, 40, 0, 2, 0, 1, kCausal, false, false, 60, 50},
    {"large_window_packed_all_keys", 2, 330, 1, 64, 0, 1, 0.1, 1, kAllKeys, false, false, 90, 25},
    {"large_window_one_group_own_kv", 2, 150, 4, 128, 0, 4, 0, 4, kCausal, false, kOwnKv, 0, 80},
    {"wide_head_window_cap", 1, 150, 2, 256, 0, 2, 0, 1, kCausal, false, false, 0, 40, 3, 0.05},
    {"large_cap_groups_lengths", 3, 97, 4, 64, 0, 4, 0.1, 2, kCausal, kLengths, false, 0, 0, 2},
    {"large_cap_all_keys_packed", 2, 130, 2, 32, 0, 2, 0, 1, kAllKeys, false, false, 30, 0, 5, 0.3},
};

}  // namespace

void add_attention_cases(std::vector<OpCase>& cases) {
  // A query of a sample of one key has no gradient: dP - delta is what rounding leaves of two sums as long as
  // a head, which in float is within the tolerance for narrow heads only.
  for (const AttentionCase& c : kAttention) {
    // e^(score - lse) makes a rounding of the exponent one as many times as large as that is: scores are normal.
    const double condition = 4 + std::log(static_cast<double>(c.length));
    const int64_t tokens = c.samples * c.length, width = c.heads * c.size;
    const int64_t kv_heads = (c.first_head + c.heads - 1) / c.group - c.first_head / c.group + 1;
    const int64_t kv_width = 2 * kv_heads * c.size;
    Attributes attributes{
        {"heads", c.heads},           {"kv_heads", kv_heads},        {"kv_group", c.group},
        {"head_size", c.size},        {"sequence_length", c.length}, {"causal", int64_t{c.causal}},
        {"first_head", c.first_head}, {"all_heads", c.all_heads},    {"p", c.p},
        {"layer", int64_t{3}},        {"site", int64_t{2}}};
    if (c.window > 0) attributes.set("window", c.window);
    if (c.cap > 0) attributes.set("score_cap", c.cap);
    if (c.scale > 0) attributes.set("score_scale", c.scale);
    const ValueSpec q =
        c.own_kv ? activation("q", {tokens, width}) : activation("qkv", {tokens, width + kv_width});
    std::vector<ValueSpec> more;
    const bool packed = c.packed > 0;
    const double least = c.size > 8 ? 17 : 1;
    if (c.own_kv || c.lengths || packed)
      more.push_back(c.own_kv ? activation("kv", {tokens, kv_width}) : absent());
    if (c.lengths)
      more.push_back({.name = "lengths",
                      .shape = {c.samples},
                      .storage = Storage::kI32,
                      .fill = Fill::kLengths,
                      .offset = least,
                      .limit = c.length});
    if (packed) {
      more.push_back(absent());
      more.push_back({.name = "positions",
                      .shape = {c.samples, c.length},
                      .storage = Storage::kI32,
                      .fill = Fill::kPositions,
                      .offset = least,
                      .limit = c.packed});
    }
    OpCase forward{.name = std::string("attention_") + c.name,
                   .kind = "attention",
                   .inputs = {q},
                   .attributes = attributes,
                   .differentiable = c.own_kv ? std::vector<int>{0, 1} : std::vector<int>{0},
                   .bf16_roundings = 2,
                   .condition = condition};
    OpCase backward{.name = std::string("attention_backward_") + c.name,
                    .kind = "attention_backward",
                    .inputs = {activation("do", {tokens, width}), q, activation("o", {tokens, width}),
                               statistic("lse", {c.samples * c.heads, c.length})},
                    .attributes = attributes,
                    .derived = {{.kind = "attention", .from = {1}, .inputs = {{0, 2}, {1, 3}}}},
                    .bf16_roundings = 2,
                    .condition = condition};
    for (const ValueSpec& input : more) {
      backward.derived[0].from.push_back(static_cast<int>(backward.inputs.size()));
      forward.inputs.push_back(input);
      backward.inputs.push_back(input);
    }
    cases.push_back(forward);
    cases.push_back(backward);
  }
}

}  // namespace recollect::test
