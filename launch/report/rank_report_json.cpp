#include "launch/report/rank_report_json.h"

#include <fmt/format.h>

#include "engine/io/strict_json.h"
#include "launch/report/profile.h"
#include "launch/report/timeline_json.h"

namespace recollect {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

template <typename E>
std::string key_of(int index) {
  return std::string(name_of(static_cast<E>(index)));
}

Json cost_json(const SwitchCost& cost) {
  return {{"predicted", cost.predicted}, {"measured", cost.measured ? Json(*cost.measured) : Json(nullptr)}};
}

SwitchCost read_cost(const JsonPlace& json) {
  SwitchCost cost{.predicted = json.at("predicted").amount()};
  if (const JsonPlace measured = json.at("measured"); !measured.is_null()) cost.measured = measured.amount();
  return cost;
}

Json switches_json(const std::vector<SwitchEffect>& switches) {
  Json list = Json::array();
  for (const SwitchEffect& s : switches)
    list.push_back({{"name", s.name},
                    {"values", s.values},
                    {"saved", s.saved_bytes},
                    {"moved", s.moved_bytes},
                    {"flops", s.flops},
                    {"running", cost_json(s.running)},
                    {"exposed", cost_json(s.exposed)},
                    {"taken_from_compute", s.taken}});
  return list;
}

std::vector<SwitchEffect> read_switches(const JsonPlace& json) {
  std::vector<SwitchEffect> switches;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const JsonPlace s = json.at(i);
    switches.push_back({.name = s.at("name").text(),
                        .values = s.at("values").integer(),
                        .saved_bytes = s.at("saved").bytes(),
                        .moved_bytes = s.at("moved").bytes(),
                        .flops = s.at("flops").amount(),
                        .running = read_cost(s.at("running")),
                        .exposed = read_cost(s.at("exposed"))});
    if (const auto taken = s.find("taken_from_compute")) switches.back().taken = taken->amount();
  }
  return switches;
}

RunDescription read_description(const JsonPlace& json) {
  return {.name = json.at("name").text(),
          .model = json.at("model").text(),
          .layout = json.at("layout").text(),
          .batch = json.at("batch").text(),
          .checkpointing = json.at("checkpointing").text()};
}

Json resident_json(const ResidentMemory& resident) {
  return {
      {"at_start", resident.at_start}, {"predicted", resident.predicted}, {"measured", resident.measured}};
}

StartTimes read_start_times(const JsonPlace& json) {
  StartTimes times;
  for (std::size_t i = 0; i < times.seconds.size(); ++i)
    times.seconds[i] = json.at(key_of<StartPart>(static_cast<int>(i))).amount();
  return times;
}

void read_row(const JsonPlace& json, MemoryLedger::Row& row) {
  for (int c = 0; c < kStepCategoryCount; ++c)
    row[static_cast<std::size_t>(c)] = json.at(key_of<Category>(c)).bytes();
  if (MemoryLedger::sum(row) != json.at("total").bytes())
    json.at("total").refuse(fmt::format("{}, the sum of its categories", MemoryLedger::sum(row)));
}

}  // namespace

Json row_json(const MemoryLedger::Row& row) {
  Json json;
  for (int c = 0; c < kStepCategoryCount; ++c) json[key_of<Category>(c)] = row[static_cast<std::size_t>(c)];
  json["total"] = MemoryLedger::sum(row);
  return json;
}

Json start_json(const StartTimes& times) {
  Json json;
  for (std::size_t i = 0; i < times.seconds.size(); ++i)
    json[key_of<StartPart>(static_cast<int>(i))] = times.seconds[i];
  return json;
}

Json ledger_json(const MemoryLedger& ledger) {
  Json json;
  for (int p = 0; p < kPhaseCount; ++p) {
    Json phase = row_json(ledger.at_peak[p]);
    phase["peak_op"] = ledger.peak_op[p];
    json[key_of<Phase>(p)] = phase;
  }
  json["loaded"] = row_json(ledger.loaded);
  json["peak"] = ledger.peak();
  json["unused_at_peak"] = ledger.arena_bytes() - ledger.peak();
  json["arena"] = ledger.arena_bytes();
  json["persistent"] = ledger.persistent_bytes;
  json["host_arena"] = ledger.host_bytes;
  if (ledger.host_saved_bytes > 0) json["host_saved"] = ledger.host_saved_bytes;
  json["disk"] = ledger.disk_bytes;
  if (ledger.disk_state_bytes > 0) json["disk_states"] = ledger.disk_state_bytes;
  json["pool"] = {{"bytes", ledger.pooled_bytes}, {"in_use_at_peak", ledger.pooled_peak}};
  return json;
}

MemoryLedger read_ledger(const JsonPlace& json) {
  MemoryLedger ledger;
  for (int p = 0; p < kPhaseCount; ++p) read_row(json.at(key_of<Phase>(p)), ledger.at_peak[p]);
  for (int p = 0; p < kPhaseCount; ++p) ledger.peak_op[p] = json.at(key_of<Phase>(p)).at("peak_op").text();
  if (const auto loaded = json.find("loaded")) read_row(*loaded, ledger.loaded);  // older reports have none
  const uint64_t arena = json.at("arena").bytes();
  ledger.persistent_bytes = json.at("persistent").bytes();
  if (ledger.persistent_bytes > arena) json.at("persistent").refuse("no more than the arena");
  ledger.transient_bytes = arena - ledger.persistent_bytes;
  const auto must_be = [&](const char* key, uint64_t bytes) {
    if (json.at(key).bytes() != bytes) json.at(key).refuse(std::to_string(bytes));
  };
  must_be("peak", ledger.peak());
  must_be("unused_at_peak", arena - ledger.peak());
  ledger.host_bytes = json.at("host_arena").bytes();
  if (const auto saved = json.find("host_saved")) ledger.host_saved_bytes = saved->bytes();
  ledger.disk_bytes = json.at("disk").bytes();
  if (const auto states = json.find("disk_states")) ledger.disk_state_bytes = states->bytes();
  ledger.pooled_bytes = json.at("pool").at("bytes").bytes();
  ledger.pooled_peak = json.at("pool").at("in_use_at_peak").bytes();
  return ledger;
}

