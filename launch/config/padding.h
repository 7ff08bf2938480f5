// To what lengths the sequences of micro-batches are padded, and how many such lengths a run may have.
#pragma once

#include <cstdint>

#include "launch/config/config.h"

namespace recollect {

// Of what lengths are multiples, but for data.sequence_length itself; 0: there is no other length. Where sequence
// parallelism divides the tokens of a micro-batch, lengths are such that it can.
int64_t length_multiple(const Config& config);

constexpr int64_t kLargestMultiple = 65536;  // that data.pad_to_multiple_of may be

// data.sequence_length among them.
int64_t number_of_lengths(const Config& config);

// data.pad_to_multiple_of where it is not given: 8, with buckets 64, or more where that makes too many lengths.
int64_t default_multiple(const Config& config);

// Each length is planned before a run begins. So many take seconds, with fewer layers more of them.
int64_t most_lengths(const Config& config);

}  // namespace recollect
