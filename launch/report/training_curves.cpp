#include "launch/report/training_curves.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "engine/io/descriptor.h"
#include "engine/io/json.h"

namespace recollect {

namespace {

constexpr std::size_t kMostCurves = 32;
constexpr std::size_t kLongestLine = 64 << 10;

// The curves of steps to keep; the others are only in the file.
constexpr std::array<std::string_view, 5> kOfAStep = {"loss", "grad_norm", "learning_rate",
                                                      "tokens_per_second", "step_seconds"};
// The keys of an evaluation that are no curves, because they say nothing about the model.
constexpr std::array<std::string_view, 6> kOfNoModel = {
    "step", "epoch", "eval_tokens", "eval_valid_targets", "eval_seconds", "eval_samples"};

template <std::size_t N>
bool holds(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Rounds to six digits to keep the page small.
double shortened(double value) { return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr); }

}  // namespace

void Curve::add(int64_t step, double value) {
  if (!std::isfinite(value) || (!points_.empty() && step < points_.back().step)) return;
  last_ = value;
  if (!points_.empty() && points_.back().values < together_) {
    Point& p = points_.back();
    p = {step, p.mean + (value - p.mean) / static_cast<double>(p.values + 1), std::min(p.low, value),
         std::max(p.high, value), p.values + 1};
    return;
  }
  if (points_.size() == kMostPoints) halve();
  points_.push_back({step, value, value, value});
}

void Curve::halve() {
  std::vector<Point> half;
  for (std::size_t i = 0; i + 1 < points_.size(); i += 2) {
    const Point &a = points_[i], &b = points_[i + 1];
    const auto of_a = static_cast<double>(a.values), of_b = static_cast<double>(b.values);
    half.push_back({b.step, (of_a * a.mean + of_b * b.mean) / (of_a + of_b), std::min(a.low, b.low),
                    std::max(a.high, b.high), a.values + b.values});
  }
  points_ = std::move(half);
  together_ *= 2;
}

const Curve* TrainingCurves::find(std::string_view key) const {
  const auto found =
      std::find_if(curves_.begin(), curves_.end(), [&](const Named& named) { return named.key == key; });
  return found == curves_.end() ? nullptr : &found->curve;
}

void TrainingCurves::add(std::string_view key, bool evaluated, int64_t step, double value) {
  auto found =
      std::find_if(curves_.begin(), curves_.end(), [&](const Named& named) { return named.key == key; });
  if (found == curves_.end()) {
    if (curves_.size() == kMostCurves) return;
    curves_.push_back({std::string(key), evaluated});
    found = curves_.end() - 1;
  }
  found->curve.add(step, value);
}

void TrainingCurves::add_line(std::string_view line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  const auto step = json.is_object() ? json.find("step") : json.end();
  if (!json.is_object() || step == json.end() || !step->is_number_integer() || step->get<int64_t>() < 0) {
    ++left_out_;
    return;
  }
  const auto at = step->get<int64_t>();
  if (at < step_) return;  // steps that a rollback repeats
  step_ = at;
  const bool evaluated = json.contains("eval_loss");
  if (!evaluated) add_shape(json);
  for (const auto& [key, value] : json.items())
    if (value.is_number() && (evaluated ? !holds(kOfNoModel, key) : holds(kOfAStep, key)))
      add(key, evaluated, at, value.get<double>());
}

void TrainingCurves::add_shape(const nlohmann::json& line) {
  constexpr std::size_t kMostShapes = 1024;
  const auto number = [&](const char* key) {
    const auto found = line.find(key);
    return found != line.end() && found->is_number_unsigned() ? found->get<int64_t>() : 0;
  };
  const Shape shape{number("sequence_length"), number("samples")};
  const auto bytes = static_cast<uint64_t>(number("memory_peak"));
  const auto phase = line.find("memory_peak_phase");
  if (shape.first <= 0 || shape.second <= 0 || bytes == 0 || phase == line.end() || !phase->is_string())
    return;
  if (shapes_.size() == kMostShapes && !shapes_.contains(shape)) return;
  OfShape& of = shapes_[shape];
  ++of.steps;
  if (bytes <= of.memory_peak) return;
  of.memory_peak = bytes;
  of.phase = phase->get<std::string>();
}

nlohmann::ordered_json curves_json(const TrainingCurves& curves) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const TrainingCurves::Named& named : curves.all()) {
    const std::vector<Curve::Point>& points = named.curve.points();
    if (points.empty()) continue;
    Json steps = Json::array(), mean = Json::array(), low = Json::array(), high = Json::array();
    bool single = true;
    for (const Curve::Point& p : points) {
      steps.push_back(p.step);
      mean.push_back(shortened(p.mean));
      low.push_back(shortened(p.low));
      high.push_back(shortened(p.high));
      single = single && p.values == 1;
    }
    list.push_back({{"key", named.key},
                    {"evaluated", named.evaluated},
                    {"step", std::move(steps)},
                    {"mean", std::move(mean)}});
    if (single) continue;
    list.back()["low"] = std::move(low);
    list.back()["high"] = std::move(high);
  }
  Json json{{"step", curves.step()}, {"curves", std::move(list)}};
  const auto& shapes = curves.shapes();
  if (!shapes.empty() && shapes.begin()->first.first != shapes.rbegin()->first.first)
    for (const auto& [shape, of] : shapes)
      json["lengths"].push_back({{"length", shape.first},
                                 {"samples", shape.second},
                                 {"steps", of.steps},
                                 {"memory_peak", of.memory_peak},
                                 {"phase", of.phase}});
  return json;
}

bool MetricsFile::read() {
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)};
  struct stat now {};
  if (file.get() < 0 || ::fstat(file.get(), &now) != 0 || !S_ISREG(now.st_mode)) return false;
  bool is_new = false;
  if (now.st_dev != device_ || now.st_ino != inode_ || now.st_size < read_) {
    is_new = read_ > 0;
    *this = MetricsFile(path_.substr(0, path_.rfind('/')));
    device_ = now.st_dev;
    inode_ = now.st_ino;
  }
  std::string text(1 << 20, '\0');
  while (read_ < now.st_size) {  // stop at the size so far: a fast run may write as quickly as this reads
    const auto most = std::min(text.size(), static_cast<std::size_t>(now.st_size - read_));
    const ssize_t bytes = ::pread(file.get(), text.data(), most, read_);
    if (bytes <= 0) break;
    read_ += bytes;
    take(std::string_view(text).substr(0, static_cast<std::size_t>(bytes)));
    is_new = true;
  }
  return is_new;
}

void MetricsFile::take(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view part = text.substr(0, end);
    if (!passes_over_) begun_ += part;
    if (begun_.size() > kLongestLine) {
      passes_over_ = true;
      begun_.clear();
    }
    if (end == std::string_view::npos) return;
    if (!begun_.empty() || passes_over_) curves_.add_line(begun_);
    begun_.clear();
    passes_over_ = false;
    text.remove_prefix(end + 1);
  }
}

TrainingCurves read_curves(const std::string& folder) {
  MetricsFile file(folder);
  file.read();
  return file.curves();
}

}  // namespace recollect
