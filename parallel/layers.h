// Tensor-parallel layers (Shoeybi et al., "Megatron-LM", 2019; sequence parallelism: Korthikanti et al.,
// 2022), as functions that append ops to a graph. With one tensor rank no collective is appended, so there is
// no serial twin. Shapes are local: T tokens of a micro-batch, h hidden, t tensor ranks. With sequence
// parallelism the values between the linear layers hold T/t tokens. A family names every parameter as its
// files do; a choice that no kernel carries out yet is an Error that names it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/op_builder.h"
#include "parallel/fp8.h"
#include "parallel/lora_settings.h"
#include "parallel/mesh.h"
#include "parallel/model.h"

namespace recollect {

struct ParallelLayout {
  int tensor_rank = 0;
  int tensor_size = 1;
  bool sequence_parallel = false;
};

// Tensor names are those of the model's files; "" is a tensor that the layer does not have.
struct LinearOptions {
  std::string weight, bias = {};
  std::vector<int64_t> blocks = {};  // of the output's columns, as in Parameter
  int64_t interleaved = 0;           // as in Parameter
  std::vector<std::string> weight_blocks = {},
                           bias_blocks = {};  // tensors of their own in files, one for each block
  bool transposed_in_file = false;
  bool may_be_missing = false;  // in files: it is drawn then
  double init_std = 0;
  double init_cutoff = 0;  // as in Parameter
};

// What the rows of a value stand for: sequence parallelism divides tokens over the tensor ranks, never samples.
enum class Rows { kTokens, kSamples };

enum class NormKind { kLayer, kRms };
struct NormOptions {
  NormKind kind = NormKind::kLayer;
  std::string weight, bias = {};
  double epsilon = 1e-5;
  bool may_be_missing = false;
  bool beside_one = false;  // of RMS norms: one is added to the weights, which begin as zeros
  Rows rows = Rows::kTokens;
};

// Rotary positions (Su et al., 2021) of queries and keys. The scalings and their
// numbers are those of the op rotary_table.
struct RotaryOptions {
  int64_t turned = 0;  // rotated elements of a head, the first ones
  double theta = 10000;
  std::string scaling = "default";
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_positions = 0;
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;
  std::string short_factor = {}, long_factor = {};
  double attention_factor = 1;
  bool operator==(const RotaryOptions&) const = default;
};
struct AttentionOptions {
  int64_t heads = 1;
  int64_t head_size = 1;
  int64_t kv_heads = 0;  // 0: as many as heads
  ValueId kv = kNone;    // k | v of this rank, where they are no part of q's rows
  bool causal = true;
  ValueId lengths = kNone;       // [samples] i32: keys from there on are padding; kNone: none are
  ValueId positions = kNone;     // [samples, sequence] i32: of packed samples, in place of lengths
  ValueId rotary_table = kNone;  // turns queries and keys; kNone: they have no rotary positions
  // The weights of the RMS norms of each query head and key head, before rotation; "": there are none.
  std::string query_norm = {}, key_norm = {};
  double norm_epsilon = 1e-5;
  bool norms_beside_one = false;  // as NormOptions::beside_one
  double dropout = 0;             // of probabilities
  int64_t window = 0;             // a token sees tokens at a smaller distance; 0: all
  double score_cap = 0;           // scores become cap * tanh(score / cap); 0: no cap
  double score_scale = 0;         // of scores; 0: 1 / sqrt(head_size)

  int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  // What a row of its input is made of: q | k | v.
  std::vector<int64_t> blocks() const {
    return {heads * head_size, key_heads() * head_size, key_heads() * head_size};
  }
};

// down(gelu(up(x) + bias)), or with a gate down(silu(gate(x)) * up(x)), where `up` is gate | up, two blocks
// of `inner` columns. The bias of `down` is left to residual().
struct MlpOptions {
  int64_t inner = 1;
  std::string activation = "tanh";  // form of gelu: tanh or erf
  bool gated = false;
  bool gelu_gate = false;  // gelu instead of silu
  double dropout = 0;      // of what `down` reads
  LinearOptions up = {}, down = {};
};

struct LossOptions {
  int64_t vocabulary = 1;
  std::string bias = {};  // of the head; "": it has none
  bool bias_may_be_missing = false;
  double logit_cap = 0;        // logits become cap * tanh(logit / cap); 0: no cap
  int64_t most_logits = 1024;  // rows of logits that exist at a time
};

class AdapterRules;

class LayerBuilder {
 public:
  LayerBuilder(Graph& graph, const OpRegistry& registry, ParallelLayout layout, DType dtype,
               const BatchShape& batch);

