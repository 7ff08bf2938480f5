// Layers as they stand in the graph: names, shapes and splits, on one rank and on several.
#include <gtest/gtest.h>

#include "comm/collective_ops.h"
#include "engine/graph/join_ops.h"
#include "engine/ops/ops.h"
#include "parallel/layers.h"
#include "parallel/optimizers/eight_bit.h"
#include "tests/engine/expect_error.h"

namespace recollect::test::layers_test {
namespace {

constexpr BatchShape kBatch{.samples = 2, .sequence_length = 6};
constexpr int64_t kTokens = 12, kWidth = 8;

struct Built {
  explicit Built(ParallelLayout layout = {}, DType dtype = DType::kF32, const BatchShape& batch = kBatch)
      : layers((register_engine_ops(registry), register_comm_ops(registry), graph), registry, layout, dtype,
               batch) {
    const bool divided = layout.sequence_parallel;
    x = graph.add_value({.name = "x",
                         .shape = {divided ? kTokens / layout.tensor_size : kTokens, kWidth},
                         .dtype = dtype,
                         .category = Category::kInput,
                         .persistent = true});
  }
  std::vector<std::string> ops() const {
    std::vector<std::string> names;
    for (const Op& op : graph.ops()) names.push_back(op.def->name + " " + op.name);
    return names;
  }
  Parameter parameter(const std::string& name) const {
    for (const Parameter& p : layers.parameters())
      if (p.name == name) return p;
    throw std::runtime_error("no parameter " + name);
  }
  Shape shape(ValueId value) const { return graph.value(value).shape; }

