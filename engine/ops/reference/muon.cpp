// Muon. Momentum and master are always read and updated, whatever KernelArgs::accumulate says. If the clip
// factor is NaN the direction is zero, and nothing else changes.
#include "engine/ops/muon.h"

#include <cmath>

#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

template <typename T>
void muon_direction_of(const KernelArgs& args, const Attributes& attributes) {
  const MuonSettings s(attributes);
  const int64_t columns = args.in[1].shape[1], begin = s.first_row * columns;
  const double clip = args.in[0].as<double>()[0];
  const T* gradient = args.in[1].as<T>() + begin;
  T* buffer = args.out[0].as<T>() + begin;
  T* direction = args.out[1].as<T>();
  double square = 0;
  for (int64_t i = 0; i < s.rows * columns; ++i) {
    direction[i] = 0;
    if (std::isnan(clip)) continue;
    double b = buffer[i];
    direction[i] = static_cast<T>(muon_direction<double>(gradient[i] * clip, s.momentum, s.nesterov, b));
    buffer[i] = static_cast<T>(b);
    square += double(direction[i]) * direction[i];
  }
  args.out[2].as<double>()[0] = square;
}

template <typename T>
void combine(const KernelArgs& args, const Attributes& attributes) {
  const MuonSettings s(attributes);
  const double divisor = present(args.in, 2) ? norm_of(s, args.in[2].as<double>()[0]) : 1.0;
  for (int64_t i = 0; i < args.in[0].elements(); ++i) {
    double sum = s.alpha * args.in[0].as<T>()[i];
    if (present(args.in, 1)) sum += s.beta * args.in[1].as<T>()[i];
    args.out[0].as<T>()[i] = static_cast<T>(sum / divisor);
  }
}

template <typename T>
void muon(const KernelArgs& args, const Attributes& attributes) {
  const MuonSettings s(attributes);
  if (std::isnan(args.in[1].as<double>()[0])) return;
  const int64_t columns = args.out[0].shape[1], begin = s.first_row * columns;
  const double rate = args.in[0].as<double>()[0] * s.rate_scale;
  const bool cast = attributes.integer("cast") != 0;
  for (int64_t i = 0; i < s.rows * columns; ++i) {
    T& master = args.out[0].as<T>()[begin + i];
    master = static_cast<T>(
        muon_moved<double>(master, args.in[2].as<T>()[i], rate * s.weight_decay, rate * s.adjustment));
    if (cast) args.out[1].as<T>()[begin + i] = master;
  }
}

}  // namespace

void register_muon(KernelTable& table) {
  add_kernel(table, "muon_direction", muon_direction_of<double>, muon_direction_of<float>);
  add_kernel(table, "combine", combine<double>, combine<float>);
  add_kernel(table, "muon", muon<double>, muon<float>);
}

}  // namespace recollect::reference