  // Before the first layer: which linear layers get adapters. All parameters that are not trained then are frozen.
  void adapt(const LoraSettings& lora, const FileNames& files = {});
  // Likewise: linear modules of attention and MLP multiply 8-bit codes, but for a batch that continues a sequence. Heads,
  // poolers and adapters do not.
  void multiply_in_fp8(Fp8Settings fp8) { fp8_ = fp8; }

  // Likewise: an MLP's GELU is one op with the product before it, where it has the tanh form and that product has neither codes
  // nor adapters; again but for a batch that continues a sequence.
  void make_gelu_in_products(bool on) { gelu_in_products_ = on; }

  // Everything until the next call belongs to this layer; -1 is outside the layers.
  void enter_layer(int layer);
  void enter_block(const std::string& block) { ops_.common().block = block; }  // of the layer: Op::block

  int64_t samples() const { return samples_; }
  int64_t sequences() const { return sequences_; }  // what is looked at as a whole: samples, unless packed
  int64_t sequence_length() const { return sequence_length_; }

  // Of the batch; of its tokens: [samples, sequence] i32.
  ValueId input(const std::string& name, const Shape& shape, DType dtype);
  ValueId token_input(const std::string& name);
  // Of a batch that continues a sequence: where its tokens stand in it, [samples, sequence] i32; and how many
  // tokens are cached already and how many of these join them, [2] i32. kNone otherwise.
  ValueId positions() const { return positions_; }
  ValueId filled() const { return filled_; }
  // Likewise [1] i32: the sequence's length including these tokens; kNone if nothing depends on it.
  ValueId length() const { return length_; }
  bool continues() const { return capacity_ > 0; }
  // What a loss is multiplied by, column by column of its targets, and where it is added up.
  ValueId loss_scale_input(int64_t columns = 1);
  ValueId loss_accumulator();

