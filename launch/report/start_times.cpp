#include "launch/report/start_times.h"

#include <fmt/format.h>

#include "engine/core/duration.h"

namespace recollect {

std::string start_line(const StartTimes& times, double first_step) {
  const double total = times.total(), told = total / 10;
  std::string text = fmt::format("start: {} to the first step", duration_text(total));
  const char* before = ", of which ";
  for (std::size_t i = 0; i < times.seconds.size(); ++i) {
    if (times.seconds[i] < told) continue;
    text += fmt::format("{}{} {}", before, kSpellings<StartPart>[i], duration_text(times.seconds[i]));
    before = ", ";
  }
  if (first_step >= told)
    text += fmt::format("; that step took {} more than the median", duration_text(first_step));
  return text + "\n";
}

}  // namespace recollect
