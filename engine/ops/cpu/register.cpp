// Registers the cpu backend's kernels: one for every op kind of engine/ops/ops.h.
#include "engine/ops/cpu/amx_tile.h"
#include "engine/ops/cpu/dot_speed.h"
#include "engine/ops/cpu/draw_normals.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu_level.h"
#include "engine/ops/ops.h"

namespace recollect::cpu {

std::string instruction_set() {
#if defined(__AVX512F__)
  std::string name = "avx512";
#elif defined(__AVX2__)
  std::string name = "avx2";
#else
  std::string name = "baseline";
#endif
#ifdef RECOLLECT_AMX
  if (amx::available()) return name + " + amx";
#endif
  if (dots_pay()) name += " + bf16";
  return name;
}

void register_kernels(KernelTable& table, VocabularyReduction* vocabulary) {
  register_activation(table);
  register_adafactor(table);
  register_attention(table);
  register_attention_backward(table);
  register_cached_attention(table);
  register_clip(table);
  register_dropout(table);
  register_embedding(table);
  register_float8(table);
  register_head_norm(table);
  register_label_loss(table);
  register_layer_norm(table);
  register_linear(table);
  register_lm_head(table, vocabulary);
  register_lm_logits(table);
  register_muon(table);
  register_optimizer(table);
  register_quantised_states(table);
  register_quantised_weight(table);
  register_rotary(table);
  register_scaled_columns(table);
  register_sequences(table);
  register_sum(table);
}

// The level that this file is compiled for. The file is compiled once per level, in a namespace of its own.
const CpuLevel& level() {
#if defined(__AMX_BF16__) && defined(__AVX512BF16__)
  constexpr CpuIsa kIsa = CpuIsa::kAmx;
#elif defined(__AVX512BF16__) && defined(__AVX512BW__)
  constexpr CpuIsa kIsa = CpuIsa::kAvx512Bf16;
#elif defined(__AVX512F__)
  constexpr CpuIsa kIsa = CpuIsa::kAvx512;
#elif defined(__AVX2__)
  constexpr CpuIsa kIsa = CpuIsa::kAvx2;
#else
  constexpr CpuIsa kIsa = CpuIsa::kBaseline;
#endif
  static constexpr CpuLevel kLevel = {kIsa, register_kernels, instruction_set, draw_normals};
  return kLevel;
}

}  // namespace recollect::cpu
