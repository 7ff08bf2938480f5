#include "launch/program/lengths.h"

#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "engine/data/loader.h"
#include "launch/program/task.h"

namespace recollect {

// Every chunk of logits reads and writes the whole gradient of the head. This costs time on a GPU, so that
// chunks are larger there.
BatchShape batch_shape(const Config& config) {
  const bool gpu = config.device.backend == BackendKind::kCuda;
  return {.samples = config.training.micro_batch_size * task_settings(config).choices,
          .sequence_length = config.data.sequence_length,
          .most_logits = gpu ? 4096 : 1024};
}

std::vector<BatchShape> all_batch_shapes(const Config& config) {
  std::vector<BatchShape> shapes{batch_shape(config)};
  const int64_t multiple = length_multiple(config), most = config.data.sequence_length;
  if (multiple == 0) return shapes;
  for (int64_t length = (most - 1) / multiple * multiple; length > 0; length -= multiple) {
    shapes.push_back(shapes.front());
    shapes.back().sequence_length = length;
  }
  return shapes;
}

namespace {

// Parses a positive whole number with optional spaces around it.
int64_t whole_number(std::string_view text, const std::string& all) {
  const auto begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  int64_t number = 0;
  if (begin != text.npos) {
    text = text.substr(begin, end - begin + 1);
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && rest == text.data() + text.size() && number > 0) return number;
  }
  throw Error(ExitCode::kConfiguration,
              fmt::format("--lengths wants lengths and how often they come, found '{}'", all),
              "write --lengths \"64:120, 128:40\", or --lengths data to have them counted");
}

}  // namespace

LengthCounts read_length_counts(const std::string& text, const Config& config) {
  LengthCounts counts;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto colon = std::min(part.find(':'), part.size());
    const std::string_view of(part);
    const int64_t length = whole_number(of.substr(0, colon), text),
                  count = whole_number(colon < of.size() ? of.substr(colon + 1) : "", text),
                  most = config.data.sequence_length;
    if (length > most)
      throw Error(ExitCode::kConfiguration,
                  fmt::format("--lengths has a length of {}, and data.sequence_length is {}", length, most),
                  "raise data.sequence_length, or leave that length out");
    counts[padded_length(length, length_multiple(config), most)] += count;
  }
  if (counts.empty()) whole_number("", text);
  return counts;
}

}  // namespace recollect
