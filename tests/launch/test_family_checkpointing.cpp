// With BERT and Llama, too, every checkpointing mode and switch gives the bits of none, in the memory that was
// predicted. (test_checkpointing.cpp has more layouts of GPT-2.)
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/launch/modes.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::family_checkpointing_test {
namespace {

using Words = std::vector<std::string>;

// Dropout wherever the family has it. Four layers are enough for every mode to have something to do.
const char* const kBert = R"(
task: token_classification
model: {type: bert, vocab_size: 41, hidden_size: 20, num_hidden_layers: 4, num_attention_heads: 4,
        intermediate_size: 28, max_position_embeddings: 12, num_labels: 3, initializer_range: 0.2}
training: {micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
data: {format: random, sequence_length: 12}
)";
const char* const kMaskedBert = R"(
task: masked_lm
model: {type: bert, vocab_size: 41, hidden_size: 20, num_hidden_layers: 4, num_attention_heads: 4,
        intermediate_size: 28, max_position_embeddings: 12, initializer_range: 0.2}
training: {micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
data: {format: random, sequence_length: 12, mask_token: 3, mask_probability: 0.4}
)";
// Of four tensor ranks two hold the same key/value head each.
const char* const kLlama = R"(
model: {type: llama, vocab_size: 41, hidden_size: 20, num_hidden_layers: 4, num_attention_heads: 4,
        num_key_value_heads: 2, head_dim: 6, intermediate_size: 28, max_position_embeddings: 12,
        attention_dropout: 0.1, initializer_range: 0.2}
training: {micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
data: {format: random, sequence_length: 12}
)";

// Norms of heads, whose weights every tensor rank has.
const char* const kQwen3 = R"(
model: {type: qwen3, vocab_size: 41, hidden_size: 20, num_hidden_layers: 4, num_attention_heads: 4,
        num_key_value_heads: 2, head_dim: 6, intermediate_size: 28, max_position_embeddings: 12,
        initializer_range: 0.2}
training: {micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
data: {format: random, sequence_length: 12}
)";

// Layers of two kinds: with windows of four tokens, and without.
const char* const kWindows = R"(
model: {type: qwen2, vocab_size: 41, hidden_size: 20, num_hidden_layers: 4, num_attention_heads: 4,
        num_key_value_heads: 2, head_dim: 6, intermediate_size: 28, max_position_embeddings: 12,
        attention_dropout: 0.1, initializer_range: 0.2, use_sliding_window: true, sliding_window: 4,
        layer_types: "sliding_attention,full_attention,sliding_attention,full_attention"}
training: {micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
data: {format: random, sequence_length: 12}
)";

// MLP and attention read the same input.
const char* const kNeox = R"(
model: {type: gpt_neox, vocab_size: 41, hidden_size: 32, num_hidden_layers: 4, num_attention_heads: 4,
        intermediate_size: 28, max_position_embeddings: 12, hidden_dropout: 0.1, initializer_range: 0.2}
training: {micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
data: {format: random, sequence_length: 12}
)";

const char* const kGemma = R"(
model: {type: gemma2, vocab_size: 41, hidden_size: 20, num_hidden_layers: 4, num_attention_heads: 4,
        num_key_value_heads: 2, head_dim: 6, intermediate_size: 28, max_position_embeddings: 12,
        attention_dropout: 0.1, initializer_range: 0.2, sliding_window: 4, query_pre_attn_scalar: 7,
        attn_logit_softcapping: 2, final_logit_softcapping: 3}
training: {micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
data: {format: random, sequence_length: 12}
)";

// Two kinds of rotary positions, norms of heads.
const char* const kGemma3 = R"(
model: {type: gemma3_text, vocab_size: 41, hidden_size: 20, num_hidden_layers: 4, num_attention_heads: 4,
        num_key_value_heads: 2, head_dim: 6, intermediate_size: 28, max_position_embeddings: 12,
        attention_dropout: 0.1, initializer_range: 0.2, sliding_window: 4, sliding_window_pattern: 2,
        query_pre_attn_scalar: 7, rope_theta: 300, rope_local_base_freq: 50}
training: {micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
data: {format: random, sequence_length: 12}
)";

// Queries, keys and values are one tensor in files; a part of each head is rotated.
const char* const kPhi3 = R"(
model: {type: phi3, vocab_size: 41, hidden_size: 32, num_hidden_layers: 4, num_attention_heads: 4,
        num_key_value_heads: 2, intermediate_size: 28, max_position_embeddings: 12, pad_token_id: -1,
        attention_dropout: 0.1, resid_pdrop: 0.1, initializer_range: 0.2, sliding_window: 5,
        partial_rotary_factor: 0.75}
training: {micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
data: {format: random, sequence_length: 12}
)";

const char* const kRoberta = R"(
task: sequence_classification
model: {type: roberta, vocab_size: 41, hidden_size: 20, num_hidden_layers: 4, num_attention_heads: 4,
        intermediate_size: 28, max_position_embeddings: 14, num_labels: 3, initializer_range: 0.2}
training: {micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
data: {format: random, sequence_length: 12}
)";
const char* const kDistilbert = R"(
task: sequence_classification
model: {type: distilbert, vocab_size: 41, dim: 20, n_layers: 4, n_heads: 4, hidden_dim: 28,
        max_position_embeddings: 12, num_labels: 3, initializer_range: 0.2, sinusoidal_pos_embds: true}
training: {micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
data: {format: random, sequence_length: 12}
)";
const char* const kModernbert = R"(
task: sequence_classification
model: {type: modernbert, vocab_size: 41, hidden_size: 24, num_hidden_layers: 4, num_attention_heads: 4,
        intermediate_size: 28, max_position_embeddings: 12, num_labels: 3, initializer_range: 0.2, pad_token_id: 2,
        local_attention: 4, classifier_pooling: mean, embedding_dropout: 0.1, attention_dropout: 0.1,
        mlp_dropout: 0.1, classifier_dropout: 0.1}
training: {micro_batch_size: 2, global_batch_size: 4, max_steps: 2, seed: 7}
data: {format: random, sequence_length: 12}
)";

struct Case {
  const char *name, *yaml, *precision;
  int tensor;
  bool sequence_parallel;
};

class FamilyModes : public testing::TestWithParam<Case> {
 protected:
  Words layout() const {
    const Case& c = GetParam();
    const std::string ranks = std::to_string(c.tensor);
    Words words{"device.threads=1", "training.precision=" + std::string(c.precision),
                "parallelism.tensor_parallel_size=" + ranks, "parallelism.ranks_per_process=" + ranks};
    if (c.sequence_parallel) words.push_back("parallelism.sequence_parallel=true");
    return words;
  }
  void expect_bits(const Trained& none, const Words& more, const std::string& what) const {
    Words words = layout();
    words.insert(words.end(), more.begin(), more.end());
    expect_same_bits(none, train(GetParam().yaml, words), what);
  }
};

TEST_P(FamilyModes, GiveTheBitsOfNone) {
  const Trained none = train(GetParam().yaml, layout());
  EXPECT_EQ(none.predicted, none.measured);
  const bool divides = GetParam().tensor > 1 && !GetParam().sequence_parallel;
  for (const std::string_view mode : kModes) {
    const Words words = mode_words(mode);
    if (mode != "none") expect_bits(none, words, std::string(mode));
    for (const bool host : {false, true})
      for (const bool partition : {false, true}) {
        if ((!host && !partition) || (partition && !divides)) continue;
        Words switched = words;
        if (host) switched.push_back(ac("cpu_checkpointing=true"));
        if (partition) switched.push_back(ac("partition_activations=true"));
        expect_bits(none, switched,
                    std::string(mode) + (host ? "+host" : "") + (partition ? "+partition" : ""));
      }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FamilyModes,
    testing::Values(
        Case{"Bert", kBert, "fp32", 1, false}, Case{"BertTensor2Sequence", kBert, "bf16", 2, true},
        Case{"MaskedBertTensor2", kMaskedBert, "fp32", 2, false}, Case{"Llama", kLlama, "bf16", 1, false},
        Case{"LlamaTensor2Sequence", kLlama, "fp32", 2, true}, Case{"LlamaTensor4", kLlama, "fp32", 4, false},
        Case{"NeoxTensor2Sequence", kNeox, "bf16", 2, true}, Case{"Qwen3", kQwen3, "bf16", 1, false},
        Case{"Qwen3Tensor4Sequence", kQwen3, "fp32", 4, true},
        Case{"WindowsTensor2Sequence", kWindows, "bf16", 2, true}, Case{"Gemma", kGemma, "bf16", 1, false},
        Case{"GemmaTensor2Sequence", kGemma, "fp32", 2, true}, Case{"Gemma3", kGemma3, "bf16", 1, false},
        Case{"Gemma3Tensor2Sequence", kGemma3, "fp32", 2, true},
        Case{"Phi3Tensor2Sequence", kPhi3, "bf16", 2, true},
        Case{"RobertaTensor2", kRoberta, "bf16", 2, false}, Case{"Distilbert", kDistilbert, "fp32", 1, false},
        Case{"Modernbert", kModernbert, "bf16", 1, false},
        Case{"ModernbertTensor2Sequence", kModernbert, "fp32", 2, true}),
    [](const auto& info) { return std::string(info.param.name); });

// Where values wait, beside the host and the other ranks.
struct Place {
  const char *name, *yaml, *precision;
  int tensor;
  Words where;
  bool packed = false;  // to bf16, which changes bits: then each mode is compared with itself
};

class FamilyPlaces : public testing::TestWithParam<Place> {};

TEST_P(FamilyPlaces, ChangeNoBit) {
  const auto& [name, yaml, precision, tensor, where, packed] = GetParam();
  Words layout{"device.threads=1", std::string("training.precision=") + precision,
               "parallelism.tensor_parallel_size=" + std::to_string(tensor),
               "parallelism.ranks_per_process=" + std::to_string(tensor)};
  Trained without = train(yaml, layout);
  if (packed) {
    layout.push_back(ac("storage_dtype=bf16"));
    EXPECT_FALSE(train(yaml, layout).gradients == without.gradients);
  }
  for (const std::string_view mode : kModes) {
    Words words = layout;
    for (const std::string& word : mode_words(mode)) words.push_back(word);
    if (packed) without = train(yaml, words);
    words.insert(words.end(), where.begin(), where.end());
    expect_same_bits(without, train(yaml, words), std::string(mode));
  }
}

const std::string kOnDisk = ac("disk_checkpointing.path=" + std::filesystem::temp_directory_path().string());

INSTANTIATE_TEST_SUITE_P(
    All, FamilyPlaces,
    testing::Values(
        Place{"BertOnDisk", kBert, "fp32", 2, {kOnDisk, ac("partition_activations=true")}},
        Place{"LlamaInAPool",
              kLlama,
              "bf16",
              1,
              {ac("contiguous_checkpointing=false"), ac("cpu_checkpointing=true")}},
        Place{"WindowsOnDisk", kWindows, "fp32", 1, {kOnDisk}},
        Place{"LlamaPackedOnDisk", kLlama, "fp32", 1, {kOnDisk, ac("contiguous_checkpointing=false")}, true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace recollect::test::family_checkpointing_test
