#include "launch/report/chrome_trace.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "checkpointing/device_model.h"
#include "engine/io/json.h"

namespace recollect {

namespace {

// A JSON string.
std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Microseconds with three decimals, as the format needs them.
std::string microseconds(int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

std::string run_name(const StepTimeline::Run& run, int64_t micro_batches) {
  if (run.micro_batch == StepTimeline::kOptimizer) return "optimizer";
  return fmt::format("micro-batch {} of {}", run.micro_batch + 1, micro_batches);
}

std::string layer_name(const Timeline::Op& op) {
  return op.layer < 0 ? std::string(name_of(op.phase))
                      : fmt::format("{} of layer {}", name_of(op.phase), op.layer);
}

constexpr int thread_of(int stream) { return stream + 1; }

}  // namespace

void ChromeTrace::add(const RankReport& report, Times times) {
  const Timeline& timeline = report.timeline;
  if (times == Times::kMeasured && !timeline.measured) return;
  const StepTimeline& step = times == Times::kMeasured ? *timeline.measured : timeline.predicted;
  name_process(report, times);
  for (const StepTimeline::Run& run : step.runs) {
    slice(0, run_name(run, step.micro_batches), "run", run.begin, run.end);
    add_layers(timeline, run);
    add_ops(timeline, run);
    add_flows(timeline, run);
    add_counters(timeline, run);
  }
}

void ChromeTrace::event(const std::string& fields) {
  events_ += events_.empty() ? "{" : ",\n{";
  events_ += fields;
  events_ += '}';
}

void ChromeTrace::slice(int stream, const std::string& name, const char* kind, int64_t begin, int64_t end,
                        const std::string& arguments) {
  event(fmt::format(R"("ph":"X","pid":{},"tid":{},"name":{},"cat":"{}","ts":{},"dur":{}{}{}{})", process_,
                    thread_of(stream), json_string(name), kind, microseconds(begin),
                    microseconds(end - begin), arguments.empty() ? "" : R"(,"args":{)", arguments,
                    arguments.empty() ? "" : "}"));
}

void ChromeTrace::name_process(const RankReport& report, Times times) {
  const bool measured = times == Times::kMeasured;
  process_ = report.rank + (measured ? 0 : kPredictedProcess);
  const std::string name =
      measured ? fmt::format("rank {}, step {} as measured", report.rank, report.timeline.step)
               : fmt::format("rank {}, a step as predicted by {}", report.rank, rates_of(report.step.device));
  const auto about = [&](const char* what, int thread, const std::string& arguments) {
    event(fmt::format(R"("ph":"M","pid":{},"tid":{},"name":"{}","args":{{{}}})", process_, thread, what,
                      arguments));
  };
  about("process_name", 0, R"("name":)" + json_string(name));
  about("process_sort_index", 0, fmt::format(R"("sort_index":{})", 2 * report.rank + !measured));
  std::array<bool, kStreamCount> used{};
  for (const Timeline::Op& op : report.timeline.ops) used[static_cast<std::size_t>(op.stream)] = true;
  for (int s = 0; s < kStreamCount; ++s) {
    if (!used[static_cast<std::size_t>(s)]) continue;
    about("thread_name", thread_of(s),
          R"("name":)" + json_string(std::string(name_of(static_cast<StreamId>(s)))));
    about("thread_sort_index", thread_of(s), fmt::format(R"("sort_index":{})", s));
  }
}

// Adds one slice for consecutive ops of one layer on the compute stream, including their waits.
void ChromeTrace::add_layers(const Timeline& timeline, const StepTimeline::Run& run) {
  std::string name;
  int64_t begin = 0, end = 0;
  const auto close = [&] {
    if (!name.empty()) slice(0, name, "layer", begin, end);
  };
  for (std::size_t i = 0; i < run.ops.size(); ++i) {
    const Timeline::Op& op = timeline.ops[run.first + i];
    if (op.stream != StreamId::kCompute || !run.ops[i].ran()) continue;
    if (const std::string own = layer_name(op); own != name) {
      close();
      name = own;
      begin = run.ops[i].begin - run.ops[i].waited;
    }
    end = run.ops[i].end;
  }
  close();
}

void ChromeTrace::add_ops(const Timeline& timeline, const StepTimeline::Run& run) {
  for (std::size_t i = 0; i < run.ops.size(); ++i) {
    const Timeline::Op& op = timeline.ops[run.first + i];
    const OpTime& time = run.ops[i];
    if (!time.ran()) continue;
    const int stream = static_cast<int>(op.stream);
    if (time.waited > 0) {
      std::string names;
      for (OpId before : op.waits) names += (names.empty() ? "" : ", ") + timeline.ops[before].name;
      slice(stream, "wait", "wait", time.begin - time.waited, time.begin, R"("for":)" + json_string(names));
    }
    slice(stream, op.name, "op", time.begin, time.end,
          fmt::format(R"("kind":{},"phase":"{}","layer":{},"bytes":{})", json_string(op.kind),
                      name_of(op.phase), op.layer, op.bytes));
    if (time.stood > 0)
      slice(stream, fmt::format("wait for rank {}", time.whom), "peers", time.begin,
            time.begin + std::min(time.stood, time.end - time.begin));
  }
}

void ChromeTrace::add_flows(const Timeline& timeline, const StepTimeline::Run& run) {
  for (std::size_t i = 0; i < run.ops.size(); ++i) {
    const Timeline::Op& op = timeline.ops[run.first + i];
    for (OpId before : op.waits) {
      if (before < run.first || !run.ops[i].ran() || !run.ops[before - run.first].ran()) continue;
      const OpTime& from = run.ops[before - run.first];
      const auto point = [&](const char* phase, StreamId stream, int64_t at) {
        event(fmt::format(R"("ph":{},"pid":{},"tid":{},"name":"comes after","cat":"wait","id":{},"ts":{})",
                          phase, process_, thread_of(static_cast<int>(stream)), flows_, microseconds(at)));
      };
      // A flow begins at the slice that is open at its time stamp.
      point(R"("s")", timeline.ops[before].stream, std::max(from.begin, from.end - 1));
      point(R"("f","bp":"e")", op.stream, run.ops[i].begin);
      ++flows_;
    }
  }
}

void ChromeTrace::add_counter(MemorySpace space, int64_t at, const MemoryLedger::Row& row) {
  std::string bytes;
  for (int c = 0; c < kStepCategoryCount; ++c)
    bytes += fmt::format(R"({}"{}":{})", c ? "," : "", name_of(static_cast<Category>(c)),
                         row[static_cast<std::size_t>(c)]);
  event(fmt::format(R"("ph":"C","pid":{},"name":"{} bytes","ts":{},"args":{{{}}})", process_, name_of(space),
                    microseconds(at), bytes));
}

// Adds a counter for each memory space in use at the start of the run, and again whenever it changes.
void ChromeTrace::add_counters(const Timeline& timeline, const StepTimeline::Run& run) {
  const std::vector<int64_t> when = tick_times(timeline.ops, run);
  const int64_t first = 2 * int64_t{run.first}, last = first + static_cast<int64_t>(when.size());
  HeldBytes shown{};  // an empty space has no counter
  const auto show = [&](int64_t at, const HeldBytes& held) {
    for (std::size_t s = 0; s < kMemorySpaceCount; ++s)
      if (held[s] != shown[s]) add_counter(static_cast<MemorySpace>(s), at, shown[s] = held[s]);
  };
  HeldBytes at_first = timeline.memory.persistent;
  bool begun = false;
  const auto begin = [&] {
    if (!std::exchange(begun, true)) show(run.begin, at_first);
  };
  for_each_change(timeline.memory, [&](int64_t tick, const HeldBytes& held) {
    if (tick <= first) {
      at_first = held;
    } else if (tick < last) {
      begin();
      show(when[static_cast<std::size_t>(tick - first)], held);
    }
  });
  begin();
}

}  // namespace recollect
