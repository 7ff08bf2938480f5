// The op kinds of the engine: what each reads, writes and means. Backends implement exactly this.
//
// Conventions. T is the number of tokens: b samples x s tokens (sequence_length), in row order; h is the
// hidden size; activations are [T, width]. The activation dtype A is f64, f32, bf16 or f16. Weight matrices
// are [out, in], of dtype A. Biases, norm weights and statistics have the statistics dtype S: f64 if A is
// f64, else f32. Parameter gradients have dtype S too. Arithmetic is at least f32. An output marked "acc" is
// an accumulator: the op overwrites it, or adds to it if KernelArgs::accumulate is set. `name?` is optional.
// The order of sums depends only on shapes and on the number of threads.
//
// Dropout. `p`, `layer`, `site` and the run's seed and step make the RandomKey. An element is dropped if
// random_word(key, index) < dropout_threshold(p), else divided by (1 - p). In a [T, h] value, row `row` is
// token i of sample b, where b and i are quotient and remainder of (first_token + row) / sequence_length. The
// index of its elements is ((first_sample + b) * token_stride + i) * h + column. first_sample and
// token_stride come from the RunState; first_token is the op's attribute (with sequence parallelism, later
// ranks start at later tokens). So a sample's mask does not depend on the length that it is padded to
// (token_numbers.h). With p = 0, and in an evaluation (RunState::training false), dropout is the identity and
// draws no random word.
//
// kind                      inputs                               outputs                attributes
// embedding                 ids [b,s] i32, table [V,h]           y [T,h]                first_row
//                                                                                       padding_id?
//     y[i] = table[ids[i] - first_row], or zero if the id is outside this rank's V rows.
// embedding_backward        ids, dy [T,h]                        acc dtable [V,h] S     as embedding
//     The id `padding_id` gets no gradient from this op; if it is absent or -1, there is no such id.
// add_position              x [T,h], table [P,h]                 y [T,h]                sequence_length
//                                                                                       first_token
//     y[i] = x[i] + table[(first_token + i) % sequence_length]
// add_position_backward     dy [T,h]                             acc dtable [P,h] S     as add_position
// add_embedding             x [T,h], ids [b,s] i32, table [N,h]  y [T,h]                first_token
//                                                                                       padding_id?
//     y[i] = x[i] + table[ids[first_token + i]], or x[i] if the table has no such row.
// add_embedding_backward    dy [T,h], ids                        acc dtable [N,h] S     as add_embedding
//     padding_id as in embedding_backward.
// token_positions           ids [b,s] i32, places? [b,s] i32     positions [b,s] i32    padding_id
//     A token's place is its place in the sample, or `places` says it in packed samples, -1 for padding. Tokens of
//     the id padding_id, and padding, have the position padding_id; of the others, those of a sequence count on
//     from padding_id + 1.
// mean_tokens               x [T,h], lengths [b] i32; or         y [b,h], or [n,h]      sequence_length
//                           x, which [n] i32, places [b,s] i32                          first_token samples
//     The means of the rows of samples' first `lengths` tokens; or, in packed samples, of the tokens of the sequences
//     that begin at the tokens `which` of the micro-batch; -1 is none, and zero. This rank's part of them, where x has
//     the tokens from first_token on.
// mean_tokens_backward      dy, the others                       dx [T,h]               as mean_tokens
//                                                                                       rows (T)
// first_tokens              x [T,h], which? [n] i32              y [b,h], or [n,h]      sequence_length
//                                                                                       first_token samples
//     y[i] is the row of the first token of sample i or, with `which`, of token which[i] of the micro-batch.
//     The entries of `which` differ, except -1, which means none. y[i] is zero if this rank does not have the
//     token: x has the tokens from first_token on, and the sum over the ranks is the whole result.
// first_tokens_backward     dy, which?                           dx [T,h]               as first_tokens
//                                                                                       rows (T)
// rotary_table              positions? [b,s] i32, length? [1]    table [s,r] S, or      sequence_length
//                           i32                                  [T,r]                  head_size (r) theta
//                                                                                       dtype scaling
//                                                                                       attention_factor?
//                                                                                       length?
//     The row of position p is cos(p f_0) .. cos(p f_{r/2-1}) | sin(p f_0) .. sin(p f_{r/2-1}), times
//     attention_factor (absent: 1). Row i belongs to position i or, with `positions`, to token i's position.
//     Frequencies and angles are computed in f64; the table is rounded once, to `dtype` ("f64" or "f32"),
//     which is S. `scaling` changes the frequencies, with these attributes: "default"; "linear": factor;
//     "dynamic": factor, original_positions; "llama3": factor, low_freq_factor, high_freq_factor,
//     original_positions; "yarn": factor, original_positions, beta_fast, beta_slow, truncate; "longrope":
//     original_positions, short_factor, long_factor (texts of r/2 numbers). dynamic and longrope depend on
//     the length of the sequence: the input `length`, else the attribute (rotary.h).
// rotary                    x [T,w], table [s,r] or [T,r]        y [T,w]                sequence_length
//                                                                                       head_size
//                                                                                       rotated_heads inverse
//     Rotates the first r elements of each of the first rotated_heads heads (of head_size elements) of row i,
//     by the angles of the table's row i, or i % sequence_length. Elements c and c + r/2 are a pair. inverse
//     = 1 rotates back. The rest of the row is copied. The gradient is the inverse.
// dropout                   x [T,h]                              y [T,h]                p layer site
//                                                                                       sequence_length
//                                                                                       first_token
//                                                                                       first_column?
//                                                                                       all_columns?
//     It is its own gradient. If x has only some columns (those from first_column on) of rows with
//     all_columns columns, it drops the same elements as a dropout of the whole rows.
// layer_norm                x [T,h], weight [h], bias? [h]       y, mean [T] S,         epsilon
//                                                                rstd [T] S
// layer_norm_backward       dy, x, weight, mean, rstd, add?      dx, acc dweight,       epsilon
//                                                                acc dbias?
//     dx also adds `add` when present. Where the norm has no bias there are two outputs.
// residual_norm             x [T,h], bias [h], residual [T,h],   y [T,h], norm [T,h],   epsilon
//                           weight [h], shift? [h]               mean, rstd [T] S
//     y = residual + (x + bias); the rest is layer_norm of y, as that is stored. It has no gradient: ops are joined to it
//     when they have theirs (join_ops.h).
// rms_norm                  x [T,h], weight [h]                  y, rstd [T] S          epsilon weight_offset?
//     y = x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + epsilon)
// rms_norm_backward         dy, x, weight, rstd, add?            dx, acc dweight        epsilon
//     As layer_norm_backward.
// head_norm                 x [T,w], weight [d], second? [d]     y [T,w]                heads second_heads
//                                                                                       epsilon weight_offset?
//     The first `heads` heads of d elements of each row become x * rstd * weight, the second_heads heads after them
//     x * rstd * second. Each head has its own rstd = 1 / sqrt(mean(x^2) + epsilon). The rest of the row is copied.
//     second is present if second_heads is not 0.
// head_norm_backward        dy, x, weight, second?               dx, acc dweight,       as head_norm
//                                                                acc dsecond?
// linear                    x [T,in], w [out,in], bias? [out]    y [T,out]              beside_collectives?
// linear_rows               x [T,in], w [out,in], bias? [out]    y [blocks*rows,out]    first_row rows blocks
//                                                                                       stride whole_rows
//     What linear makes of the rows first_row + b * stride + i of x, i < rows, for b < blocks, in that order: a
//     piece of the product of whole_rows rows, with the bits that it has there where a backend's bits do not
//     depend on the number of rows otherwise (cpu, reference). It has no gradient: passes cut products.
// linear_gelu               x [T,in], w [out,in], bias [out]     y, pre [T,out]         beside_collectives?
//     pre = x w^T + bias; y is GELU of it in the tanh form, made before the sum is rounded to pre or after: which of the two, a
//     backend settles for each shape. So y has its bits where it is made together with its product, and nowhere else.
// linear_backward_input     dy [T,out], w                        dx [T,in]              whole_rows?
//                                                                                       beside_collectives?
// linear_backward_input_gelu
//                           dy [T,out], w, pre [T,in]            dx [T,in]              beside_collectives?
//     dx = (dy w) times the derivative of the tanh form of GELU at pre. The product is rounded before or not, as a backend
//     settles. It is the gradient of a product of the y that linear_gelu makes, with respect to pre.
// linear_backward_weight    x, dy                                acc dw [out,in],       bias (1: dbias is
//                                                                acc dbias?             there; else 0)
//                                                                                       beside_collectives?
// quantise                  x [r,c]                              columns? [c,r],        format: e4m3 or e5m2
//                                                                rows? [r,c], scale     copies: rows, columns or
//                                                                [1] S                  both
//     The codes of x in an 8-bit format: columns is the transposed copy, rows has the layout of x. A code
//     times scale gives the number back. The largest magnitude in x becomes the format's largest number
//     (float8.h). If a number is not finite, all codes and the scale are NaN. With copies = rows, x may have
//     any rank.
// bias_gelu_quantise        x [T,w], bias [w]                    y [T,w], columns?,     form, and those of
//                                                                rows?, scale [1] S     quantise
// swiglu_quantise           x [T,2*w]                            y [T,w], columns?,     as quantise
//                                                                rows?, scale [1] S
// swiglu_backward_quantise  dy [T,w], x [T,2*w]                  dx [T,2*w], columns?,  as quantise
//                                                                rows?, scale [1] S
// layer_norm_quantise       as layer_norm                        y, mean, rstd,         epsilon, and those of
//                                                                columns?, rows?,       quantise
//                                                                scale [1] S
// residual_norm_quantise    as residual_norm                     y, norm, mean, rstd,   as layer_norm_quantise
//                                                                columns?, rows?,
//                                                                scale [1] S
// rms_norm_quantise         as rms_norm                          y, rstd, columns?,     as layer_norm_quantise
//                                                                rows?, scale [1] S
//     The output of bias_gelu, of swiglu or of its gradient, or of a norm, and what quantise makes of it, as that is stored;
//     of residual_norm, of its norm. They have no gradients: ops are joined to them when they have theirs (join_ops.h).
// dequantise                codes, their scale [1] S             numbers, shaped alike  dtype: statistics, bf16
//                                                                                       or f16
//     Each code times scale, rounded once to S and then to the dtype.
// dequantise_rows           rows [r,bytes] u8                    numbers [r,columns]    format: nf4, fp4 or int8
//                                                                                       nested columns dtype: f64,
//                                                                                       f32, bf16 or f16
//     A weight that is stored in fewer bits (quantised_weight.h): its floats, rounded once to the dtype. In backward whoever reads
//     it makes it again.
// linear_fp8                x [T,in], its scale, w [out,in],     y [T,out]
//                           its scale, the weight, bias? [out]
//     y = x w^T + bias of codes; the weight, whose codes w are, is not read: y has its dtype. Its gradient is that of
//     what was quantised, as if it had not been.
// linear_fp8_backward_input dy [T,out], its scale, w [in,out],   dx [T,in]
//                           its scale, the weight
// linear_fp8_backward_weight
//                           dy [out,T], its scale, x [in,T],     acc dw [out,in] S
//                           its scale
//     As linear_fp8, of codes that are transposed where they must be.
// attention                 q [T, (heads + 2*kv_heads)*d],       o [T, heads*d],        heads kv_heads
//                           kv? [T, 2*kv_heads*d],               lse [b*heads, s] S     kv_group head_size
//                           lengths? [b] i32,                                           sequence_length causal
//                           positions? [b,s] i32                                        first_head all_heads
//                                                                                       p layer site window?
//                                                                                       score_cap? score_scale?
//                                                                                       keys_in_order?
//     A row of q is q | k | v, each of its heads x d, or q alone where kv is there, whose rows are k | v.
//     Query head h of this rank is number first_head + h of all_heads; kv_group consecutive ones of all share
//     a key/value head, which for h is number (first_head + h) / kv_group - first_head / kv_group here.
//     With causal = 1 a query sees the keys up to its own token, with lengths only those below lengths[b] (1
//     to s; checked where a batch is made). Every query is computed, and sees one key at least. What stands
//     in k and v from lengths[b] on is not read, and takes no time.
//     With a window, query i sees only keys j with |i - j| < window; a padding query sees
//     what the last key's query sees. Other keys take no time. Scores are multiplied by
//     score_scale, or 1 / sqrt(d), then capped: score_cap * tanh(score / score_cap).
//     With positions (and no lengths) a sample is sequences that stand back to back, each of which attends
//     itself alone: the positions of its tokens are 0, 1, 2, ... Tokens of position -1 are padding: they see
//     nothing and nobody sees them, their o, lse and gradients are zero. Time follows the sum of squared
//     lengths, which no program knows beforehand: costs are those of whole samples, the most it can be.
//     Scores are scaled by 1/sqrt(d); lse is the logarithm of the sum of exponentials of the scaled scores of
//     a row, before dropout. Dropout acts on probabilities, with index
//     (((first_sample + b) * all_heads + first_head + head) * token_stride + query) * token_stride + key.
//     A query and a key are numbered in their sample, whatever sequence of it they belong to.
//     No s x s tensor is stored.
// attention_backward        do, q, o, lse, kv?, lengths?,        dq, dkv?               as attention
//                           positions?
//     The gradient of a shared key/value head is the sum over its query heads, in their order; where no
//     query sees a key it is zero.
// cached_attention          q, kv?, filled [2] i32               o [T, heads*d],        as attention, but for
//                                                                acc keys, acc values   p layer site
//                                                                [b*kv_heads, c, d]
//     Attention, causal, of tokens that follow filled[0] others, whose keys and values the caches hold; c is
//     their capacity. The first filled[1] tokens of each sample, one at least, are put behind those, and see
//     them and each other; for the rest, which stands for nothing, o is zero.
// bias_gelu                 x [T,f], bias [f]                    y [T,f]                form: tanh or erf
// bias_gelu_backward        dy, x, bias                          dx, acc dbias          form
// gelu                      x [T,f]                              y [T,f]                form: tanh or erf
// gelu_backward             dy [T,f], x [T,f]                    dx                     form? (tanh)
// swiglu                    x [T,2f]                             y [T,f]
//     A row of x is gate | up; y = silu(gate) * up.
// swiglu_backward           dy [T,f], x                          dx [T,2f]
// geglu, geglu_backward     as swiglu and its gradient                                  form? (tanh)
//     y = gelu(gate) * up.
// tanh                      x [T,h]                              y
// tanh_backward             dy, y                                dx
// relu, relu_backward       as tanh and its gradient
//     y = max(x, 0), with the derivative 0 at 0.
// bias_dropout_add          x [T,h], bias [h], residual [T,h]    y [T,h]                as dropout
//     y = residual + dropout(x + bias)
// bias_dropout_add_backward dy                                   dx, acc dbias          as dropout
//     dx = dropout(dy); dbias = its column sums. (The residual's gradient is dy.)
// column_sum                dy [T,h]                             acc dbias [h] S
// add                       a, b                                 y = a + b
// add_scaled_columns        x [T,w], part [T,n]                  y [T,w]                first_column scale
//     y = x, with scale * part added to the n columns from first_column on.
// scaled_columns            dy [T,w]                             dpart [T,n]            first_column scale
//                                                                                       columns (n)
//     scale times the n columns of dy from first_column on.
// lm_head_loss              x [T,h], w [V,h], targets [T] i32,   acc loss [1] f64,      vocabulary_size
//                           scale [1] f64, bias? [V]             dx?, acc dw?,          first_row chunk_rows
//                                                                acc dbias?             gradient (0 or 1)
//                                                                                       frozen_weight?
//                                                                                       frozen_bias? logit_cap?
//     Row i predicts targets[i]; rows whose target is -100 are ignored. loss is scale * the sum of negative
//     log likelihoods. With gradient = 1 the op also makes the gradients dx, dw and, if there is a bias,
//     dbias, so no later op needs the logits; an evaluation does not write them. Frozen parameters get no
//     gradient. With the attribute `overwrite`, dw and dbias are those of this micro-batch alone, while the
//     loss is still accumulated. The op works on chunk_rows rows at a time. Local row r of w is vocabulary
//     entry first_row + r. Entries from vocabulary_size on are padding: they are never predicted and their
//     gradient is zero. If the vocabulary is sharded over ranks, dx is this rank's term of a sum over them.
//     With logit_cap, logits are logit_cap * tanh(logit / logit_cap).
// lm_logits                 x [T,h], w [V,h], filled [2] i32     logits [V] S           logit_cap?
//     The logits of row filled[1] - 1 only: its products with all rows of w, including padding; capped as in
//     lm_head_loss.
// cross_entropy_loss        logits, targets i32, scale [k] f64   acc loss [1] f64,      classes columns (k)
//                                                                dlogits?               gradient (0 or 1)
//     The logits may have any shape; element (i, j, c) is at (i * classes + j) * columns + c. The target of
//     column c of row i is class targets[i * columns + c]; a target of -100 is ignored. loss is the sum of
//     scale[c] * negative log likelihood over the other targets; dlogits is its gradient, written as dx of
//     lm_head_loss is.
// elementwise_loss          logits, targets f32 (as many),       acc loss [1] f64,      form gradient
//                           scale [1] f64                        dlogits?
//     form squared: scale * sum of (x - t)^2; sigmoid: scale * sum of the cross-entropies of sigmoid(x) with
//     t, as torch's binary_cross_entropy_with_logits. A target that is NaN is ignored.
// squared_norm              any number of gradients S            sum [1] f64
// clip_factor               sharded [1] f64, replicated [1] f64, norm [1], factor [1]   max_norm (0: none)
//                           loss_scale? [1] f64,                                        repeats?
//                           repeated?, loss? [1] f64
//     norm = sqrt(sharded + replicated + repeated / repeats) / loss_scale; factor = min(1, max_norm / (norm +
//     1e-6)) / loss_scale, as torch's clip_grad_norm_. If loss_scale is absent it is 1. The factor is NaN if
//     the norm or the loss is not finite; an update whose factor is NaN changes nothing.
// adamw, adamw_hf, adam     schedule [3] f64, factor [1] f64,    acc master [..] S,     beta1 beta2 epsilon
//                           grad S                               acc m S, acc v S,      weight_decay
//                                                                param? A               cast (1: param is
//                                                                                       there; else 0)
//     schedule = {learning rate, 1 - beta1^t, 1 - beta2^t}; grad is multiplied by factor. One pass over
//     memory. `adamw` is torch.optim.AdamW; `adam` is torch.optim.Adam (weight decay added to the gradient);
//     `adamw_hf` adds epsilon to the uncorrected sqrt(v), scales the rate by sqrt(1 - beta2^t) /
//     (1 - beta1^t), and decays after the update (transformers' former AdamW). param is master rounded to A.
// sgd                       schedule, factor, grad               acc master, acc m,     momentum weight_decay
//                                                                param?                 cast
//     torch.optim.SGD without dampening: m = momentum * m + g; at t = 1 (m zero) this is torch's first step.
// lion                      schedule, factor, grad               acc master, acc m,     beta1 beta2
//                                                                param?                 weight_decay cast
//     w = w - rate * weight_decay * w - rate * sign(beta1 * m + (1 - beta1) * g); m = beta2 * m + (1 - beta2) * g.
//     All update rules take rate_scale, a factor of the rate, if it is not 1. Those above take rounded_as,
//     rounded_columns, rounded_first_column and rounded_runs if master is a bf16 matrix, which is then
//     rounded stochastically (stochastic_rounding.h).
// adamw8bit                 schedule, factor, grad [r,c]         acc master, acc m u8,  as adamw
//                                                                acc sizes [r,n] f32,
//                                                                acc v u8, acc sizes,
//                                                                param?
//     As adamw, with 8-bit moments in blocks of 256 elements of a row (quantised_states.h): m holds indices
//     of entries of the signed map, v of the unsigned map; sizes holds the largest magnitude in each of a
//     row's n blocks.
// lion8bit                  schedule, factor, grad [r,c]         acc master, acc m u8,  as lion
//                                                                acc sizes, param?
//     As lion, with the moment stored as in adamw8bit.
// adafactor_sums            factor, grad [r,c] or [r],           rows [n+1] f64,        factored first_row
//                           master                               columns [c+1] f64      rows (n) block?
//                                                                                       whole_rows
//     Works on one matrix: the n rows from first_row on. rows and columns are the sums of the squares of grad
//     * factor along each row and each column; the last number of both is the sum of the squares of master.
//     With factored = 0 there is only that last number: [1].
// adafactor_moments         schedule [3] f64, factor, grad,      acc rows S, acc        as adafactor_sums
//                           rows? columns?                       columns [m,c] S,       whole_columns
//                                                                mean [1] f64,          repeats?
//                                                                square [1] f64         mean_of_columns?
//                                                                                       clamps? epsilon
//     schedule = {rate, 1 - beta2, maximum of the rate}. The second moments of rows and columns (row `block`
//     of columns) move towards the means of the sums, plus epsilon unless clamps is set. mean is the mean of
//     the row moments (or of the column moments); square is the sum of squares of grad * factor / sqrt(row *
//     column / mean). Over all ranks, the matrix has whole_rows rows and whole_columns columns, and the sums
//     count every row `repeats` times. With factored = 0 there is one second moment for each element, and
//     square.
// adafactor                 schedule, factor, grad, square,      acc master, acc m?,    as adafactor_moments
//                           square of the update, rows,          param?                 scale_epsilon scales?
//                           columns, mean; or moments                                   clip_threshold beta1?
//                                                                                       weight_decay cast
//     The last number of `square` is the sum of the parameter's squares over all ranks. The rule is
//     torch.optim.Adafactor (with clamps) or transformers.Adafactor; with beta1 the update is averaged in m.
// muon_direction            factor, grad [r,c]                   acc momentum [r,c],    first_row rows (n)
//                                                                direction [n,c],       momentum nesterov
//                                                                square [1] f64
//     Works on the n rows from first_row on, with g = grad * factor: m = m + (1 - momentum) * (g - m);
//     direction = m, or with nesterov g + momentum * (m - g); square is the sum of direction's squares. If
//     the factor is NaN, direction is zero.
// combine                   a, b?, square? [1] f64               y                      alpha beta? epsilon?
//                                                                                       square_scale?
//     y = (alpha * a + beta * b) / max(sqrt(square * square_scale), epsilon); without `square` there is no
//     division.
// muon                      schedule, factor, direction [n,c]    acc master [r,c],      first_row rows (n)
//                                                                param?                 weight_decay
//                                                                                       adjustment cast
//     w = w - rate * weight_decay * w - rate * adjustment * direction.
#pragma once