  // Token ids [samples, sequence] to hidden states; the vocabulary is divided over the tensor ranks. The id
  // `padding_id` gives the table no gradient here; -1: there is none such.
  ValueId vocabulary_embedding(const std::string& name, ValueId ids, ValueId table, int64_t padding_id = -1);
  // Positions that padding has no part in: tokens of the id `padding_id` have the position padding_id, others count on
  // from padding_id + 1. `places`: those of packed samples, or kNone.
  ValueId padded_positions(const std::string& name, ValueId ids, ValueId places, int64_t padding_id);
  // `positions`: [samples, sequence], those of packed samples; kNone: their tokens' places.
  ValueId position_embedding(const std::string& name, ValueId x, ValueId table, ValueId positions = kNone);
  // x + the rows that ids [samples, sequence] name of a table that every rank has, as that of token types.
  ValueId token_types(const std::string& name, ValueId x, ValueId ids, ValueId table,
                      int64_t padding_id = -1);
  // [samples, h] on every rank: what stands at each sample's first token; or [n, h], at the tokens `which` [n].
  ValueId first_tokens(const std::string& name, ValueId x, ValueId which = kNone);
  // The means over the first `lengths` tokens of samples, or over sequences that begin at the tokens `which`, of packed
  // samples with the positions `places`. On every rank, as above.
  ValueId mean_tokens(const std::string& name, ValueId x, ValueId lengths, ValueId which, ValueId places);
  // The rows of all tokens on every rank, where all that follows is the same on every rank.
  ValueId all_tokens(const std::string& name, ValueId x);
  // Cosines and sines of a batch's positions, which may be given [samples, sequence]; and the first `heads`
  // heads of x turned by them.
  // Error kConfiguration if packed samples are so long that their frequencies are not known.
  ValueId rotary_table(const std::string& name, const RotaryOptions& options, ValueId positions = kNone);
  ValueId rotary(const std::string& name, ValueId x, ValueId table, int64_t heads, int64_t head_size);
  ValueId dropout(const std::string& name, ValueId x, double p, Rows rows = Rows::kTokens);
  ValueId tanh(const std::string& name, ValueId x);
  ValueId relu(const std::string& name, ValueId x);
  ValueId scaled(const std::string& name, ValueId x, double scale);
  ValueId norm(const std::string& name, ValueId x, const NormOptions& options);
  // [T, h] whole on every rank -> [T, out/t]. The weight is [out, in].
  ValueId column_linear(const std::string& name, ValueId x, int64_t out, const LinearOptions& options);
  // GELU of that, in its tanh form.
  ValueId column_linear_gelu(const std::string& name, ValueId x, int64_t out, const LinearOptions& options);
  // [T, in/t] -> [T, out] (or T/t tokens), summed over ranks, without bias: residual() adds it.
  ValueId row_linear(const std::string& name, ValueId x, int64_t in, int64_t out,
                     const LinearOptions& options);
  // The same on every tensor rank: x w^T + bias, or gelu of it in a form. The weight is [out, in]. It may have no bias.
  ValueId linear(const std::string& name, ValueId x, int64_t out, const LinearOptions& options, Rows rows,
                 const std::string& gelu_form = {});
  // Projections to queries, keys and values (three blocks), rotary positions, attention: [T, h] whole on every
  // rank -> [T, heads/t x head_size]. Where tensor ranks are more than key/value heads, several hold the same.
  ValueId self_attention(const std::string& name, ValueId x, const AttentionOptions& options,
                         LinearOptions projections);
  // q | k | v of this rank's heads, or q alone beside options.kv -> the heads' outputs. Where tensor ranks
  // are more than key/value heads, several hold the same one, and kv is a value of its own. Error
  // kConfiguration where the ranks cannot share the heads. A batch that continues a sequence attends to the
  // layer's cache, which is a value that persists.
  ValueId attention(const std::string& name, ValueId q, const AttentionOptions& options);
  ValueId mlp(const std::string& name, ValueId x, const MlpOptions& options);
  // residual + dropout(branch + bias); `bias` "": there is none
  ValueId residual(const std::string& name, ValueId branch, ValueId residual, const std::string& bias,
                   double p);
  // Adds the loss of all rows into the model's; `table` is the head's weight. Of a batch that continues a
  // sequence it returns Model::logits, and kNone otherwise.
  ValueId vocabulary_head(const std::string& name, ValueId x, ValueId table, const Model& model,
                          const LossOptions& options);

  // Adds a loss of logits that are whole on every rank into `loss`.
  void label_loss(const std::string& name, const std::string& kind, Attributes attributes,
                  std::vector<ValueId> inputs, ValueId loss);

  // A table whose rows are divided over the ranks, padded to a multiple of 64 rows a rank.
  ValueId vocabulary_table(const std::string& file_name, int64_t rows, int64_t columns, double init_std,
                           bool may_be_missing = false, double init_cutoff = 0);
  // `waves`: it begins as sines and cosines of positions (Vaswani et al., 2017) instead.
  ValueId replicated_table(const std::string& file_name, int64_t rows, int64_t columns, double init_std,
                           bool waves = false);

  // The model's own, and behind them those of adapters.
  std::vector<Parameter> parameters() const;

