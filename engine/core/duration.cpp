#include "engine/core/duration.h"

#include <cmath>

#include <fmt/format.h>

namespace recollect {

namespace {

// Omits zeros at the end: "3.20" is "3.2", "500.0" is "500".
std::string number_text(double number, int decimals) {
  std::string text = fmt::format("{:.{}f}", number, decimals);
  if (decimals == 0) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string three_digits(double number) {
  const int decimals = number < 1 ? 3 : number < 9.995 ? 2 : number < 99.95 ? 1 : 0;
  return number_text(number, decimals);
}

std::string two_digits(double number) { return number_text(number, number < 9.95 ? 1 : 0); }

}  // namespace

std::string duration_text(double seconds) {
  constexpr double kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  if (!std::isfinite(seconds)) return "no time that is known";
  if (seconds < 0) return "-" + duration_text(-seconds);
  if (seconds < 0.9995) return three_digits(1e3 * seconds) + " ms";
  if (seconds < 99.5) return three_digits(seconds) + " s";
  if (seconds < 99.5 * kMinute) return two_digits(seconds / kMinute) + " min";
  if (seconds < 47.5 * kHour) return two_digits(seconds / kHour) + " h";
  return two_digits(seconds / kDay) + " d";
}

const DurationUnit& duration_unit_for(double most) {
  static constexpr DurationUnit kUnits[] = {{"ms", 1e-3}, {"s", 1}, {"min", 60}};
  constexpr double kMost = 1e5;
  for (const DurationUnit& unit : kUnits)
    if (unit(most) < kMost) return unit;
  return kUnits[2];
}

}  // namespace recollect
