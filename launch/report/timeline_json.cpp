#include "launch/report/timeline_json.h"

#include <algorithm>

namespace recollect {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostRanks = 1 << 20;

template <typename E>
Json names(int count) {
  Json list = Json::array();
  for (int i = 0; i < count; ++i) list.push_back(name_of(static_cast<E>(i)));
  return list;
}

// One column of a table.
template <typename Rows, typename Of>
Json column(const Rows& rows, const Of& of) {
  Json list = Json::array();
  for (const auto& row : rows) list.push_back(of(row));
  return list;
}

Json program_json(const Timeline& timeline) {
  using Op = Timeline::Op;
  Json ops, memory;
  ops["name"] = column(timeline.ops, [](const Op& op) { return op.name; });
  std::vector<std::string> kinds;
  ops["kind"] = column(timeline.ops, [&](const Op& op) {
    const auto found = std::find(kinds.begin(), kinds.end(), op.kind);
    const auto index = found - kinds.begin();
    if (found == kinds.end()) kinds.push_back(op.kind);
    return index;
  });
  ops["kinds"] = kinds;
  ops["layer"] = column(timeline.ops, [](const Op& op) { return op.layer; });
  ops["phase"] = column(timeline.ops, [](const Op& op) { return static_cast<int>(op.phase); });
  ops["stream"] = column(timeline.ops, [](const Op& op) { return static_cast<int>(op.stream); });
  ops["recomputes"] = column(timeline.ops, [](const Op& op) { return static_cast<int>(op.recomputes); });
  ops["class"] = column(timeline.ops, [](const Op& op) { return static_cast<int>(op.is); });
  ops["flops"] = column(timeline.ops, [](const Op& op) { return op.flops; });
  ops["touched"] = column(timeline.ops, [](const Op& op) { return op.touched; });
  ops["bytes"] = column(timeline.ops, [](const Op& op) { return op.bytes; });
  ops["waits"] = column(timeline.ops, [](const Op& op) { return op.waits; });
  for (const MemoryLedger::Row& row : timeline.memory.persistent)
    memory["persistent"].push_back(std::vector<uint64_t>(row.begin(), row.begin() + kStepCategoryCount));
  const std::vector<MemoryChange>& changes = timeline.memory.changes;
  int64_t last = 0;
  memory["ticks_later"] =
      column(changes, [&](const MemoryChange& c) { return c.tick - std::exchange(last, c.tick); });
  memory["space"] = column(changes, [](const MemoryChange& c) { return static_cast<int>(c.space); });
  memory["category"] = column(changes, [](const MemoryChange& c) { return static_cast<int>(c.category); });
  memory["bytes"] = column(changes, [](const MemoryChange& c) { return c.bytes; });
  return {{"ops", std::move(ops)}, {"memory", std::move(memory)}};
}

Json times_json(const std::vector<Timeline::Op>& ops, const StepTimeline& times) {
  Json json{{"micro_batches", times.micro_batches}, {"end", times.end}, {"runs", Json::array()}};
  for (const StepTimeline::Run& run : times.runs) {
    std::array<int64_t, kStreamCount> last{};
    last.fill(run.begin);
    Json gap = Json::array(), duration = Json::array(), waited = Json::array();
    Json stood = Json::array(), whom = Json::array();
    bool stands = false;
    for (std::size_t i = 0; i < run.ops.size(); ++i) {
      const OpTime& time = run.ops[i];
      int64_t& before = last[static_cast<std::size_t>(ops[run.first + i].stream)];
      gap.push_back(time.ran() ? time.begin - before : 0);
      duration.push_back(time.ran() ? time.end - time.begin : -1);
      waited.push_back(time.ran() ? time.waited : 0);
      stood.push_back(time.ran() ? time.stood : 0);
      whom.push_back(time.whom);
      stands = stands || time.stood > 0;
      if (time.ran()) before = time.end;
    }
    json["runs"].push_back({{"micro_batch", run.micro_batch},
                            {"first", run.first},
                            {"begin", run.begin},
                            {"end", run.end},
                            {"gap", std::move(gap)},
                            {"duration", std::move(duration)},
                            {"waited", std::move(waited)}});
    if (!stands) continue;
    json["runs"].back()["stood"] = std::move(stood);
    json["runs"].back()["whom"] = std::move(whom);
  }
  return json;
}

std::vector<Timeline::Op> read_ops(const JsonPlace& json) {
  constexpr int kMostLayers = 1 << 24;
  const JsonPlace names = json.at("name"), kinds = json.at("kinds"), waits = json.at("waits");
  const std::size_t count = names.size();
  if (waits.size() != count) waits.refuse("as long as the names");
  const auto numbers = [&](const char* key, int64_t low, int64_t high) {
    return json.at(key).integers(count, low, high);
  };
  const auto kind = numbers("kind", 0, static_cast<int64_t>(kinds.size()) - 1);
  const auto layer = numbers("layer", -1, kMostLayers), phase = numbers("phase", 0, kPhaseCount - 1);
  const auto stream = numbers("stream", 0, kStreamCount - 1), bytes = numbers("bytes", 0, JsonPlace::kMost);
  std::vector<int64_t> recomputes(count, 0);  // missing in reports of older versions
  if (const auto told = json.find("recomputes")) recomputes = told->integers(count, 0, 1);
  std::vector<int64_t> is(count, static_cast<int64_t>(OpClass::kElementwise)), flops(count, 0),
      touched(count, 0);
  if (json.find("class")) {  // missing in older versions too
    is = numbers("class", 0, static_cast<int64_t>(kSpellings<OpClass>.size()) - 1);
    flops = numbers("flops", 0, JsonPlace::kMost);
    touched = numbers("touched", 0, JsonPlace::kMost);
  }
  std::vector<Timeline::Op> ops;
  ops.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto before = waits.at(i).integers({}, 0, static_cast<int64_t>(i) - 1);
    ops.push_back({.name = names.at(i).text(),
                   .kind = kinds.at(static_cast<std::size_t>(kind[i])).text(),
                   .layer = static_cast<int>(layer[i]),
                   .phase = static_cast<Phase>(phase[i]),
                   .stream = static_cast<StreamId>(stream[i]),
                   .recomputes = recomputes[i] != 0,
                   .is = static_cast<OpClass>(is[i]),
                   .bytes = static_cast<uint64_t>(bytes[i]),
                   .flops = static_cast<uint64_t>(flops[i]),
                   .touched = static_cast<uint64_t>(touched[i]),
                   .waits = {before.begin(), before.end()}});
  }
  return ops;
}

