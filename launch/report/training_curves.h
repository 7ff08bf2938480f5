// The numbers of metrics.jsonl as curves over the steps, in memory that does not grow with the run. If a
// curve has too many points, pairs of points are merged into one with their mean, minimum and maximum.
// Invalid lines are counted and skipped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace recollect {

class Curve {
 public:
  static constexpr std::size_t kMostPoints = 2000;

  struct Point {
    int64_t step = 0;  // of the last value
    double mean = 0, low = 0, high = 0;
    int64_t values = 1;
  };

  // Steps do not decrease: a value of an earlier step is dropped.
  void add(int64_t step, double value);
  const std::vector<Point>& points() const { return points_; }
  double last() const { return last_; }

 private:
  void halve();

  std::vector<Point> points_;
  int64_t together_ = 1;  // values in a point
  double last_ = 0;
};

class TrainingCurves {
 public:
  struct Named {
    std::string key;
    bool evaluated = false;  // by an evaluation, not by a step
    Curve curve = {};
  };

  // A line of metrics.jsonl, without its end.
  void add_line(std::string_view line);

  // The shape of the micro-batch that used the most memory in a step: {sequence_length, samples}.
  using Shape = std::pair<int64_t, int64_t>;
  struct OfShape {
    int64_t steps = 0;
    uint64_t memory_peak = 0;  // the maximum over these steps
    std::string phase;         // the phase of that peak
  };
  const std::map<Shape, OfShape>& shapes() const { return shapes_; }

  const std::vector<Named>& all() const { return curves_; }
  const Curve* find(std::string_view key) const;
  int64_t step() const { return step_; }  // the latest step; 0 before the first
  int64_t lines_left_out() const { return left_out_; }

 private:
  void add(std::string_view key, bool evaluated, int64_t step, double value);

  void add_shape(const nlohmann::json& line);

  std::vector<Named> curves_;
  std::map<Shape, OfShape> shapes_;
  int64_t step_ = 0, left_out_ = 0;
};

// {"step", "curves": [{"key", "evaluated", "step": [...], "mean": [...], and, if points are merged, "low",
// "high"}]}, and if lengths vary "lengths": [{"length", "samples", "steps", "memory_peak", "phase"}]
nlohmann::ordered_json curves_json(const TrainingCurves& curves);

// Reads metrics.jsonl of a run that may still continue.
class MetricsFile {
 public:
  explicit MetricsFile(const std::string& folder) : path_(folder + "/metrics.jsonl") {}

  // Reads complete lines that are new since the last call, or the whole file if it was replaced or became
  // shorter. Returns whether anything is new. A missing file is no error, because a run need not write one.
  bool read();
  const TrainingCurves& curves() const { return curves_; }

 private:
  void take(std::string_view text);

  std::string path_, begun_;  // begun_: an incomplete line
  TrainingCurves curves_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  off_t read_ = 0;
  bool passes_over_ = false;  // skips the rest of an overlong line
};

// Reads the whole file.
TrainingCurves read_curves(const std::string& folder);

}  // namespace recollect
