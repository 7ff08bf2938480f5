#include "launch/config/epochs.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <string>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "launch/config/inert.h"
#include "launch/config/keys.h"
#include "launch/config/validate.h"

namespace recollect {

namespace {

__extension__ typedef __int128 Wide;

// A decimal number as digits / 10^places.
struct Decimal {
  int64_t digits = 0;
  int places = 0;
};

Decimal decimal_of(double value) {
  char buffer[32] = {};  // "1.5e-01": the shortest that is read back as the same
  char* const end =
      std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::scientific).ptr;
  const std::string text(std::begin(buffer), end);
  const std::size_t e = text.find('e'), point = text.find('.');
  std::string digits = text.substr(0, e);
  int places = -std::atoi(text.c_str() + e + 1);
  if (point != std::string::npos) {
    places += static_cast<int>(e - point - 1);
    digits.erase(point, 1);
  }
  Decimal decimal{.places = places};
  std::from_chars(digits.data(), digits.data() + digits.size(), decimal.digits);
  for (; decimal.places < 0; ++decimal.places) decimal.digits *= 10;
  for (; decimal.places > 0 && decimal.digits % 10 == 0; --decimal.places) decimal.digits /= 10;
  return decimal;
}

}  // namespace

int64_t steps_of_epochs(double epochs, int64_t samples, int64_t batch) {
  const Decimal decimal = decimal_of(epochs);
  Wide divisor = batch;
  for (int place = 0; place < decimal.places; ++place) divisor *= 10;
  const Wide seen = Wide{decimal.digits} * samples, steps = (seen + divisor - 1) / divisor;
  return steps > Config::Training::kOpenSteps ? Config::Training::kOpenSteps : static_cast<int64_t>(steps);
}

bool is_occasion(int64_t every_steps, double every_epochs, const TrainedSoFar& now) {
  if (every_steps > 0) return now.step % every_steps == 0;
  if (every_epochs == 0 || now.samples == 0) return false;
  const Decimal decimal = decimal_of(every_epochs);
  Wide scale = 1;
  for (int place = 0; place < decimal.places; ++place) scale *= 10;
  const Wide period = Wide{decimal.digits} * now.samples;
  return now.seen * scale / period > (now.seen - now.batch) * scale / period;
}

void complete_steps(Config& config, int64_t samples) {
  Config::Training& t = config.training;
  const int64_t steps = steps_of_epochs(t.epochs, samples, t.global_batch_size);
  Problems problems;
  if (steps == Config::Training::kOpenSteps) {
    report({{{"training.epochs"},
             fmt::format("training.epochs {} of {} samples are more steps than a run can have, {}", t.epochs,
                         samples, steps - 1)}},
           config, {}, problems);
    problems.raise();
  }
  config.derived["training.max_steps"] =
      fmt::format("training.epochs {} x {} samples / training.global_batch_size", t.epochs, samples);
  t.max_steps = steps;
  t.epochs = 0;
  if (!config.origins.contains("profiling.step"))
    config.profiling.step = std::min(config.profiling.step, steps);
  report(validate(config), config, {}, problems);
  problems.raise();
  config.unreached = find_unreached(config, KeyTable::of(config.model.family()).defaults());
}

}  // namespace recollect