#include <functional>
#include <string>

#include "engine/graph/op_def.h"
#include "engine/ops/backend_kind.h"
#include "engine/ops/cpu_isa.h"
#include "engine/ops/vocabulary_reduction.h"
#include "engine/runtime/kernel.h"

namespace recollect {

void register_engine_ops(OpRegistry& registry);

// `vocabulary` is null if one rank holds the whole vocabulary; it must outlive the kernels.
namespace reference {
void register_kernels(KernelTable& table, VocabularyReduction* vocabulary = nullptr);  // f64 and f32
}
namespace cpu {
void register_kernels(KernelTable& table, VocabularyReduction* vocabulary = nullptr);  // f32 and bf16
// Returns the instruction sets that the kernels are compiled for and use on this machine: "avx512 + amx", or
// "avx512 + bf16" if the bf16 dot product is worth using. Workspaces and last bits depend on it.
std::string instruction_set();
}  // namespace cpu
namespace cuda {
// engine/ops/cuda/libraries.h: a rank's handles of NVIDIA's libraries, and what they have chosen
class Libraries;
// For f32, bf16 and f16. `libraries` must outlive the kernels; it is null if they are only used for planning.
void register_kernels(KernelTable& table, VocabularyReduction* vocabulary, Libraries* libraries);
}  // namespace cuda

// Adds the kernels of one backend to a table. A caller that passes it on need not know what the kernels need.
using RegisterKernels = std::function<void(KernelTable& table, VocabularyReduction* vocabulary)>;

// `isa` applies only to cpu (cpu_level.h, which also describes the errors), `libraries` only to cuda, as
// above.
RegisterKernels kernels_of(BackendKind backend, CpuIsa isa, cuda::Libraries* libraries = nullptr);

}  // namespace recollect
