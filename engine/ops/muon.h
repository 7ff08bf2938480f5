// The elementwise parts of Muon (Jordan et al., 2024), the same on every backend. The matrix products between
// them are separate ops.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/core/host_device.h"
#include "engine/graph/attributes.h"

namespace recollect {

// Settings of an op on some rows of a parameter, which form one matrix or a rank's shard of one.
struct MuonSettings {
  explicit MuonSettings(const Attributes& attributes) {
    const auto real = [&](std::string_view name, double otherwise) {
      return attributes.has(name) ? attributes.real(name) : otherwise;
    };
    if (attributes.has("rows")) {
      first_row = attributes.integer("first_row");
      rows = attributes.integer("rows");
    }
    momentum = real("momentum", 0);
    nesterov = attributes.has("nesterov") && attributes.integer("nesterov") != 0;
    alpha = real("alpha", 1);
    beta = real("beta", 0);
    epsilon = real("epsilon", 0);
    square_scale = real("square_scale", 1);
    weight_decay = real("weight_decay", 0);
    adjustment = real("adjustment", 1);
    rate_scale = real("rate_scale", 1);
  }

  int64_t first_row = 0, rows = 0;
  double momentum = 0;
  bool nesterov = false;
  double alpha = 1, beta = 0, epsilon = 0, square_scale = 1;  // of combine
  double weight_decay = 0, adjustment = 1, rate_scale = 1;    // of the update
};

template <typename T>
RECOLLECT_HOST_DEVICE T muon_direction(T gradient, T momentum, bool nesterov, T& buffer) {
  buffer += (T{1} - momentum) * (gradient - buffer);
  return nesterov ? gradient + momentum * (buffer - gradient) : buffer;
}

// Returns the divisor that normalises a value; `square` is the sum of its squares.
RECOLLECT_HOST_DEVICE inline double norm_of(const MuonSettings& s, double square) {
  const double norm = std::sqrt(square * s.square_scale);
  return norm > s.epsilon ? norm : s.epsilon;
}

template <typename T>
RECOLLECT_HOST_DEVICE T muon_moved(T w, T direction, T decay, T rate) {
  return w - decay * w - rate * direction;
}

}  // namespace recollect
