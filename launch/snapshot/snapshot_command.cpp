#include "launch/snapshot/snapshot_command.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "engine/core/printable.h"
#include "engine/io/standard_output.h"
#include "launch/config/read.h"
#include "launch/program/units.h"
#include "launch/snapshot/convert.h"
#include "launch/snapshot/find_snapshots.h"
#include "launch/snapshot/inspect.h"
#include "launch/snapshot/verify.h"

namespace recollect {

namespace {

namespace po = boost::program_options;

struct InspectWords {
  bool json = false;

  OptionTable options();
};

OptionTable InspectWords::options() {
  OptionTable table;
  table.add_options()("json", po::bool_switch(&json), "the same as JSON");
  return table;
}

}  // namespace

OptionTable snapshot_inspect_options() { return InspectWords().options(); }

void snapshot_inspect_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  InspectWords given;
  const Words named = parse_options(words, given.options());
  if (named.size() != 1)
    throw UsageError("snapshot inspect needs the folder of a snapshot, or that of several");
  const std::vector<std::string> folders = require_snapshots(named.front());
  const bool one = folders.size() == 1;
  const std::string text = given.json ? snapshots_json(folders, one)
                           : one      ? snapshot_text(folders.front())
                                      : snapshots_text(folders);
  fmt::print("{}", text);
}

void snapshot_verify_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  const Words named = parse_options(words);
  if (named.empty())
    throw UsageError("snapshot verify needs the folders of snapshots, or of several of them");
  std::vector<std::string> damaged, unread;
  std::size_t all = 0;
  for (const std::string& word : named)
    for (const std::string& folder : require_snapshots(word)) {
      const Verified result = verify_snapshot(folder);
      ++all;
      say("{}: {}, {} files, {} tensors, {} MiB at {:.2f} GB/s\n", printable(folder),
          result.wrong.empty() ? "whole"
          : result.damaged     ? "DAMAGED"
                               : "NOT READ",
          result.files, result.tensors, kMiB(result.bytes),
          static_cast<double>(result.bytes) / 1e9 / std::max(result.seconds, 1e-9));
      for (const std::string& wrong : result.wrong) say("  {}\n", printable(wrong));
      if (!result.wrong.empty()) (result.damaged ? damaged : unread).push_back(folder);
    }
  if (!damaged.empty())
    throw Error(ExitCode::kInput,
                fmt::format("{} of {} snapshots {} damaged: {}", damaged.size(), all,
                            damaged.size() == 1 ? "is" : "are", list_some(damaged)),
                "resume: auto passes over them");
  if (!unread.empty())
    throw Error(
        ExitCode::kStorage,
        fmt::format("{} of {} snapshots could not be read: {}", unread.size(), all, list_some(unread)),
        "they may be good: see to the disk");
}

namespace {

DType dtype_named(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, DType>, 3> kNames{
      {{"fp32", DType::kF32}, {"bf16", DType::kBF16}, {"fp16", DType::kF16}}};
  for (const auto& [known, dtype] : kNames)
    if (name == known) return dtype;
  throw UsageError(fmt::format("--dtype {}: there are fp32, bf16 and fp16", printable(name)));
}

// The options as text.
struct ConvertWords {
  std::string to, dtype, config;
  std::optional<int64_t> tensor, data;
  bool overwrite = false;
  Words rest;

  OptionTable options();
};

OptionTable ConvertWords::options() {
  OptionTable table = key_options();
  table.add_options()(
      "to", po::value(&to)->value_name("hf|snapshot"),
      "hf: model.safetensors and config.json, as checkpoint.save_model writes them; snapshot: "
      "the same state, bit for bit, as another layout of ranks would have saved it")(
      "dtype", po::value(&dtype)->value_name("fp32|bf16|fp16"),
      "of hf's numbers; as trained where not given")(
      "tensor-parallel-size",
      po::value<int64_t>()->notifier([this](int64_t n) { tensor = n; })->value_name("N"),
      "the source's where not given")(
      "data-parallel-size", po::value<int64_t>()->notifier([this](int64_t n) { data = n; })->value_name("N"),
      "the source's where not given")(
      "config", po::value(&config)->value_name("CONFIG.yaml"),
      "SOURCE is a model of Hugging Face's form: a snapshot of step 0 of that run")(
      "overwrite", po::bool_switch(&overwrite),
      "replaces what has DESTINATION's name, once the new one is whole");
  return table;
}

ConvertWords convert_words(const Words& words) {
  ConvertWords w;
  w.rest = parse_options(words, w.options());
  if (w.rest.size() < 2) throw UsageError("snapshot convert needs a source and a destination");
  if (w.to.empty()) w.to = w.config.empty() ? "" : "snapshot";
  if (w.to != "hf" && w.to != "snapshot") throw UsageError("snapshot convert needs --to hf or --to snapshot");
  if (w.to == "hf" && (w.tensor || w.data))
    throw UsageError("a model of Hugging Face's form is of no layout of ranks: --to snapshot has one");
  if (w.to == "snapshot" && !w.dtype.empty())
    throw UsageError("a snapshot's state keeps its types: --dtype is of --to hf");
  if (w.tensor.value_or(1) < 1 || w.data.value_or(1) < 1) throw UsageError("a layout has at least one rank");
  return w;
}

}  // namespace

OptionTable snapshot_convert_options() { return ConvertWords().options(); }

void snapshot_convert_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  const ConvertWords w = convert_words(words);
  const Conversion conversion{w.rest[0], w.rest[1], w.overwrite};
  const Words keys(w.rest.begin() + 2, w.rest.end());
  const bool from_model = find_snapshots(conversion.source).empty() && !w.config.empty();
  if (!from_model && (!w.config.empty() || !keys.empty()))
    throw UsageError(
        "a snapshot has its configuration: --config and keys are for a model of Hugging Face's form");
  std::string said;
  if (from_model) {
    if (w.to == "hf") throw UsageError("the source is no snapshot: --to snapshot makes one of a model");
    const Config config = read_config(w.config, keys, kAnyBuild);
    said = convert_from_hugging_face(
        conversion, config,
        {w.tensor.value_or(config.parallelism.tensor_parallel_size),
         w.data.value_or(std::max<int64_t>(1, config.parallelism.data_parallel_size))});
  } else if (w.to == "hf") {
    said = convert_to_hugging_face(conversion,
                                   w.dtype.empty() ? std::nullopt : std::optional(dtype_named(w.dtype)));
  } else {
    said = convert_to_snapshot(conversion, w.tensor, w.data);
  }
  say("{}", said);
}

}  // namespace recollect