// Checks that no more is freed than was allocated.
void check_held(const MemoryProfile& memory, const JsonPlace& json) {
  for_each_change(memory, [&](int64_t, const HeldBytes& held) {
    for (const MemoryLedger::Row& row : held)
      for (const uint64_t bytes : row)
        if (bytes > static_cast<uint64_t>(JsonPlace::kMost)) json.refuse("never below zero in sum");
  });
}

MemoryProfile read_memory(const JsonPlace& json, std::size_t ops) {
  MemoryProfile memory;
  for (std::size_t s = 0; s < kMemorySpaceCount; ++s) {
    const auto row = json.at("persistent").at(s).integers(kStepCategoryCount);
    std::copy(row.begin(), row.end(), memory.persistent[s].begin());
  }
  const JsonPlace bytes = json.at("bytes");
  constexpr int64_t kMost = int64_t{1} << 60;  // no sum overflows before check_held()
  const auto amounts = bytes.integers({}, -kMost, kMost);
  const auto later = json.at("ticks_later").integers(amounts.size());
  const auto space = json.at("space").integers(amounts.size(), 0, kMemorySpaceCount - 1);
  const auto category = json.at("category").integers(amounts.size(), 0, kStepCategoryCount - 1);
  const int64_t ticks = 2 * static_cast<int64_t>(ops);
  int64_t tick = 0;
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    if (later[i] >= ticks - tick) json.at("ticks_later").refuse("within the ticks of the ops");
    tick += later[i];
    memory.changes.push_back(
        {tick, static_cast<MemorySpace>(space[i]), static_cast<Category>(category[i]), amounts[i]});
  }
  check_held(memory, bytes);
  return memory;
}

