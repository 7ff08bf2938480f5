// For each length that sequences were padded to, on one rank: its micro-batches, their time and their memory,
// predicted and measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpointing/device_model.h"
#include "launch/program/program_cache.h"
#include "launch/report/checked_json.h"

namespace recollect {

struct LengthReport {
  int64_t length = 0, micro_batches = 0;  // micro_batches: those that trained
  double predicted = 0, measured = 0;     // seconds of a micro-batch; measured is the mean
  // Bytes of the device's arena without the persistent part. `measured_bytes` covers the parts of its program
  // that have run; the optimizer phase has run only if a step has ended with this length.
  uint64_t predicted_bytes = 0, measured_bytes = 0;
  bool operator==(const LengthReport&) const = default;
};

// The lengths that have trained, the shortest first.
std::vector<LengthReport> report_lengths(const ProgramCache& programs, const DeviceModel& device,
                                         int64_t micro_batches_of_step);

// Predicted seconds of the mean of `steps` steps with these micro-batches. `optimizer` is the time of the
// optimizer phase.
double predicted_step(const std::vector<LengthReport>& lengths, int64_t steps, double optimizer);

std::string lengths_text(const std::vector<LengthReport>& lengths);  // of the slowest; a line each
nlohmann::ordered_json lengths_json(const std::vector<LengthReport>& lengths);
std::vector<LengthReport> read_lengths(const JsonPlace& json);

}  // namespace recollect