 private:
  ValueId emit(const std::string& name, const std::string& kind, Attributes attributes,
               std::vector<ValueId> inputs, std::vector<ValueId> outputs = {},
               Accumulate accumulate = Accumulate::kNever);
  ValueId parameter(Parameter parameter, Category category = Category::kParameter);
  // A parameter that every tensor rank has, of rows that may be divided.
  ValueId whole_parameter(Parameter parameter, Rows rows = Rows::kTokens);
  // All heads of a kind share one weight. Each tensor rank has some heads, and so a part of the weight's gradient.
  ValueId head_weight(const std::string& file_name, const AttentionOptions& options);
  // Norms of the first `heads` heads of x and of the next `second` heads; kNone: none.
  ValueId head_norm(const std::string& name, ValueId x, const AttentionOptions& options,
                    std::pair<ValueId, int64_t> heads, std::pair<ValueId, int64_t> second);
  // One number for each column of a value that is whole on every rank, or divided.
  ValueId vector_of_whole(const std::string& file_name, int64_t size, Parameter::Init init,
                          bool may_be_missing = false, Rows rows = Rows::kTokens);
  // `behind` as drawn_behind in Parameter.
  ValueId vector_of_part(const LinearOptions& options, int64_t size, int repeats = 1, int64_t behind = 0);
  ValueId weight(const LinearOptions& options, int64_t out, int64_t in, Parameter::Split split,
                 int repeats = 1, int64_t behind = 0);
  // x w^T + bias of a linear module.
  ValueId product(const std::string& name, ValueId x, ValueId weight, ValueId bias = kNone);
  struct Codes {
    ValueId rows = kNone, scale = kNone;
  };
  bool makes_gelu_in_product(const MlpOptions& options) const;
  Codes quantised(const std::string& name, ValueId x, const std::string& copies);
  Codes quantised_input(const std::string& name, ValueId x, ValueId weight);
  Codes quantised_weight(const std::string& name, ValueId weight);
  bool is_frozen(ValueId weight) const;
  // Decides it of a parameter whose place in the model is known; Error kConfiguration where it cannot be (layers_base.cpp).
  void store_in_fewer_bits(Parameter& p) const;
  // What a product reads of a weight.
  ValueId operand(const std::string& name, ValueId weight);
  // A linear layer as its adapters see it: x, whole in its columns or of this rank's columns (kColumns), and x w^T.
  struct Adapted {
    ValueId x = kNone, y = kNone;
    Parameter::Split split = Parameter::Split::kNone;  // of the weight
    Rows rows = Rows::kTokens;
    int repeats = 1;
  };
  // A module of such a layer, which makes the columns of y from first_column on.
  struct AdaptedModule {
    std::string name;
    int64_t out = 0;  // rows of its weight, over all ranks
    int64_t first_column = 0;
    std::vector<int64_t> blocks = {};
    int64_t interleaved = 0;
  };
  // y with what the adapters of the layer's modules add to it.
  ValueId with_adapters(const std::string& name, const LinearOptions& options, const Adapted& layer);
  ValueId add_adapter(const std::string& name, const AdaptedModule& module, const Adapted& layer);
  ValueId adapter_dropout(const std::string& name, const Adapted& layer);
  ValueId column_dropout(const std::string& name, ValueId x,
                         double p);                            // of this rank's columns of all tokens
  ValueId sum_of_parts(const std::string& name, ValueId x);    // of samples, where tokens are divided
  ValueId enter_parallel(const std::string& name, ValueId x);  // whole tokens, gradient summed over ranks
  ValueId leave_parallel(const std::string& name, ValueId x);  // sum over ranks
  // The projections of a self-attention some of whose key/value heads are on several ranks: of queries, and of
  // keys and values.
  std::pair<ValueId, ValueId> repeated_projections(const std::string& name, ValueId x,
                                                   const AttentionOptions& options,
                                                   const LinearOptions& projections);
  ValueId cached_attention(const std::string& name, ValueId q, const AttentionOptions& options,
                           Attributes attributes);
  ValueId last_logits(const std::string& name, ValueId x, ValueId table, const LossOptions& options);
  Attributes dropout_attributes(double p, Rows rows = Rows::kTokens);
  int64_t first_token() const;  // of this rank, where it has a part of them
  int64_t local_key_heads(const std::string& name, const AttentionOptions& options) const;
  std::string path(const std::string& name) const;
  int layer() const { return ops_.common().layer; }
  bool parallel() const { return layout_.tensor_size > 1; }
  Placement part_of_ranks() const { return parallel() ? Placement::sharded_over(kTensorAxis) : Placement(); }
  bool divides_tokens() const { return layout_.sequence_parallel && parallel(); }

  Graph& graph_;
  OpBuilder ops_;  // what is common to its ops: the layer and the block that were entered
  ParallelLayout layout_;
  DType dtype_;
  int64_t samples_, sequences_, sequence_length_, tokens_, capacity_;
  ValueId positions_ = kNone, filled_ = kNone, length_ = kNone;
  int64_t site_ = 0;                          // random ops of this layer so far
  int64_t adapter_sites_ = 0;                 // of its adapters
  std::shared_ptr<const AdapterRules> lora_;  // null: there are none
  Fp8Settings fp8_;
  bool gelu_in_products_ = false;
  ValueId quantised_ = kNone;  // the input that was quantised last, and its codes
  Codes codes_;
  std::vector<Parameter> parameters_, adapters_;
};

}  // namespace recollect
