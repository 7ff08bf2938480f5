// The sequences that a batch's rows of tokens are made of, for every backend: one a sample, or, packed, several.
#pragma once

#include <cstdint>

#include "engine/core/host_device.h"
#include "engine/graph/attributes.h"

namespace recollect {

// The id whose row of a table learns nothing; -1: there is none.
inline int64_t unlearnt_id(const Attributes& attributes) {
  return attributes.has("padding_id") ? attributes.integer("padding_id") : -1;
}

// Tokens are numbered in the micro-batch. Sample i has `lengths`[i] tokens of `length`; or sequence i begins at token
// `which`[i], -1 is none, and `positions` are those of all tokens in their sequences.
struct Sequences {
  const int32_t *lengths, *which, *positions;
  int64_t length, tokens;

  RECOLLECT_HOST_DEVICE int64_t first(int64_t i) const { return which ? which[i] : i * length; }
  RECOLLECT_HOST_DEVICE int64_t count(int64_t i) const {
    if (!which) return lengths[i];
    if (which[i] < 0) return 0;
    int64_t count = 1;
    while (which[i] + count < tokens && positions[which[i] + count] == count) ++count;
    return count;
  }
  // Of `all` sequences the one that the token belongs to; -1: none.
  RECOLLECT_HOST_DEVICE int64_t of_token(int64_t token, int64_t all) const {
    if (!which) return token % length < lengths[token / length] ? token / length : -1;
    if (positions[token] < 0) return -1;
    for (int64_t i = 0; i < all; ++i)
      if (which[i] == token - positions[token]) return i;
    return -1;
  }
};

// What token `i` of ids has in token_positions; `place`: its place in its sequence.
RECOLLECT_HOST_DEVICE inline int32_t padded_position(const int32_t* ids, int64_t i, int64_t place,
                                                     int32_t padding_id) {
  if (place < 0 || ids[i] == padding_id) return padding_id;
  int32_t position = padding_id;
  for (int64_t token = i - place; token <= i; ++token) position += ids[token] != padding_id;
  return position;
}

}  // namespace recollect