// Version 0.1.0 had another name for "predicted"; this version still reads its reports.
void take_old_keys(nlohmann::json& document) {
  if (document.is_object())
    if (const auto old = document.find("foretold");
        old != document.end() && !document.contains("predicted")) {
      document["predicted"] = std::move(*old);
      document.erase("foretold");
    }
  for (nlohmann::json& inside : document)
    if (inside.is_structured()) take_old_keys(inside);
}

Json summary_json(const RankReport& report) {
  Json json{{"recollect_report", kVersion},
            {"rank", report.rank},
            {"ranks", report.ranks},
            {"unit", "bytes"},
            {"run",
             {{"name", report.run.name},
              {"model", report.run.model},
              {"layout", report.run.layout},
              {"batch", report.run.batch},
              {"checkpointing", report.run.checkpointing}}},
            {"began", report.start.began},
            {"max_steps", report.max_steps},
            {"steps_done", report.steps_done},
            {"predicted", ledger_json(report.predicted)}};
  if (report.measured) json["measured"] = ledger_json(*report.measured);
  if (const auto& none = report.start.uncheckpointed)
    json["mode_none"] = {{"peak", none->peak}, {"step", none->step}, {"with_step", none->with_step}};
  if (report.start.times.total() > 0) json["start_seconds"] = start_json(report.start.times);
  json["reserved"] = {{"arena_predicted", report.reserved.arena_predicted},
                      {"arena", report.reserved.arena},
                      {"host_arena", report.reserved.host},
                      {"disk", report.reserved.disk}};
  json["communication_buffers"] = report.communication_buffers;
  if (report.beside_arena > 0) {
    json["beside_arena"] = report.beside_arena;
    json["device_communicators"] = report.device_communicators;
  }
  if (report.resident.predicted > 0) json["resident"] = resident_json(report.resident);
  json["switches"] = switches_json(report.switches);
  json["activation_checkpointing"] = Json::array();
  for (const auto& [name, sentence] : report.sentences)
    json["activation_checkpointing"].push_back({{"name", name}, {"sentence", sentence}});
  json["step"] = step_json(report.step);
  if (report.timeline.measured) json["profile"] = profile_json(make_profile(report.timeline));
  if (!report.lengths.empty()) json["lengths"] = lengths_json(report.lengths);
  return json;
}

std::string rank_report_text(const RankReport& report, bool with_timeline) {
  std::string text = summary_json(report).dump(2);
  if (with_timeline) {
    text.resize(text.size() - 2);  // "\n}"
    text += ",\n  \"timeline\": " + timeline_json(report.timeline).dump() + "\n}";
  }
  return text + "\n";
}

RankReport read_rank_report(std::string_view text, const std::string& source) {
  nlohmann::json document = parse_strict_json(text, source);
  take_old_keys(document);
  const JsonPlace json(document, source);
  json.at("recollect_report").integer(kVersion, kVersion);
  constexpr int kMostRanks = 1 << 20;
  constexpr int64_t kLatest = 253402300799;  // the last second of the year 9999
  RankReport report;
  report.ranks = static_cast<int>(json.at("ranks").integer(1, kMostRanks));
  report.rank = static_cast<int>(json.at("rank").integer(0, report.ranks - 1));
  report.run = read_description(json.at("run"));
  report.steps_done = json.at("steps_done").integer();
  if (const auto began = json.find("began")) {  // reports of older versions lack these and the keys below
    report.start.began = began->integer(0, kLatest);
    report.max_steps = json.at("max_steps").integer();
  }
  if (const auto none = json.find("mode_none"))
    report.start.uncheckpointed = {.peak = none->at("peak").bytes(),
                                   .step = none->at("step").amount(),
                                   .with_step = none->at("with_step").amount()};
  if (const auto start = json.find("start_seconds")) report.start.times = read_start_times(*start);
  report.predicted = read_ledger(json.at("predicted"));
  report.reserved = reserved_for(report.predicted);
  if (const auto reserved = json.find("reserved"))
    report.reserved = {reserved->at("arena_predicted").bytes(), reserved->at("arena").bytes(),
                       reserved->at("host_arena").bytes(), reserved->at("disk").bytes()};
  if (const auto measured = json.find("measured")) report.measured = read_ledger(*measured);
  report.communication_buffers = json.at("communication_buffers").bytes();
  if (const auto beside = json.find("beside_arena")) report.beside_arena = beside->bytes();
  if (const auto of_it = json.find("device_communicators")) report.device_communicators = of_it->bytes();
  if (const auto resident = json.find("resident"))
    report.resident = {resident->at("at_start").bytes(), resident->at("predicted").bytes(),
                       resident->at("measured").bytes()};
  report.switches = read_switches(json.at("switches"));
  const JsonPlace sentences = json.at("activation_checkpointing");
  for (std::size_t i = 0; i < sentences.size(); ++i)
    report.sentences.emplace_back(sentences.at(i).at("name").text(), sentences.at(i).at("sentence").text());
  report.step = read_step(json.at("step"));
  if (const auto lengths = json.find("lengths")) report.lengths = read_lengths(*lengths);
  if (const auto timeline = json.find("timeline")) report.timeline = read_timeline(*timeline);
  return report;
}

}  // namespace recollect
