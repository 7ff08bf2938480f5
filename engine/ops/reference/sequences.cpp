// Positions that padding has no part in, and means over the tokens of a sequence. A rank may hold some tokens only: the sum of
// the ranks' parts is the mean.
#include "engine/ops/sequences.h"

#include <algorithm>

#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

void token_positions(const KernelArgs& args, const Attributes& attributes) {
  const int32_t* ids = args.in[0].as<int32_t>();
  const int32_t* places = present(args.in, 1) ? args.in[1].as<int32_t>() : nullptr;
  const auto padding_id = static_cast<int32_t>(attributes.integer("padding_id"));
  const int64_t length = args.in[0].shape[1];
  for (int64_t i = 0; i < args.in[0].elements(); ++i)
    args.out[0].as<int32_t>()[i] = padded_position(ids, i, places ? places[i] : i % length, padding_id);
}

Sequences sequences_of(const KernelArgs& args, const Attributes& attributes) {
  const bool packed = present(args.in, 2);
  const int64_t length = attributes.integer("sequence_length");
  const int32_t* listed = args.in[1].as<int32_t>();
  return {packed ? nullptr : listed, packed ? listed : nullptr, packed ? args.in[2].as<int32_t>() : nullptr,
          length, attributes.integer("samples") * length};
}

template <typename T>
void mean_tokens(const KernelArgs& args, const Attributes& attributes) {
  const Sequences sequences = sequences_of(args, attributes);
  const T* x = args.in[0].as<T>();
  const int64_t rows = args.in[0].shape[0], all = args.out[0].shape[0], width = args.out[0].shape[1];
  const int64_t first_token = attributes.integer("first_token");
  for (int64_t i = 0; i < all; ++i)
    for (int64_t c = 0; c < width; ++c) {
      const int64_t count = sequences.count(i), first = sequences.first(i) - first_token;
      double sum = 0;
      for (int64_t row = std::max<int64_t>(first, 0); row < std::min(first + count, rows); ++row)
        sum += x[row * width + c];
      args.out[0].as<T>()[i * width + c] = static_cast<T>(count > 0 ? sum / double(count) : 0);
    }
}

template <typename T>
void mean_tokens_backward(const KernelArgs& args, const Attributes& attributes) {
  const Sequences sequences = sequences_of(args, attributes);
  const T* dy = args.in[0].as<T>();
  const int64_t all = args.in[0].shape[0], rows = args.out[0].shape[0], width = args.out[0].shape[1];
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t i = sequences.of_token(attributes.integer("first_token") + row, all);
    for (int64_t c = 0; c < width; ++c)
      args.out[0].as<T>()[row * width + c] =
          static_cast<T>(i < 0 ? 0 : double(dy[i * width + c]) / double(sequences.count(i)));
  }
}

}  // namespace

void register_sequences(KernelTable& table) {
  add_kernel(table, "token_positions", token_positions, token_positions);
  add_kernel(table, "mean_tokens", mean_tokens<double>, mean_tokens<float>);
  add_kernel(table, "mean_tokens_backward", mean_tokens_backward<double>, mean_tokens_backward<float>);
}

}  // namespace recollect::reference
