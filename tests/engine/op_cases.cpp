// The parts of the table that are about tokens: lookup tables, positions, normalisation and attention. Sizes
// are odd on purpose; the large ones are there for blocked and vectorised loops, with a remainder in every
// dimension.
#include "tests/engine/op_cases.h"

namespace recollect::test {

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  add_table_cases(cases);
  add_first_token_cases(cases);
  add_rotary_cases(cases);
  add_pointwise_cases(cases);
  add_norm_cases(cases);
  add_linear_cases(cases);
  add_attention_cases(cases);
  add_lm_head_cases(cases);
  add_label_loss_cases(cases);
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
  };
  for (const auto& [name, samples, length, width, rows, first, tokens, ids] :
       {Type{"small", 2, 3, 7, 2, 0, 6, 2}, Type{"later_tokens", 2, 5, 7, 3, 4, 5, 3},
        Type{"one_token", 1, 1, 1, 1, 0, 1, 1}, Type{"outside", 2, 7, 5, 2, 0, 14, 5},
        Type{"large", 2, 65, 96, 3, 0, 130, 3}, Type{"frequent", 9, 129, 16, 2, 5, 1100, 2},
        Type{"many_rows", 3, 65, 24, 37, 0, 195, 40}}) {
    const ValueSpec id{.name = "ids",
                       .shape = {samples, length},
                       .storage = Storage::kI32,
                       .fill = Fill::kIds,
                       .limit = ids};
    const Attributes attributes{{"first_token", first}};
    cases.push_back({.name = std::string("add_embedding_") + name,
                     .kind = "add_embedding",
                     .inputs = {activation("x", {tokens, width}), id, activation("table", {rows, width})},
                     .attributes = attributes,
                     .differentiable = {0, 2}});
    add_both(cases, {.name = std::string("add_embedding_backward_") + name,
                     .kind = "add_embedding_backward",
                     .inputs = {activation("dy", {tokens, width}), id},
                     .attributes = attributes,
                     .accumulators = {{0, statistic("dtable", {rows, width})}}});
  }
}

void add_first_token_cases(std::vector<OpCase>& cases) {
  struct Part {
    const char* name;
    int64_t samples, length, width, first, tokens;
  };
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
  }
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
  struct Heads {
    const char* name;
    int64_t samples, length, size, rotated, width;
  };
  for (const auto& [name, samples, length, size, rotated, width] :
       {Heads{"small", 2, 3, 4, 1, 4}, Heads{"some_heads", 2, 3, 6, 2, 19}, Heads{"length_1", 3, 1, 2, 3, 6},
        Heads{"odd_half", 1, 5, 10, 1, 33}, Heads{"large", 2, 65, 64, 3, 320},
        Heads{"wide_head", 1, 7, 1040, 2, 3120}, Heads{"no_whole_vectors", 2, 17, 24, 5, 150}}) {
    for (const int64_t inverse : {0, 1})
      cases.push_back(
          {.name = std::string("rotary_") + name + (inverse ? "_inverse" : ""),
           .kind = "rotary",
           .inputs = {activation("x", {samples * length, width}), statistic("table", {length, size})},
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

    forward = {.name = std::string("rms_norm_") + name,
               .kind = "rms_norm",
               .inputs = {x, weight},
               .attributes = attributes,
               .differentiable = {0, 1}};
    cases.push_back(forward);
    forward.name += "_with_residual";
    forward.used_elsewhere = 0;
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
  }
}

void add_attention_cases(std::vector<OpCase>& cases) {
  struct Size {
    const char* name;
    int64_t samples, length, heads, size, first_head, all_heads;
    double p;
  };
  for (const auto& [name, samples, length, heads, size, first_head, all_heads, p] :
       {Size{"small", 1, 5, 1, 3, 0, 1, 0}, Size{"two_heads", 2, 5, 2, 3, 0, 2, 0},
        Size{"dropout", 2, 5, 2, 3, 0, 2, 0.3}, Size{"later_heads_dropout", 1, 5, 2, 3, 2, 4, 0.3},
        Size{"length_1", 3, 1, 2, 3, 0, 2, 0}, Size{"length_1_dropout", 3, 1, 2, 3, 0, 2, 0.3},
        Size{"size_1", 1, 4, 2, 1, 0, 2, 0}, Size{"large", 2, 65, 3, 32, 0, 3, 0},
        Size{"large_dropout", 2, 65, 3, 32, 3, 6, 0.1}, Size{"long", 1, 200, 1, 64, 0, 1, 0},
        Size{"wide_head_dropout", 1, 37, 1, 100, 0, 1, 0.1}, Size{"wider_head", 1, 37, 1, 160, 0, 1, 0.1},
        Size{"whole_groups_dropout", 1, 128, 2, 16, 0, 2, 0.3}}) {
    const int64_t tokens = samples * length, width = heads * size;
    const Attributes attributes{
        {"heads", heads},           {"head_size", size},      {"sequence_length", length},
        {"first_head", first_head}, {"all_heads", all_heads}, {"p", p},
        {"layer", int64_t{3}},      {"site", int64_t{2}}};
    cases.push_back({.name = std::string("attention_") + name,
                     .kind = "attention",
                     .inputs = {activation("qkv", {tokens, 3 * width})},
                     .attributes = attributes,
                     .differentiable = {0},
                     .bf16_roundings = 2});
    cases.push_back(
        {.name = std::string("attention_backward_") + name,
         .kind = "attention_backward",
         .inputs = {activation("do", {tokens, width}), activation("qkv", {tokens, 3 * width}),
                    activation("o", {tokens, width}), statistic("lse", {samples * heads, length})},
         .attributes = attributes,
         .derived = {{.kind = "attention", .from = {1}, .inputs = {{0, 2}, {1, 3}}}},
         .bf16_roundings = 2});
  }
}

}  // namespace recollect::test
