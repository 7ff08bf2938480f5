// Frequencies of rotary position embedding, with the scalings for long contexts (rotary.h).
#include <algorithm>
#include <charconv>
#include <numbers>
#include <string>

#include "engine/ops/rotary.h"

namespace recollect {

namespace {

// Parses a text like "1, 1.05, ...", which must have `count` numbers.
std::vector<double> factors_of_text(const std::string& text, std::size_t count) {
  std::vector<double> numbers;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    double number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    require(error == std::errc() && number > 0, "short_factor and long_factor are positive numbers");
    numbers.push_back(number);
    at = std::find_if(next, end, [](char c) { return c != ',' && c != ' '; });
  }
  require(numbers.size() == count, "short_factor and long_factor have a number for each pair");
  return numbers;
}

}  // namespace

RotaryFrequencies::RotaryFrequencies(const Attributes& attributes)
    : attention_factor_(attributes.has("attention_factor") ? attributes.real("attention_factor") : 1.0),
      length_(attributes.has("length") ? attributes.integer("length") : 0) {
  const double theta = attributes.real("theta");
  const int64_t size = attributes.integer("head_size");
  for (int64_t i = 0; 2 * i < size; ++i)
    plain_.push_back(1.0 / std::pow(theta, static_cast<double>(2 * i) / static_cast<double>(size)));
  const std::string& scaling = attributes.text("scaling");
  if (scaling == "yarn")
    scale_by_ramp(attributes, theta);
  else if (scaling != "default")
    scale(attributes, scaling);
}

void RotaryFrequencies::scale(const Attributes& attributes, const std::string& scaling) {
  if (scaling == "longrope") {
    growth_.limit = attributes.integer("original_positions");
    const std::vector<double> plain = plain_;
    const auto divided = [&](const char* key) {
      std::vector<double> factors = factors_of_text(attributes.text(key), plain.size());
      for (std::size_t i = 0; i < plain.size(); ++i) factors[i] = plain[i] / factors[i];
      return factors;
    };
    plain_ = divided("short_factor");
    longer_ = divided("long_factor");
    return;
  }
  const double factor = attributes.real("factor");
  require(factor > 0, "rotary positions are scaled by a positive factor");
  if (scaling == "linear")
    for (double& frequency : plain_) frequency /= factor;
  else if (scaling == "dynamic")
    growth_ = {.limit = attributes.integer("original_positions"),
               .factor = factor,
               .elements = static_cast<double>(2 * plain_.size())};
  else if (scaling == "llama3")
    scale_by_turns(attributes);
  else
    throw Error(ExitCode::kInternal, "rotary positions are scaled in no way called '" + scaling + "'");
}

// The scaling of the type llama3 depends on the number of full turns of a pair in original_positions. Above
// high_freq_factor turns the frequency stays; below low_freq_factor it is divided by the factor; in between
// it is interpolated.
void RotaryFrequencies::scale_by_turns(const Attributes& attributes) {
  const double low = attributes.real("low_freq_factor"), high = attributes.real("high_freq_factor"),
               positions = static_cast<double>(attributes.integer("original_positions")),
               factor = attributes.real("factor");
  require(0 < low && low < high && positions > 0,
          "low_freq_factor is positive and less than high_freq_factor, and there are original positions");
  for (double& frequency : plain_) {
    const double turns = positions * frequency / (2.0 * std::numbers::pi);
    const double smooth = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    frequency = turns > high  ? frequency
                : turns < low ? frequency / factor
                              : (1.0 - smooth) * frequency / factor + smooth * frequency;
  }
}

// YaRN (Peng et al., 2023): as in scale_by_turns, but linear in the pair index between the pairs with
// beta_fast and beta_slow turns.
void RotaryFrequencies::scale_by_ramp(const Attributes& attributes, double theta) {
  const double factor = attributes.real("factor"), size = static_cast<double>(2 * plain_.size()),
               positions = static_cast<double>(attributes.integer("original_positions"));
  require(factor > 0 && positions > 0, "rotary positions are scaled by a positive factor");
  const auto pair_of_turns = [&](double turns) {
    return size * std::log(positions / (turns * 2.0 * std::numbers::pi)) / (2.0 * std::log(theta));
  };
  double low = pair_of_turns(attributes.real("beta_fast")),
         high = pair_of_turns(attributes.real("beta_slow"));
  if (attributes.integer("truncate") != 0) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < plain_.size(); ++i) {
    const double slowed = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    plain_[i] = plain_[i] / factor * slowed + plain_[i] * (1.0 - slowed);
  }
}

}  // namespace recollect