StepTimeline::Run read_run(const JsonPlace& json, const std::vector<Timeline::Op>& ops,
                           const StepTimeline& times) {
  const auto count = static_cast<int64_t>(ops.size());
  const JsonPlace gaps = json.at("gap");
  StepTimeline::Run run{
      .micro_batch = json.at("micro_batch").integer(StepTimeline::kOptimizer, times.micro_batches - 1),
      .first = static_cast<OpId>(json.at("first").integer(0, count)),
      .begin = json.at("begin").integer(0, times.end)};
  run.end = json.at("end").integer(run.begin, times.end);
  const auto gap = gaps.integers({}, 0, times.end);
  if (static_cast<int64_t>(gap.size()) > count - run.first)
    gaps.refuse("no longer than the ops that are left");
  const auto duration = json.at("duration").integers(gap.size(), -1, times.end);
  const auto waited = json.at("waited").integers(gap.size(), 0, times.end);
  std::vector<int64_t> stood(gap.size(), 0), whom(gap.size(), -1);
  if (const auto place = json.find("stood")) {
    stood = place->integers(gap.size(), 0, times.end);
    whom = json.at("whom").integers(gap.size(), -1, kMostRanks);
  }
  std::array<int64_t, kStreamCount> last{};
  last.fill(run.begin);
  for (std::size_t i = 0; i < gap.size(); ++i) {
    int64_t& before = last[static_cast<std::size_t>(ops[run.first + i].stream)];
    OpTime time;
    if (duration[i] >= 0) {
      time = {before + gap[i], before + gap[i] + duration[i], std::min(waited[i], gap[i]),
              std::min(stood[i], duration[i]), static_cast<int>(whom[i])};
      if (time.end > run.end) gaps.refuse("times within the run");
      before = time.end;
    }
    run.ops.push_back(time);
  }
  return run;
}

StepTimeline read_times(const JsonPlace& json, const std::vector<Timeline::Op>& ops) {
  constexpr int64_t kMostRuns = 4, kMostNanoseconds = int64_t{1} << 60;
  StepTimeline times{.micro_batches = json.at("micro_batches").integer(1),
                     .end = json.at("end").integer(0, kMostNanoseconds)};
  const JsonPlace runs = json.at("runs");
  if (runs.size() > kMostRuns) runs.refuse("four at most");
  for (std::size_t i = 0; i < runs.size(); ++i) times.runs.push_back(read_run(runs.at(i), ops, times));
  return times;
}

}  // namespace

Json names_json() {
  return {{"streams", names<StreamId>(kStreamCount)},
          {"phases", names<Phase>(kPhaseCount)},
          {"categories", names<Category>(kStepCategoryCount)},
          {"spaces", names<MemorySpace>(kMemorySpaceCount)},
          {"classes", names<OpClass>(static_cast<int>(kSpellings<OpClass>.size()))}};
}

Json timeline_json(const Timeline& timeline) {
  Json json{{"unit", "bytes, nanoseconds"}};
  json.update(names_json());
  json["roof"] = {{"flops", timeline.roof.flops}, {"bandwidth", timeline.roof.bandwidth}};
  json["program"] = program_json(timeline);
  json["predicted"] = times_json(timeline.ops, timeline.predicted);
  if (timeline.measured) {
    json["step"] = timeline.step;
    if (timeline.recorded > 1) json["recorded_steps"] = timeline.recorded;
    if (timeline.not_timed > 0) json["step_not_timed"] = timeline.not_timed;
    json["measured"] = times_json(timeline.ops, *timeline.measured);
  }
  return json;
}

Timeline read_timeline(const JsonPlace& json) {
  const JsonPlace program = json.at("program");
  Timeline timeline{
      .ops = read_ops(program.at("ops")), .roof = {}, .memory = {}, .predicted = {}, .measured = {}};
  if (const auto roof = json.find("roof"))
    timeline.roof = {.flops = roof->at("flops").amount(), .bandwidth = roof->at("bandwidth").amount()};
  timeline.memory = read_memory(program.at("memory"), timeline.ops.size());
  timeline.predicted = read_times(json.at("predicted"), timeline.ops);
  if (const auto measured = json.find("measured")) {
    timeline.step = json.at("step").integer(1);
    if (const auto recorded = json.find("recorded_steps")) timeline.recorded = recorded->integer(1);
    if (const auto seconds = json.find("step_not_timed")) timeline.not_timed = seconds->amount();
    timeline.measured = read_times(*measured, timeline.ops);
  }
  return timeline;
}

}  // namespace recollect
