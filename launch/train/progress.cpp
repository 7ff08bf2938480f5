#include "launch/train/progress.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "engine/io/descriptor.h"
#include "engine/io/standard_output.h"

namespace recollect {

namespace {

constexpr int kBarWidth = 24;
constexpr int kAllDigits = 17, kOfAClock = 6;
constexpr std::string_view kEvaluated = "eval_";  // begins what an evaluation's line says of itself

double tokens_per_second(const StepResult& r) { return static_cast<double>(r.tokens) / r.seconds; }

// Open MPI gives its ranks a terminal of their own, whatever mpirun itself writes to.
bool writes_to_terminal() {
  if (!isatty(STDOUT_FILENO)) return false;
  if (!std::getenv("OMPI_COMM_WORLD_RANK")) return true;
  const std::string of_mpirun = fmt::format("/proc/{}/fd/1", ::getppid());
  const Descriptor there{::open(of_mpirun.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)};
  return there.get() >= 0 && isatty(there.get());
}

}  // namespace

Progress::Progress(const Config& config, uint64_t memory_bytes, int64_t steps_done)
    : config_(config),
      metrics_(config, steps_done),
      total_steps_(config.training.max_steps),
      every_(config.logging.steps),
      bar_(config.logging.progress == ProgressStyle::kOn ||
           (config.logging.progress == ProgressStyle::kAuto && writes_to_terminal())),
      memory_bytes_(memory_bytes) {}

Progress::~Progress() {
  try {
    finish();
  } catch (const std::exception&) {  // a line's end on the terminal is not worth a run
  }
}

void Progress::finish() {
  if (drawn_) say("\n");
  drawn_ = false;
}

void Progress::report(const StepResult& r) {
  const Metric metrics[] = {{"loss", r.loss, kAllDigits},
                            {"grad_norm", r.grad_norm, kAllDigits},
                            {"learning_rate", r.learning_rate, kAllDigits},
                            {"tokens", static_cast<double>(r.tokens)},
                            {"valid_targets", static_cast<double>(r.valid_targets)},
                            {"tokens_per_second", tokens_per_second(r), kOfAClock},
                            {"step_seconds", r.seconds, kOfAClock},
                            {"device_memory", static_cast<double>(memory_bytes_)},
                            {"loss_scale", r.loss_scale, kAllDigits},
                            {"skipped", r.skipped ? 1.0 : 0.0, Metric::kYesOrNo}};
  constexpr std::size_t kOfScaling = 2;  // the last ones
  const std::size_t count = std::size(metrics) - (r.loss_scale != 1 || r.skipped ? 0 : kOfScaling);
  metrics_.write(r.step, std::span(metrics, count));
  if (bar_) {
    draw_bar(r);
  } else if (r.step == 1 || r.step == total_steps_ || r.step % every_ == 0) {
    fmt::memory_buffer skipped;
    if (!r.not_finite.empty())
      fmt::format_to(std::back_inserter(skipped), "  skipped: not finite");
    else if (r.skipped)
      fmt::format_to(std::back_inserter(skipped), "  skipped: overflow at loss scale {}", r.loss_scale);
    say("step {}/{}  loss {:.4f}  grad norm {:.3f}  lr {:.3g}  {:.0f} tokens/s  {:.1f} ms{}\n", r.step,
        total_steps_, r.loss, r.grad_norm, r.learning_rate, tokens_per_second(r), 1e3 * r.seconds,
        std::string_view(skipped.data(), skipped.size()));
  }
}

void Progress::report(const EvaluationResult& r, int64_t steps_done) {
  std::array<Metric, 4 + MetricList::kMost> metrics{
      {{"eval_loss", r.loss, kAllDigits},
       {"eval_tokens", static_cast<double>(r.tokens)},
       {"eval_valid_targets", static_cast<double>(r.valid_targets)},
       {"eval_seconds", r.seconds, kOfAClock}}};
  std::size_t count = 4;
  fmt::memory_buffer judged;
  for (const MetricValue& metric : r.metrics) {
    metrics[count++] = {metric.name, metric.value, kAllDigits};
    const bool prefixed = metric.name.starts_with(kEvaluated);
    fmt::format_to(std::back_inserter(judged), "  {} {:.4f}",
                   metric.name.substr(prefixed ? kEvaluated.size() : 0), metric.value);
  }
  metrics_.write(steps_done, std::span(metrics.data(), count));
  finish();
  say("step {}/{}  evaluation loss {:.4f}{}  {} tokens  {:.1f} ms\n", steps_done, total_steps_, r.loss,
      std::string_view(judged.data(), judged.size()), r.tokens, 1e3 * r.seconds);
}

void Progress::draw_bar(const StepResult& r) {
  const auto full = static_cast<int>(kBarWidth * r.step / std::max<int64_t>(1, total_steps_));
  say("\r[{:=<{}}{: <{}}] {}/{}  loss {:.4f}  {:.0f} tokens/s  {:.2f} GiB ", "", full, "", kBarWidth - full,
      r.step, total_steps_, r.loss, tokens_per_second(r), static_cast<double>(memory_bytes_) / (1u << 30));
  drawn_ = true;
}

}  // namespace recollect
