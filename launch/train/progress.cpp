#include "launch/train/progress.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "engine/core/duration.h"
#include "engine/io/standard_output.h"

namespace recollect {

namespace {

constexpr int kAllDigits = 17, kOfAnEpoch = 9, kOfAClock = 6;
constexpr std::string_view kEvaluated = "eval_";  // prefix of an evaluation's metrics

double tokens_per_second(const StepResult& r) { return static_cast<double>(r.tokens) / r.seconds; }

}  // namespace

int64_t steps_between_lines(const Config& config) {
  constexpr int64_t kLines = 20, kMostSteps = 500;
  if (config.logging.every_epochs > 0) return 0;
  if (config.logging.steps > 0) return config.logging.steps;
  return std::clamp((config.training.max_steps + kLines - 1) / kLines, int64_t{1}, kMostSteps);
}

Progress::Progress(const Config& config, uint64_t memory_bytes, int64_t steps_done)
    : metrics_(config, steps_done),
      total_steps_(config.training.max_steps),
      every_(steps_between_lines(config)),
      every_epochs_(config.logging.every_epochs),
      steps_before_(steps_done),
      bar_(config.logging.progress),
      memory_bytes_(memory_bytes) {}

Progress::~Progress() {
  try {
    finish();
  } catch (const std::exception&) {  // output to a terminal must not end a run
  }
}

void Progress::finish() {
  fmt::memory_buffer text;
  bar_.erase(text);
  if (text.size() > 0) put_text(stdout, {text.data(), text.size()});
}

void Progress::go_back_to(int64_t step) {
  metrics_.go_back_to(step);
  steps_before_ = step;
  start_ = Clock::now();
}

void Progress::write(FittedLine& line) {
  fmt::memory_buffer text;
  bar_.erase(text);
  line.fit(static_cast<std::size_t>(bar_.columns()));
  line.write(text);
  text.push_back('\n');
  put_text(stdout, {text.data(), text.size()});
}

void Progress::report(const StepResult& r) {
  constexpr std::size_t kAlways = 12;
  std::array<Metric, kAlways + 3> metrics{{{"loss", r.loss, kAllDigits},
                                           {"grad_norm", r.grad_norm, kAllDigits},
                                           {"learning_rate", r.learning_rate, kAllDigits},
                                           {"tokens", static_cast<double>(r.tokens)},
                                           {"valid_targets", static_cast<double>(r.valid_targets)},
                                           {"tokens_per_second", tokens_per_second(r), kOfAClock},
                                           {"step_seconds", r.seconds, kOfAClock},
                                           {"device_memory", static_cast<double>(memory_bytes_)},
                                           {"samples", static_cast<double>(r.samples)},
                                           {"sequence_length", static_cast<double>(r.sequence_length)},
                                           {"memory_peak", static_cast<double>(r.memory_peak)},
                                           {"memory_peak_phase", 0, Metric::kText, name_of(r.peak_phase)}}};
  std::size_t count = kAlways;
  if (r.epoch > 0) metrics[count++] = {"epoch", r.epoch, kOfAnEpoch};
  if (r.loss_scale != 1 || r.skipped) {
    metrics[count++] = {"loss_scale", r.loss_scale, kAllDigits};
    metrics[count++] = {"skipped", r.skipped ? 1.0 : 0.0, Metric::kYesOrNo};
  }
  metrics_.write(r.step, std::span(metrics.data(), count));
  if (r.step == 1 || r.step == total_steps_ || is_occasion(every_, every_epochs_, r.so_far)) {
    FittedLine line;
    line.add(FittedLine::kAlways, "step {}/{}", r.step, total_steps_);
    line.add(1, "loss {:.4f}", r.loss);
    line.add(4, "grad norm {:.3f}", r.grad_norm);
    line.add(3, "lr {:.3g}", r.learning_rate);
    line.add(5, "{:.0f} tokens/s", tokens_per_second(r));
    line.add(6, "{}", duration_text(r.seconds));
    if (!r.not_finite.empty())
      line.add(2, "skipped: not finite");
    else if (r.skipped)
      line.add(2, "skipped: overflow at loss scale {}", r.loss_scale);
    write(line);
  }
  if (bar_.is_on()) draw_bar(r);
}

void Progress::report(const EvaluationResult& r, int64_t steps_done) {
  constexpr int kLast = 100;  // the least important
  std::array<Metric, 5 + MetricList::kMost> metrics{
      {{"eval_loss", r.loss, kAllDigits},
       {"eval_tokens", static_cast<double>(r.tokens)},
       {"eval_valid_targets", static_cast<double>(r.valid_targets)},
       {"eval_seconds", r.seconds, kOfAClock}}};
  std::size_t count = 4;
  FittedLine line;
  line.add(FittedLine::kAlways, "step {}/{}", steps_done, total_steps_);
  line.add(1, "evaluation loss {:.4f}", r.loss);
  for (const MetricValue& metric : r.metrics) {
    metrics[count++] = {metric.name, metric.value, kAllDigits};
    const bool prefixed = metric.name.starts_with(kEvaluated);
    line.add(static_cast<int>(count), "{} {:.4f}", metric.name.substr(prefixed ? kEvaluated.size() : 0),
             metric.value);
  }
  if (r.epoch > 0) metrics[count++] = {"epoch", r.epoch, kOfAnEpoch};
  metrics_.write(steps_done, std::span(metrics.data(), count));
  line.add(kLast, "{} tokens", r.tokens);
  line.add(kLast, "{}", duration_text(r.seconds));
  write(line);
}

void Progress::draw_bar(const StepResult& r) {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const auto done = static_cast<double>(std::max<int64_t>(1, r.step - steps_before_));
  bar_.draw({.step = r.step,
             .steps = total_steps_,
             .loss = r.loss,
             .learning_rate = r.learning_rate,
             .grad_norm = r.grad_norm,
             .tokens_per_second = tokens_per_second(r),
             .elapsed = elapsed,
             .left = elapsed / done * static_cast<double>(total_steps_ - r.step),
             .memory = memory_bytes_});
}

}  // namespace recollect
