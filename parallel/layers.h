// Tensor-parallel layers (Shoeybi et al., "Megatron-LM", 2019; sequence parallelism: Korthikanti et al.,
// 2022), as functions that append ops to a graph. With one tensor rank no collective is appended, so there is
// no serial twin. Shapes are local: T tokens of a micro-batch, h hidden, t tensor ranks. With sequence
// parallelism the values between the linear layers hold T/t tokens.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/op_def.h"
#include "parallel/mesh.h"
#include "parallel/parameter.h"

namespace recollect {

struct ParallelLayout {
  int tensor_rank = 0;
  int tensor_size = 1;
  bool sequence_parallel = false;
};

class LayerBuilder {
 public:
  LayerBuilder(Graph& graph, const OpRegistry& registry, ParallelLayout layout, DType dtype, int64_t samples,
               int64_t sequence_length);

  // Everything until the next call belongs to this layer; -1 is outside the layers.
  void enter_layer(int layer);
  void enter_block(const std::string& block) { block_ = block; }  // of the layer: Op::block

  // Token ids [samples, sequence] to hidden states; the vocabulary is divided over the tensor ranks.
  ValueId vocabulary_embedding(const std::string& name, ValueId ids, ValueId table);
  ValueId position_embedding(const std::string& name, ValueId x, ValueId table);
  ValueId dropout(const std::string& name, ValueId x, double p);
  ValueId norm(const std::string& name, const std::string& file_name, ValueId x, double epsilon);
  // [T, h] whole on every rank -> [T, out/t]. `blocks`: see Parameter. The weight is [out, in].
  ValueId column_linear(const std::string& name, const std::string& file_name, ValueId x, int64_t out,
                        int blocks, double init_std, bool bias);
  // [T, in/t] -> [T, h] (or T/t tokens), summed over ranks, without bias: residual() adds it.
  ValueId row_linear(const std::string& name, const std::string& file_name, ValueId x, int64_t in,
                     int64_t out, double init_std);
  ValueId causal_attention(const std::string& name, ValueId qkv, int64_t heads, int64_t head_size, double p);
  ValueId bias_gelu(const std::string& name, const std::string& file_name, ValueId x, int64_t width,
                    const std::string& form);
  // residual + dropout(branch + bias)
  ValueId residual(const std::string& name, const std::string& file_name, ValueId branch, ValueId residual,
                   double p);
  // Adds the loss of all rows into `loss`; the head's weight is the vocabulary table. Of at most
  // `most_logits` rows logits exist at a time.
  void vocabulary_loss(const std::string& name, ValueId x, ValueId table, ValueId labels, ValueId scale,
                       ValueId loss, int64_t vocabulary_size, int64_t most_logits);

  // A table whose rows are divided over the ranks, padded to a multiple of 64 rows a rank.
  ValueId vocabulary_table(const std::string& file_name, int64_t rows, int64_t columns, double init_std);
  ValueId replicated_table(const std::string& file_name, int64_t rows, int64_t columns, double init_std);

  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  ValueId emit(const std::string& name, const std::string& kind, Attributes attributes,
               std::vector<ValueId> inputs, std::vector<ValueId> outputs = {},
               Accumulate accumulate = Accumulate::kNever);
  ValueId parameter(Parameter parameter, Category category = Category::kParameter);
  ValueId vector_parameter(const std::string& file_name, int64_t size, Parameter::Init init,
                           Parameter::Split split, int blocks, bool sees_part_of_tokens);
  ValueId enter_parallel(const std::string& name, ValueId x);  // whole tokens, gradient summed over ranks
  ValueId leave_parallel(const std::string& name, ValueId x);  // sum over ranks
  Attributes dropout_attributes(double p);
  std::string path(const std::string& name) const;
  bool parallel() const { return layout_.tensor_size > 1; }
  Placement part_of_ranks() const { return parallel() ? Placement::sharded_over(kTensorAxis) : Placement(); }

  Graph& graph_;
  const OpRegistry& registry_;
  ParallelLayout layout_;
  DType dtype_;
  int64_t sequence_length_, tokens_;
  int layer_ = -1;
  std::string block_;
  int64_t site_ = 0;  // random ops of this layer so far
  std::vector<Parameter> parameters_;
};

}  // namespace recollect