  OpRegistry registry;
  Graph graph;
  LayerBuilder layers;
  ValueId x = kNone;
};

using Names = std::vector<std::string>;

TEST(Layers, FewerKeyHeadsMakeANarrowerInput) {
  const AttentionOptions grouped{.heads = 4, .head_size = 2, .kv_heads = 2};
  EXPECT_EQ(grouped.blocks(), (std::vector<int64_t>{8, 4, 4}));
  EXPECT_EQ((AttentionOptions{.heads = 4, .head_size = 2}.blocks()), (std::vector<int64_t>{8, 8, 8}));
  Built built({1, 2, false});
  const ValueId qkv = built.layers.column_linear("qkv", built.x, 16,
                                                 {.weight = "qkv.weight",
                                                  .bias = "qkv.bias",
                                                  .blocks = grouped.blocks(),
                                                  .weight_blocks = {"q.weight", "k.weight", "v.weight"},
                                                  .bias_blocks = {"q.bias", "k.bias", "v.bias"}});
  EXPECT_EQ(built.shape(qkv), (Shape{kTokens, 8}));
  const Parameter& weight = built.parameter("qkv.weight");
  EXPECT_EQ(built.shape(weight.value), (Shape{8, kWidth}));
  std::vector<int64_t> rows;  // of rank 1: the second half of each block
  for (int64_t r = 0; r < 8; ++r) rows.push_back(weight.place_of_row(r, 1, 2).row);
  EXPECT_EQ(rows, (std::vector<int64_t>{4, 5, 6, 7, 10, 11, 14, 15}));
  EXPECT_EQ(weight.place_of_row(1, 1, 2).together, 3);
  EXPECT_EQ(weight.place_of_row(4, 1, 2).tensor, 1u);
  const auto tensors = built.parameter("qkv.bias").file_tensors();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[2].name, "v.bias");
  EXPECT_EQ(tensors[2].first_row, 12);
  EXPECT_EQ(tensors[2].rows, 4);
}

TEST(Layers, AttentionSaysWhatItSees) {
  Built built({1, 2, false});
  const ValueId qkv = built.layers.column_linear("qkv", built.x, 32, {.weight = "w"});
  const ValueId lengths = built.graph.add_value(
      {.name = "lengths", .shape = {2}, .dtype = DType::kI32, .category = Category::kInput});
  const ValueId o = built.layers.attention(
      "core", qkv, {.heads = 8, .head_size = 2, .kv_heads = 4, .causal = false, .lengths = lengths});
  EXPECT_EQ(built.shape(o), (Shape{kTokens, 8}));
  const Op& op = built.graph.ops().back();
  EXPECT_EQ(op.inputs, (std::vector<ValueId>{qkv, kNone, lengths}));
  const std::map<std::string, int64_t> expected = {{"heads", 4},     {"kv_heads", 2},       {"kv_group", 2},
                                                   {"causal", 0},    {"first_head", 4},     {"all_heads", 8},
                                                   {"head_size", 2}, {"sequence_length", 6}};
  for (const auto& [name, value] : expected) EXPECT_EQ(op.attributes.integer(name), value) << name;
}

// Four ranks of two query heads; two of them hold the same key/value head.
TEST(Layers, MoreRanksThanKeyHeadsHoldThemRepeatedly) {
  Built built({3, 4, false});
  const ValueId q = built.layers.column_linear("q", built.x, 16, {.weight = "q"});
  const auto part = [&](const char* name, int64_t heads) {
    return built.graph.add_value({.name = name, .shape = {kTokens, 2 * heads * 2}});
  };
  const ValueId kv = part("kv", 1);
  const AttentionOptions options{.heads = 8, .head_size = 2, .kv_heads = 2, .kv = kv};
  EXPECT_EQ(built.shape(built.layers.attention("core", q, options)), (Shape{kTokens, 4}));
  const Op& op = built.graph.ops().back();
  EXPECT_EQ(op.inputs, (std::vector<ValueId>{q, kv}));
  EXPECT_EQ(op.attributes.integer("kv_heads"), 1);
  EXPECT_EQ(op.attributes.integer("kv_group"), 4);
  EXPECT_EQ(op.attributes.integer("first_head"), 6);
  AttentionOptions wide = options;
  wide.kv = part("wide", 2);
  expect_error(ExitCode::kInternal, {"core", "wide", "expected [12, 4]"},
               [&] { built.layers.attention("core", q, wide); });
}

// On one rank queries, keys and values are one parameter; on four queries are one of their own.
TEST(Layers, StatesOfAttentionHaveTheSameWidthOnAnyRanks) {
  for (const auto& [head_size, quantised] : {std::pair<int64_t, bool>{32, false}, {256, true}})
    for (const int ranks : {1, 4}) {
      Built built({0, ranks, false});
      built.layers.self_attention("attn", built.x, {.heads = 16, .head_size = head_size, .kv_heads = 2},
                                  {.weight = "qkv", .weight_blocks = {"q", "k", "v"}});
      for (const Parameter& p : built.layers.parameters())
        EXPECT_EQ(is_quantised(p), quantised) << p.name << " of " << ranks << " ranks";
      EXPECT_EQ(built.layers.parameters().size(), ranks == 1 ? 1u : 2u);
    }
}

TEST(Layers, HeadsThatRanksCannotShareAreRefused) {
  const auto refused = [](int ranks, int64_t heads, int64_t key_heads, bool own, const char* why) {
    Built built({0, ranks, false});
    AttentionOptions options{.heads = heads, .head_size = 2, .kv_heads = key_heads};
    if (own) options.kv = built.x;
    expect_error(ExitCode::kConfiguration, {"core", why},
                 [&] { built.layers.attention("core", built.x, options); });
  };
  refused(1, 6, 4, false, "6 heads do not share 4 key/value heads evenly");
  refused(4, 6, 6, false, "4 tensor ranks do not divide 6 heads");
  refused(4, 8, 2, false, "4 tensor ranks do not divide 2 key/value heads");
  refused(4, 12, 6, true, "4 tensor ranks do not divide 6 key/value heads");
}

TEST(Layers, WhatNoKernelCanDoIsAnErrorThatNamesIt) {
  const auto refused = [](const char* named, const auto& use) {
    Built built;
    expect_error(ExitCode::kInternal, {named}, [&] { use(built.layers, built.x); });
  };
  refused("RMS normalisation with a bias", [](LayerBuilder& b, ValueId x) {
    b.norm("n", x, {.kind = NormKind::kRms, .weight = "w", .bias = "b"});
  });
  refused("without a bias", [](LayerBuilder& b, ValueId x) {
    b.mlp("mlp", x, {.inner = 4, .up = {.weight = "u"}, .down = {.weight = "d"}});
  });
}

// Llama's: nothing has a bias, and a gate stands beside what it multiplies.
TEST(Layers, AGatedMlpOfRmsNorms) {
  const MlpOptions options{.inner = 16,
                           .gated = true,
                           .up = {.weight = "gate_up.weight", .weight_blocks = {"gate.weight", "up.weight"}},
                           .down = {.weight = "down.weight"}};
  for (const double p : {0.0, 0.1}) {
    Built built({1, 2, true});
    const ValueId n = built.layers.norm("norm", built.x, {.kind = NormKind::kRms, .weight = "norm.weight"});
    const ValueId y = built.layers.residual("sum", built.layers.mlp("mlp", n, options), built.x, "", p);
    EXPECT_EQ(built.shape(y), built.shape(built.x));
    Names want{"rms_norm norm",  "all_gather mlp/fc1/enter",   "linear mlp/fc1", "swiglu mlp/swiglu",
               "linear mlp/fc2", "reduce_scatter mlp/fc2/sum", "add sum"};
    if (p > 0) want.insert(want.end() - 1, "dropout sum/dropout");
    EXPECT_EQ(built.ops(), want);
    const Parameter& up = built.parameter("gate_up.weight");
    EXPECT_EQ(built.shape(up.value), (Shape{16, kWidth}));  // of rank 1: the second half of either
    EXPECT_EQ(up.place_of_row(0, 1, 2).row, 8);
    EXPECT_EQ(up.place_of_row(8, 1, 2).row, 24);
    EXPECT_EQ(up.file_tensors().at(1).name, "up.weight");
    EXPECT_EQ(built.layers.parameters().size(), 3u);
    EXPECT_TRUE(built.parameter("norm.weight").partial_gradient);
  }
}

TEST(Layers, ProductsOfCodesAreThoseOfQuantisedOperands) {
  for (const bool sequence_parallel : {false, true}) {
    Built built({1, 2, sequence_parallel});
    built.layers.multiply_in_fp8({.on = true});
    const ValueId y = built.layers.mlp(
        "mlp", built.layers.norm("norm", built.x, {.weight = "n.weight", .bias = "n.bias"}),
        {.inner = 16, .up = {.weight = "u.weight", .bias = "u.bias"}, .down = {.weight = "d.weight"}});
    EXPECT_EQ(built.shape(y), built.shape(built.x));
    const Names want{
        "layer_norm norm",     sequence_parallel ? "all_gather mlp/fc1/enter" : "copy_to_ranks mlp/fc1/enter",
        "quantise mlp/fc1/x8", "quantise mlp/fc1/w8",
        "linear_fp8 mlp/fc1",  "bias_gelu mlp/gelu",
        "quantise mlp/fc2/x8", "quantise mlp/fc2/w8",
        "linear_fp8 mlp/fc2",  sequence_parallel ? "reduce_scatter mlp/fc2/sum" : "all_reduce mlp/fc2/sum"};
    EXPECT_EQ(built.ops(), want);
    const auto copies = [&](int op) { return built.graph.op(op).attributes.text("copies"); };
    EXPECT_EQ(copies(2), sequence_parallel ? "rows" : "both") << "what is gathered again is quantised again";
    EXPECT_EQ(copies(3), "rows");
    EXPECT_EQ(copies(6), "both");
    Names joined = want;
    joined[5] = "bias_gelu_quantise mlp/gelu";
    joined.erase(joined.begin() + 6);
    if (!sequence_parallel) {  // each rank has the whole norm
      joined[0] = "layer_norm_quantise norm";
      joined.erase(joined.begin() + 2);
    }
    join_ops(built.graph, built.registry);
    EXPECT_EQ(built.ops(), joined);
  }
}

// Both forms of a weight's; those of an activation are of its micro-batch.
TEST(Layers, CodesOfWeightsMayLastAStep) {
  Built built;
  built.layers.multiply_in_fp8({.on = true, .keeps_trained = true});
  built.layers.mlp(
      "mlp", built.x,
      {.inner = 16, .up = {.weight = "u.weight", .bias = "u.bias"}, .down = {.weight = "d.weight"}});
  int weights = 0;
  for (const Op& op : built.graph.ops()) {
    if (op.def->name != "quantise") continue;
    const bool of_weight = built.graph.value(op.inputs[0]).category == Category::kParameter;
    weights += of_weight ? 1 : 0;
    EXPECT_EQ(op.attributes.text("copies"), "both") << op.name;
    EXPECT_EQ(op.when, of_weight ? RunWhen::kFirstMicroBatch : RunWhen::kAlways) << op.name;
    for (const ValueId codes : op.outputs) {
      EXPECT_EQ(built.graph.value(codes).persistent, of_weight) << op.name;
      EXPECT_EQ(built.graph.value(codes).category, of_weight ? Category::kParameter : Category::kActivation);
    }
  }
  EXPECT_EQ(weights, 2);
}

TEST(Layers, CodesOfWeightsThatAreTrainedAreNoFrozenOnes) {
  for (const bool adapts : {false, true}) {
    Built built;
    if (adapts) built.layers.adapt({.rank = 2, .targets = {"u"}});
    built.layers.multiply_in_fp8({.on = true, .keeps_frozen = true});
    built.layers.mlp(
        "mlp", built.x,
        {.inner = 16, .up = {.weight = "u.weight", .bias = "u.bias"}, .down = {.weight = "d.weight"}});
    int kept = 0;
    for (const Op& op : built.graph.ops()) kept += op.when == RunWhen::kFirstMicroBatch ? 1 : 0;
    EXPECT_EQ(kept, adapts ? 2 : 0);
  }
}

TEST(Layers, ABiasOfTheHeadIsDividedAsItsTableIs) {
  Built built({1, 2, false});
  const ValueId table = built.layers.vocabulary_table("wte", 61, kWidth, 0.02);
  const Model model{.inputs = {{"targets", built.layers.token_input("targets")}},
                    .scale = built.layers.loss_scale_input(),
                    .loss = built.layers.loss_accumulator()};
  EXPECT_EQ(
      built.layers.vocabulary_head("head", built.x, table, model, {.vocabulary = 61, .bias = "head.bias"}),
      kNone);
  const Parameter& bias = built.parameter("head.bias");
  EXPECT_EQ(built.shape(bias.value), (Shape{64}));
  EXPECT_EQ(bias.rows, 61);
  EXPECT_EQ(bias.padded_rows, 128);
  EXPECT_EQ(built.graph.ops().back().inputs.at(4), bias.value);
}

// Positions are given, keys and values persist, nothing is dropped, and of all tokens only the last has logits.
TEST(Layers, TokensThatContinueASequenceReadACache) {
  constexpr int64_t kNew = 3, kCapacity = 9;
  Built built({1, 2, false}, DType::kBF16,
              {.samples = 1, .sequence_length = kNew, .cache_capacity = kCapacity});
  LayerBuilder& layers = built.layers;
  ValueId x = layers.input("x", {kNew, kWidth}, DType::kBF16);
  x = layers.position_embedding("positions", x, layers.replicated_table("wpe", kCapacity, kWidth, 0.02));
  EXPECT_EQ(layers.dropout("dropout", x, 0.5), x);
  layers.enter_layer(4);
  const ValueId o = layers.attention("core", x, {.heads = 4, .head_size = 2, .kv_heads = 2, .dropout = 0.5});
  layers.enter_layer(-1);
  const ValueId table = layers.vocabulary_table("wte", 61, kWidth, 0.02);
  const ValueId logits = layers.vocabulary_head("head", x, table, {}, {.vocabulary = 61});
  EXPECT_EQ(built.ops(), (Names{"add_embedding positions", "cached_attention layer4/core", "lm_logits head",
                                "gather_from_ranks head/all"}));
  EXPECT_EQ(built.graph.op(0).inputs.at(1), layers.positions());
  EXPECT_EQ(built.shape(o), (Shape{kNew, 4}));
  const Op& attention = built.graph.op(1);
  EXPECT_EQ(attention.inputs.at(2), layers.filled());
  for (const int output : {1, 2}) {
    const Value& cache = built.graph.value(attention.outputs.at(static_cast<std::size_t>(output)));
    EXPECT_EQ(cache.shape, (Shape{1, kCapacity, 2}));
    EXPECT_EQ(cache.dtype, DType::kBF16);
    EXPECT_EQ(cache.category, Category::kCache);
    EXPECT_TRUE(cache.persistent);
    EXPECT_TRUE(cache.placement.is_sharded_over(kTensorAxis));
  }
  EXPECT_EQ(built.shape(logits), (Shape{128}));
  EXPECT_EQ(built.graph.value(logits).dtype, DType::kF32);
  EXPECT_EQ(built.graph.value(logits).placement, Placement());
}

// Under sequence parallelism the first token of the second sample is rank 1's, and every rank gets both.
TEST(Layers, FirstTokensAreWholeOnEveryRank) {
  Built one;
  EXPECT_EQ(one.shape(one.layers.first_tokens("first", one.x)), (Shape{2, kWidth}));
  EXPECT_EQ(one.ops(), (Names{"first_tokens first"}));
  Built two({1, 2, true});
  const ValueId first = two.layers.first_tokens("first", two.x);
  EXPECT_EQ(two.ops(), (Names{"first_tokens first", "all_reduce first/sum"}));
  EXPECT_EQ(two.graph.op(0).attributes.integer("first_token"), 6);
  EXPECT_EQ(two.graph.value(first).placement, Placement());
  const ValueId types = two.layers.token_types("types", two.x, two.layers.token_input("token_type_ids"),
                                               two.layers.replicated_table("types.weight", 2, kWidth, 0.02));
  EXPECT_EQ(two.shape(types), two.shape(two.x));
  EXPECT_EQ(two.graph.ops().back().attributes.integer("first_token"), 6);
  EXPECT_EQ(one.layers.all_tokens("all", one.x), one.x);
  EXPECT_EQ(two.shape(two.layers.all_tokens("all", two.x)), (Shape{kTokens, kWidth}));
  EXPECT_EQ(two.graph.ops().back().def->name, "gather_from_ranks");
}

TEST(Layers, AnEmbeddingMayHaveAPaddingId) {
  for (const int64_t padding : {-1, 0, 7}) {
    Built built;
    const ValueId table = built.layers.vocabulary_table("wte", 61, kWidth, 0.02);
    built.layers.vocabulary_embedding("tokens", built.layers.token_input("ids"), table, padding);
    const Attributes& attributes = built.graph.op(0).attributes;
    EXPECT_EQ(attributes.has("padding_id"), padding >= 0);
    if (padding >= 0) {
      EXPECT_EQ(attributes.integer("padding_id"), padding);
    }
  }
}

TEST(Layers, HeadsTurnByATableOfTheStatisticsDtype) {
  for (const DType dtype : {DType::kBF16, DType::kF64}) {
    Built built({}, dtype);
    const ValueId table = built.layers.rotary_table("positions", {.turned = 4, .theta = 10000});
    EXPECT_EQ(built.shape(table), (Shape{6, 4}));
    EXPECT_EQ(built.graph.value(table).dtype, dtype == DType::kF64 ? DType::kF64 : DType::kF32);
    EXPECT_EQ(built.shape(built.layers.rotary("turn", built.x, table, 2, 4)), built.shape(built.x));
  }
}

// The sequence lengths of a packed batch are not known when its program is made.
TEST(Layers, PositionsThatGoByTheLengthAreNotPackedBeyondTheEarlierOne) {
  Built built({}, DType::kF32);
  const ValueId positions = built.layers.token_input("positions");
  const auto table = [&](int64_t earlier) {
    return built.layers.rotary_table(
        "table", {.turned = 4, .scaling = "dynamic", .factor = 2, .original_positions = earlier}, positions);
  };
  EXPECT_EQ(built.graph.value(table(6)).shape[1], 4);
  expect_error(ExitCode::kConfiguration, {"type dynamic", "6 packed tokens", "at most 5"}, [&] { table(5); });
}

TEST(Layers, AnMlpIsThreeOpsAndTheirCollectives) {
  const MlpOptions options{
      .inner = 16,
      .up = {.weight = "up.weight", .bias = "up.bias"},
      .down = {.weight = "down.weight", .bias = "down.bias", .transposed_in_file = true}};
  Built one;
  one.layers.enter_layer(3);
  EXPECT_EQ(one.shape(one.layers.mlp("mlp", one.x, options)), (Shape{kTokens, kWidth}));
  EXPECT_EQ(one.ops(),
            (Names{"linear layer3/mlp/fc1", "bias_gelu layer3/mlp/gelu", "linear layer3/mlp/fc2"}));

  Built four({3, 4, true});
  four.layers.enter_layer(3);
  EXPECT_EQ(four.shape(four.layers.mlp("mlp", four.x, options)), (Shape{kTokens / 4, kWidth}));
  EXPECT_EQ(four.ops(),
            (Names{"all_gather layer3/mlp/fc1/enter", "linear layer3/mlp/fc1", "bias_gelu layer3/mlp/gelu",
                   "linear layer3/mlp/fc2", "reduce_scatter layer3/mlp/fc2/sum"}));
  const Parameter &up = four.parameter("up.weight"), &down = four.parameter("down.weight");
  EXPECT_EQ(four.shape(up.value), (Shape{4, kWidth}));
  EXPECT_EQ(four.shape(down.value), (Shape{kWidth, 4}));
  EXPECT_EQ(up.file_shape(up.file_tensors()[0]), (std::vector<int64_t>{16, kWidth}));
  EXPECT_EQ(down.file_shape(down.file_tensors()[0]), (std::vector<int64_t>{16, kWidth}));  // [in, out]
  EXPECT_FALSE(up.partial_gradient);
}

// In the tanh form alone, where nothing stands between the product and GELU. Parameters are those of two ops, in their order.
TEST(Layers, AnMlpsGeluMayBePartOfItsProduct) {
  MlpOptions options{
      .inner = 16, .up = {.weight = "up.weight", .bias = "up.bias"}, .down = {.weight = "down.weight"}};
  const auto ops = [&](const LoraSettings& lora, const BatchShape& batch = kBatch) {
    Built built({}, DType::kF32, batch);
    built.layers.adapt(lora);
    built.layers.make_gelu_in_products(true);
    built.layers.mlp("mlp", built.x, options);
    Names names;
    for (const std::string& op : built.ops())
      if (op.find("lora") == std::string::npos) names.push_back(op);
    return names;
  };
  const Names one{"linear_gelu mlp/fc1", "linear mlp/fc2"},
      two{"linear mlp/fc1", "bias_gelu mlp/gelu", "linear mlp/fc2"};
  EXPECT_EQ(ops({}), one);
  EXPECT_EQ(ops({}, {.samples = 2, .sequence_length = 6, .cache_capacity = 9}), two);
  const auto with_adapters = [&](const char* module) {
    return ops({.rank = 2, .targets = {module}}).front();
  };
  EXPECT_EQ(with_adapters("up"), two.front());
  EXPECT_EQ(with_adapters("down"), one.front());
  options.activation = "erf";
  EXPECT_EQ(ops({}), two);

  Built four({3, 4, true});
  options.activation = "tanh";
  four.layers.make_gelu_in_products(true);
  EXPECT_EQ(four.shape(four.layers.mlp("mlp", four.x, options)), (Shape{kTokens / 4, kWidth}));
  EXPECT_EQ(four.ops(), (Names{"all_gather mlp/fc1/enter", "linear_gelu mlp/fc1", "linear mlp/fc2",
                               "reduce_scatter mlp/fc2/sum"}));
  EXPECT_EQ(four.shape(four.parameter("up.bias").value), (Shape{4}));
  EXPECT_EQ(four.layers.parameters().at(1).name, "up.bias");
}

TEST(Layers, WhatIsWholeHasAPartOfItsGradientUnderSequenceParallelism) {
  for (const bool sequence_parallel : {false, true}) {
    Built built({0, 2, sequence_parallel}, DType::kBF16);
    built.layers.norm("norm", built.x, {.weight = "n.weight", .bias = "n.bias"});
    built.layers.residual("residual", built.x, built.x, "r.bias", 0.1);
    for (const char* name : {"n.weight", "n.bias", "r.bias"}) {
      const Parameter& p = built.parameter(name);
      EXPECT_EQ(p.partial_gradient, sequence_parallel) << name;
      EXPECT_EQ(built.graph.value(p.value).dtype, DType::kF32) << name;
    }
    EXPECT_EQ(built.parameter("n.weight").init, Parameter::Init::kOne);
  }
}

TEST(Layers, AVocabularyIsPaddedForAllRanks) {
  Built built({1, 2, false});
  const ValueId table = built.layers.vocabulary_table("wte", 61, kWidth, 0.02);
  EXPECT_EQ(built.shape(table), (Shape{64, kWidth}));
  const Parameter& p = built.parameter("wte");
  EXPECT_EQ(p.padded_rows, 128);
  EXPECT_EQ(p.place_of_row(0, 1, 2).row, 64);  // nothing but padding
  EXPECT_EQ(p.place_of_row(60, 0, 2).together, 4);
}

// Two heads of 4 rows: query, key and value of the first head, then those of the second.
TEST(Layers, InterleavedBlocksTakeTurnsInTheFile) {
  Parameter p{.name = "qkv",
              .rows = 24,
              .padded_rows = 24,
              .split = Parameter::Split::kRows,
              .blocks = {8, 8, 8},
              .interleaved = 4};
  for (const int64_t rank : {0, 1})
    for (int64_t r = 0; r < 12; ++r) {
      const Parameter::RowPlace place = p.place_of_row(r, static_cast<int>(rank), 2);
      EXPECT_EQ(place.row, rank * 12 + r);
      EXPECT_EQ(place.together, 4 - r % 4);
    }
  for (const auto& [local, row] : {std::pair<int64_t, int64_t>{0, 0}, {5, 13}, {8, 4}, {15, 19}, {23, 23}})
    EXPECT_EQ(p.place_of_row(local, 0, 1).row, row) << local;
}

}  // namespace
}  // namespace recollect::test::layers_test
