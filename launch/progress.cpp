#include "launch/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

namespace recollect {

namespace {

constexpr int kBarWidth = 24;

double tokens_per_second(const StepResult& r) { return static_cast<double>(r.tokens) / r.seconds; }

// JSON has no infinity.
std::string json_number(double x) { return std::isfinite(x) ? fmt::format("{:.17g}", x) : "null"; }

}  // namespace

Progress::Progress(const std::string& metrics_path, int64_t total_steps, int64_t every, ProgressStyle style,
                   uint64_t memory_bytes)
    : metrics_(std::fopen(metrics_path.c_str(), "w")),
      total_steps_(total_steps),
      every_(every),
      bar_(style == ProgressStyle::kOn || (style == ProgressStyle::kAuto && isatty(STDOUT_FILENO))),
      memory_bytes_(memory_bytes) {
  if (!metrics_)
    throw Error(ExitCode::kStorage, "cannot write " + metrics_path + ": " + std::strerror(errno));
}

Progress::~Progress() { finish(); }

void Progress::finish() {
  if (drawn_) std::fputc('\n', stdout);
  drawn_ = false;
  std::fflush(stdout);
}

void Progress::report(const StepResult& r) {
  const std::string scaled =
      r.loss_scale == 1 ? ""
                        : fmt::format(R"(, "loss_scale": {:.17g}, "skipped": {})", r.loss_scale, r.skipped);
  const std::string line = fmt::format(
      R"({{"step": {}, "loss": {:.17g}, "grad_norm": {}, "learning_rate": {:.17g}, "tokens": {}, )"
      R"("valid_targets": {}, "tokens_per_second": {:.6g}, "step_seconds": {:.6g}{}}})"
      "\n",
      r.step, r.loss, json_number(r.grad_norm), r.learning_rate, r.tokens, r.valid_targets,
      tokens_per_second(r), r.seconds, scaled);
  write(line);
  if (bar_) {
    draw_bar(r);
  } else if (r.step == 1 || r.step == total_steps_ || r.step % every_ == 0) {
    fmt::print("step {}/{}  loss {:.4f}  grad norm {:.3f}  lr {:.3g}  {:.0f} tokens/s  {:.1f} ms{}\n", r.step,
               total_steps_, r.loss, r.grad_norm, r.learning_rate, tokens_per_second(r), 1e3 * r.seconds,
               r.skipped ? fmt::format("  skipped: overflow at loss scale {}", r.loss_scale) : "");
    std::fflush(stdout);
  }
}

void Progress::report(const EvaluationResult& r, int64_t steps_done) {
  write(fmt::format(R"({{"step": {}, "eval_loss": {:.17g}, "eval_tokens": {}, "eval_valid_targets": {}, )"
                    R"("eval_seconds": {:.6g}}})"
                    "\n",
                    steps_done, r.loss, r.tokens, r.valid_targets, r.seconds));
  finish();
  fmt::print("step {}/{}  evaluation loss {:.4f}  {} tokens  {:.1f} ms\n", steps_done, total_steps_, r.loss,
             r.tokens, 1e3 * r.seconds);
  std::fflush(stdout);
}

void Progress::write(const std::string& line) {
  const bool written = std::fputs(line.c_str(), metrics_.get()) >= 0 && std::fflush(metrics_.get()) == 0;
  if (!written && !complained_) {  // training is worth more than its log
    complained_ = true;
    fmt::print(stderr, "recollect: metrics.jsonl cannot be written: {}\n", std::strerror(errno));
  }
}

void Progress::draw_bar(const StepResult& r) {
  const auto full = static_cast<int>(kBarWidth * r.step / std::max<int64_t>(1, total_steps_));
  fmt::print("\r[{:=<{}}{: <{}}] {}/{}  loss {:.4f}  {:.0f} tokens/s  {:.2f} GiB ", "", full, "",
             kBarWidth - full, r.step, total_steps_, r.loss, tokens_per_second(r),
             static_cast<double>(memory_bytes_) / (1u << 30));
  std::fflush(stdout);
  drawn_ = true;
}

}  // namespace recollect
