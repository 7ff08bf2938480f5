// Token and position tables. A rank may hold only some rows of the token table. Then ids of other rows read
// zero and get no gradient, and the sum over ranks is the whole embedding. A rank may also hold only some
// tokens: first_tokens reads zero if the first token of a sample is not here.
#include <algorithm>

#include "engine/ops/reference/kernels.h"
#include "engine/ops/sequences.h"

namespace recollect::reference {
namespace {

template <typename T>
void embedding(const KernelArgs& args, const Attributes& attributes) {
  const int32_t* ids = args.in[0].as<int32_t>();
  const T* table = args.in[1].as<T>();
  T* y = args.out[0].as<T>();
  const int64_t tokens = args.in[0].elements(), rows = args.in[1].shape[0], width = args.in[1].shape[1];
  const int64_t first_row = attributes.integer("first_row");
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t row = ids[t] - first_row;
    const bool here = row >= 0 && row < rows;
    for (int64_t c = 0; c < width; ++c) y[t * width + c] = here ? table[row * width + c] : T(0);
  }
}

std::size_t one_row_of_double(const OpView& view) { return view.in(1).shape[1] * sizeof(double); }

template <typename T>
void embedding_backward(const KernelArgs& args, const Attributes& attributes) {
  const int32_t* ids = args.in[0].as<int32_t>();
  const T* dy = args.in[1].as<T>();
  T* dtable = args.out[0].as<T>();
  const int64_t tokens = args.in[0].elements(), rows = args.out[0].shape[0], width = args.out[0].shape[1];
  const int64_t first_row = attributes.integer("first_row");
  const int64_t padding_id = unlearnt_id(attributes);
  double* sum = reinterpret_cast<double*>(args.workspace);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < width; ++c) sum[c] = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      if (ids[t] - first_row != row || ids[t] == padding_id) continue;
      for (int64_t c = 0; c < width; ++c) sum[c] += dy[t * width + c];
    }
    for (int64_t c = 0; c < width; ++c) store(dtable[row * width + c], sum[c], args.accumulate);
  }
}

template <typename T>
void add_position(const KernelArgs& args, const Attributes& attributes) {
  const T* x = args.in[0].as<T>();
  const T* table = args.in[1].as<T>();
  T* y = args.out[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1];
  const int64_t sequence_length = attributes.integer("sequence_length");
  const int64_t first_token = attributes.integer("first_token");
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t position = (first_token + t) % sequence_length;
    for (int64_t c = 0; c < width; ++c)
      y[t * width + c] = static_cast<T>(double(x[t * width + c]) + table[position * width + c]);
  }
}

template <typename T>
void add_position_backward(const KernelArgs& args, const Attributes& attributes) {
  const T* dy = args.in[0].as<T>();
  T* dtable = args.out[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1], positions = args.out[0].shape[0];
  const int64_t sequence_length = attributes.integer("sequence_length");
  const int64_t first_token = attributes.integer("first_token");
  for (int64_t position = 0; position < positions; ++position) {
    for (int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (int64_t t = 0; t < tokens; ++t)
        if ((first_token + t) % sequence_length == position) sum += dy[t * width + c];
      store(dtable[position * width + c], sum, args.accumulate);
    }
  }
}

template <typename T>
void add_embedding(const KernelArgs& args, const Attributes& attributes) {
  const T* x = args.in[0].as<T>();
  const int32_t* ids = args.in[1].as<int32_t>() + attributes.integer("first_token");
  const T* table = args.in[2].as<T>();
  T* y = args.out[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1], rows = args.in[2].shape[0];
  for (int64_t t = 0; t < tokens; ++t) {
    const bool here = ids[t] >= 0 && ids[t] < rows;
    for (int64_t c = 0; c < width; ++c)
      y[t * width + c] = static_cast<T>(double(x[t * width + c]) + (here ? table[ids[t] * width + c] : T(0)));
  }
}

template <typename T>
void add_embedding_backward(const KernelArgs& args, const Attributes& attributes) {
  const T* dy = args.in[0].as<T>();
  const int32_t* ids = args.in[1].as<int32_t>() + attributes.integer("first_token");
  T* dtable = args.out[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1], rows = args.out[0].shape[0];
  const int64_t padding_id = unlearnt_id(attributes);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (int64_t t = 0; t < tokens; ++t)
        if (ids[t] == row && row != padding_id) sum += dy[t * width + c];
      store(dtable[row * width + c], sum, args.accumulate);
    }
  }
}

template <typename T>
void first_tokens(const KernelArgs& args, const Attributes& attributes) {
  const T* x = args.in[0].as<T>();
  T* y = args.out[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], samples = args.out[0].shape[0], width = args.in[0].shape[1];
  const int64_t length = attributes.integer("sequence_length");
  const int32_t* which = present(args.in, 1) ? args.in[1].as<int32_t>() : nullptr;
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t row = (which ? which[i] : i * length) - attributes.integer("first_token");
    const bool here = row >= 0 && row < tokens;
    for (int64_t c = 0; c < width; ++c) y[i * width + c] = here ? x[row * width + c] : T(0);
  }
}

template <typename T>
void first_tokens_backward(const KernelArgs& args, const Attributes& attributes) {
  const T* dy = args.in[0].as<T>();
  T* dx = args.out[0].as<T>();
  const int64_t tokens = args.out[0].shape[0], width = args.out[0].shape[1];
  const int64_t length = attributes.integer("sequence_length");
  const int32_t* which = present(args.in, 1) ? args.in[1].as<int32_t>() : nullptr;
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t token = attributes.integer("first_token") + t, rows = args.in[0].shape[0];
    const int64_t row = which ? std::find(which, which + rows, token) - which : token / length;
    const bool first = which ? row < rows : token % length == 0;
    for (int64_t c = 0; c < width; ++c) dx[t * width + c] = first ? dy[row * width + c] : T(0);
  }
}

}  // namespace

void register_embedding(KernelTable& table) {
  add_kernel(table, "embedding", embedding<double>, embedding<float>);
  add_kernel(table, "embedding_backward", embedding_backward<double>, embedding_backward<float>,
             one_row_of_double);
  add_kernel(table, "add_position", add_position<double>, add_position<float>);
  add_kernel(table, "add_position_backward", add_position_backward<double>, add_position_backward<float>);
  add_kernel(table, "add_embedding", add_embedding<double>, add_embedding<float>);
  add_kernel(table, "add_embedding_backward", add_embedding_backward<double>, add_embedding_backward<float>);
  add_kernel(table, "first_tokens", first_tokens<double>, first_tokens<float>);
  add_kernel(table, "first_tokens_backward", first_tokens_backward<double>, first_tokens_backward<float>);
}

}  // namespace recollect::reference
