#include "launch/snapshot/inspect.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/json.h"
#include "engine/io/safetensors_header.h"
#include "launch/config/read.h"
#include "launch/program/units.h"
#include "launch/snapshot/saved_run.h"
#include "launch/snapshot/verify.h"
#include "parallel/snapshot/snapshot_reader.h"

namespace recollect {

namespace {

using OrderedJson = nlohmann::ordered_json;

// The keys whose values best identify a run.
constexpr const char* kTelling[] = {"task",
                                    "training.precision",
                                    "training.max_steps",
                                    "training.global_batch_size",
                                    "training.seed",
                                    "optimizer.name",
                                    "optimizer.learning_rate",
                                    "data.format",
                                    "data.sequence_length"};

template <typename Items>
uint64_t all_bytes(const Items& items) {
  return std::accumulate(items.begin(), items.end(), uint64_t{0},
                         [](uint64_t sum, const auto& item) { return sum + item.bytes; });
}

std::string size_text(uint64_t bytes) {
  const ByteUnit& unit = unit_for(bytes);
  return bytes < 1 << 20 ? fmt::format("{} bytes", bytes) : fmt::format("{} {}", unit(bytes), unit.name);
}

std::string layout_text(const Manifest& manifest) {
  const RankLayout layout = layout_of(manifest);
  return fmt::format("{} x {}", layout.tensor, layout.data);
}

// The model's line of a configuration file, without its comment mark and key.
std::string bare(std::string text) {
  for (const std::string_view mark : {"# ", "model: "})
    if (text.starts_with(mark)) text.erase(0, mark.size());
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// The model in one line and the values of kTelling, or the reason why they are unknown.
OrderedJson run_json(const Manifest& manifest, const std::string& folder) {
  try {
    const Config config = saved_run(manifest, folder).config;
    const std::map<std::string, std::string> values = flatten(config);
    OrderedJson run{{"model", bare(dump_model(config.model))}};
    for (const char* key : kTelling) run[key] = values.at(key);
    return run;
  } catch (const Error& error) {
    return {{"unreadable", error.what()}};
  }
}

std::string counted(std::size_t count, const char* what) {
  return fmt::format("{} {}{}\n", count, what, count == 1 ? "" : "s");
}

OrderedJson progress_json(const TrainingProgress& p) {
  OrderedJson json{{"step", p.step},
                   {"updates", p.updates},
                   {"samples", p.samples},
                   {"loss_scale", p.loss_scale},
                   {"updates_at_scale", p.updates_at_scale},
                   {"not_finite", p.not_finite}};
  if (p.best.step > 0)
    json["best"] = {{"metric", p.best.metric},
                    {"step", p.best.step},
                    {"value", p.best.value},
                    {"not_better", p.best.not_better}};
  return json;
}

OrderedJson tensors_json(const Manifest& manifest) {
  OrderedJson tensors = OrderedJson::array();
  for (const auto& [whole, shards] : manifest.tensors)
    tensors.push_back({{"name", whole.name},
                       {"dtype", std::string(safetensors_name_of(whole.dtype))},
                       {"shape", whole.shape()},
                       {"bytes", whole.bytes()},
                       {"parts", shards.size()}});
  return tensors;
}

OrderedJson snapshot_json(const std::string& folder, bool whole) {
  OrderedJson json{{"folder", folder}};
  try {
    const SnapshotReader reader(folder);
    const Manifest& manifest = reader.manifest();
    json.update(progress_json(manifest.progress));
    json["ranks"] = manifest.ranks;
    json["versions"] = manifest.versions;
    json["bytes"] = all_bytes(manifest.files);
    json["run"] = run_json(manifest, folder);
    if (whole) {
      json["tensors"] = tensors_json(manifest);
      for (const SnapshotFile& file : manifest.files)
        json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
    }
    if (const std::string wrong = missing_files(folder); !wrong.empty()) json["wrong"] = wrong;
  } catch (const Error& error) {
    if (whole || error.code() != ExitCode::kInput) throw;
    json["wrong"] = error.what();
  }
  return json;
}

}  // namespace

std::string snapshot_text(const std::string& folder) {
  const SnapshotReader reader(folder);
  const Manifest& m = reader.manifest();
  const TrainingProgress& p = m.progress;
  std::string text = fmt::format("{}\n", printable(folder));
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<28}{}\n", name, printable(value));
  };
  line("step", fmt::format("{}, of which {} updated the model", p.step, p.updates));
  line("samples", std::to_string(p.samples));
  if (p.loss_scale != 1)
    line("loss scale", fmt::format("{}, for {} updates", p.loss_scale, p.updates_at_scale));
  if (p.not_finite > 0) line("not finite so far", std::to_string(p.not_finite));
  if (p.best.step > 0)
    line("best evaluation", fmt::format("{} {} after step {}", p.best.metric, p.best.value, p.best.step));
  line("layout (tensor x data)", layout_text(m));
  for (const auto& [what, version] : m.versions) line("written by " + printable(what), bare(version));
  const OrderedJson run = run_json(m, folder);
  for (const auto& [key, value] : run.items()) line(key, value.get<std::string>());
  line("bytes", size_text(all_bytes(m.files)));
  text += counted(m.files.size(), "file");
  for (const SnapshotFile& file : m.files)
    text += fmt::format("  {:<44}{:>14} bytes\n", file.name, file.bytes);
  text += counted(m.tensors.size(), "tensor");
  for (const auto& [whole, shards] : m.tensors)
    text += fmt::format("  {:<44}{:>14} bytes  {:<4} {}{}\n", printable(whole.name), whole.bytes(),
                        safetensors_name_of(whole.dtype), shape_to_string(whole.shape()),
                        shards.size() == 1 ? "" : fmt::format(", {} parts", shards.size()));
  const std::string wrong = missing_files(folder);
  if (!wrong.empty()) throw Error(ExitCode::kInput, wrong, "the snapshot is damaged");
  return text;
}

std::string snapshots_text(const std::vector<std::string>& folders) {
  std::string text =
      fmt::format("{:<20}{:>10}{:>12}{:>16}{:>16}\n", "", "step", "samples", "tensor x data", "bytes");
  for (const std::string& folder : folders) {
    const std::string name = printable(std::filesystem::path(folder).filename().string());
    std::string wrong;
    try {
      const SnapshotReader reader(folder);
      const Manifest& m = reader.manifest();
      text += fmt::format("{:<20}{:>10}{:>12}{:>16}{:>16}\n", name, m.progress.step, m.progress.samples,
                          layout_text(m), all_bytes(m.files));
      wrong = missing_files(folder);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kInput) throw;
      text += fmt::format("{:<20}\n", name);
      wrong = error.what();
    }
    if (!wrong.empty()) text += fmt::format("{:<20}damaged: {}\n", "", printable(wrong));
  }
  return text;
}

std::string snapshots_json(const std::vector<std::string>& folders, bool whole) {
  OrderedJson snapshots = OrderedJson::array();
  for (const std::string& folder : folders) snapshots.push_back(snapshot_json(folder, whole));
  return OrderedJson{{"snapshots", std::move(snapshots)}}.dump(2) + "\n";
}

}  // namespace recollect
