// What each length took that sequences were padded to: its micro-batches, their time and their memory, predicted and
// measured. Of one rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpointing/device_model.h"
#include "launch/program/program_cache.h"
#include "launch/report/checked_json.h"

namespace recollect {

struct LengthReport {
  int64_t length = 0, micro_batches = 0;  // those that trained
  double predicted = 0, measured = 0;     // seconds of a micro-batch; measured: the mean
  // Of the device's arena, beside what persists from step to step. Measured: of what has run of its program, which an
  // optimizer's phase follows only where a step has ended with this length.
  uint64_t predicted_bytes = 0, measured_bytes = 0;
  bool operator==(const LengthReport&) const = default;
};

// Those that have trained, the shortest first.
std::vector<LengthReport> report_lengths(const ProgramCache& programs, const DeviceModel& device,
                                         int64_t micro_batches_of_step);

// Seconds of the mean step, predicted, of `steps` steps that consisted of these; `optimizer`: of its phase.
double predicted_step(const std::vector<LengthReport>& lengths, int64_t steps, double optimizer);

std::string lengths_text(const std::vector<LengthReport>& lengths);  // those that took most time; a line each
nlohmann::ordered_json lengths_json(const std::vector<LengthReport>& lengths);
std::vector<LengthReport> read_lengths(const JsonPlace& json);

}  // namespace recollect
