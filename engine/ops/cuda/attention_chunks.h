// How the fused attention is cut over samples and heads. Its backward, to give the same bits every time,
// stores the gradients of all scores of a piece: s * s numbers a head, which only a piece at a time may take.
// Or, where it is told to, it adds up the gradient of q in float, block by block of keys in their order: as
// many numbers as q has, and slower, because a block waits for the one before it. The two round differently.
// Dropout masks are drawn piece by piece, so forward is cut alike where there is dropout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace recollect::cuda {

// Whole samples with all heads, or, where one sample is too much, some heads of it: whole groups of those
// that share a key/value head, whose gradient one piece makes.
struct AttentionChunk {
  int64_t first_sample = 0, samples = 0;
  int64_t first_head = 0, heads = 0;
  bool operator==(const AttentionChunk&) const = default;
};

// What one chunk of backward may take, unless a single group of a single sample takes more.
inline constexpr std::size_t kAttentionChunkBytes = std::size_t{512} << 20;

constexpr int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
constexpr int64_t divided_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

// A query head of a sample. cuDNN 9.19 and 9.26 ask on Hopper for 2 * rounded_up(s, 64) * rounded_up(s, 128)
// + 4 * s, whatever the head size, and for 256 bytes beside; the rest here is room for other versions. Heads
// that share a key/value head make gradients of it each before they are added up. In order, cuDNN 9.26 asks for
// 4 * s * head_size + 4 * s, and for 8 bytes for each 64 tokens.
constexpr std::size_t attention_unit_bytes(int64_t length, int64_t head_size = 0, int64_t group = 1,
                                           bool in_order = false) {
  const int64_t rows = rounded_up(length, 128);
  const int64_t gradients = in_order ? 4 * rows * head_size + rows / 8 : 2 * rows * rows;
  return static_cast<std::size_t>(gradients + 4 * rows + (group > 1 ? 8 * rows * head_size : 0));
}
inline constexpr std::size_t kAttentionOtherBytes = std::size_t{64} << 10;  // all that forward takes

// In order, without gaps. All but the last of a cut are the same size, and the last is smaller by little.
inline std::vector<AttentionChunk> attention_chunks(int64_t samples, int64_t heads, int64_t group,
                                                    std::size_t unit_bytes) {
  const auto fit = static_cast<int64_t>(kAttentionChunkBytes / unit_bytes);
  const int64_t groups = heads / group, most_samples = std::max<int64_t>(fit / heads, 1),
                most_groups = std::clamp<int64_t>(fit / group, 1, groups);
  const int64_t sample_step = divided_up(samples, divided_up(samples, most_samples));
  const int64_t head_step = group * divided_up(groups, divided_up(groups, most_groups));
  std::vector<AttentionChunk> chunks;
  for (int64_t sample = 0; sample < samples; sample += sample_step)
    for (int64_t head = 0; head < heads; head += head_step)
      chunks.push_back(
          {sample, std::min(sample_step, samples - sample), head, std::min(head_step, heads - head)});
  return chunks;
}

}  // namespace recollect::cuda
