#include "launch/train/resume.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agree.h"
#include "comm/gather_texts.h"
#include "engine/core/printable.h"
#include "launch/config/keys.h"
#include "launch/config/read.h"
#include "launch/ranks/inputs.h"
#include "launch/train/launch_attempt.h"
#include "launch/train/snapshot_lock.h"
#include "parallel/snapshot/snapshot_folder.h"
#include "parallel/snapshot/snapshot_reader.h"

namespace recollect {

namespace {

using Folders = std::vector<std::string>;

// The path without a slash at its end. The path of a manifest means its snapshot.
std::string plain_path(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).lexically_normal();
  if (name.filename() == kManifestName) name = name.parent_path();
  return (name.has_filename() ? name : name.parent_path()).string();
}

// Rank 0 searches, and all ranks get its result.
template <typename Find>
Folders found_by_first(Communicator& world, const Find& find) {
  std::string list;
  on_first_rank(world, [&] {
    for (const std::string& folder : find()) list += folder + "\n";
  });
  list = broadcast_text(list, 0, world);
  Folders folders;
  for (std::size_t begin = 0; begin < list.size(); begin = list.find('\n', begin) + 1)
    folders.push_back(list.substr(begin, list.find('\n', begin) - begin));
  return folders;
}

// All snapshots in a folder, the newest first.
Folders all_in(const std::string& path) {
  Folders folders;
  const SnapshotFolder folder(path);
  for (const int64_t step : folder.steps()) folders.push_back(folder.of_step(step));
  return folders;
}

// The same, and after each the snapshot that it replaced, which exists if a run died before it removed it.
Folders all_with_former(const std::string& path) {
  Folders folders;
  const SnapshotFolder folder(path);
  for (const int64_t step : folder.steps()) {
    folders.push_back(folder.of_step(step));
    std::error_code ignored;
    if (std::filesystem::exists(folder.former(step), ignored)) folders.push_back(folder.former(step));
  }
  return folders;
}

// The snapshots of earlier attempts of this launch. Those with an unreadable manifest may be included.
Folders of_earlier_attempt(const Config& config) {
  const LaunchAttempt attempt;
  Folders folders = attempt.is_later() ? all_in(config.snapshot_folder()) : Folders();
  bool any = false;
  std::erase_if(folders, [&](const std::string& folder) {
    try {
      const bool own = attempt.follows(SnapshotReader(folder).manifest().launch);
      any |= own;
      return !own;
    } catch (const Error& error) {
      if (error.code() != ExitCode::kInput) throw;
      return false;
    }
  });
  return any ? folders : Folders();
}

Folders later_than(int64_t step, const Config& config) {
  Folders later;
  for (const int64_t there : SnapshotFolder(config.snapshot_folder()).steps())
    if (there > step) later.push_back(std::filesystem::path(SnapshotFolder("").of_step(there)).filename());
  return later;
}

// Maps the keys of a dumped configuration to their values. Sections are indented by two.
std::map<std::string, std::string> keys_of(const std::string& dumped) {
  std::map<std::string, std::string> keys;
  std::vector<std::string> sections;
  std::istringstream lines(dumped);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t indent = line.find_first_not_of(' '), colon = line.find(':');
    if (indent == std::string::npos || colon == std::string::npos || line[indent] == '#') continue;
    sections.resize(std::min(sections.size(), indent / 2));
    const std::string name = line.substr(indent, colon - indent);
    if (colon + 1 == line.size())
      sections.push_back(name);
    else
      keys[fmt::format("{}{}{}", fmt::join(sections, "."), sections.empty() ? "" : ".", name)] =
          line.substr(colon + 2);
  }
  return keys;
}

bool decides_results(const ConfigKey& key) {
  const std::string path = key.path();
  if (path == "data.labels") return false;  // check_classes compares them
  return key.decides == Decides::kResults;
}

// Whether the learning rate of a step depends on the number of steps.
bool rate_follows_length(const std::map<std::string, std::string>& keys) {
  const auto value = [&](const char* key) {
    const auto found = keys.find(key);
    return found == keys.end() ? std::string_view() : std::string_view(found->second);
  };
  const auto& names = kSpellings<SchedulerName>;
  const auto name = std::find(names.begin(), names.end(), value("scheduler.name"));
  const std::string_view part = value("scheduler.warmup_ratio");
  return (name != names.end() && follows_length(static_cast<SchedulerName>(name - names.begin()))) ||
         (!part.empty() && part != "0");
}

// Adapters are saved without their base weights: these are read, or initialised, again.
bool decides_base(const ConfigKey& key, const std::map<std::string, std::string>& keys) {
  const auto value = [&](const char* name) {
    const auto found = keys.find(name);
    return found == keys.end() ? std::string() : found->second;
  };
  const std::string rank = value("lora.rank"), path = key.path();
  if (rank.empty() || rank == "0" || key.section != "model" || key.decides != Decides::kBeginning)
    return false;
  return path == "model.pretrained" || (path != "model.config" && value("model.pretrained") == R"("")");
}

using Contents = std::map<std::string, std::string>;

// Whether the contents of the files of a key are known for both runs. Then the spelling of their paths does
// not matter, except with data.weights, which belong to the entries.
bool is_known_by_contents(const std::string& path, const Contents& before, const Contents& now,
                          const std::map<std::string, std::string>& keys) {
  const auto weights = keys.find("data.weights");
  return before.contains(path) && now.contains(path) &&
         (path != "data.path" || weights == keys.end() || weights->second == "[]");
}

// The keys whose files have changed.
std::vector<std::string> changed_contents(const Contents& before, const Contents& now) {
  std::vector<std::string> changed;
  for (const auto& [key, word] : now)
    if (const auto was = before.find(key); was != before.end() && was->second != word) changed.push_back(key);
  return changed;
}

std::string changed_keys(const std::string& before, const std::string& now, const KeyTable& table,
                         const Contents& contents_before, const Contents& contents) {
  const std::map<std::string, std::string> old = keys_of(before), current = keys_of(now);
  const auto is = [&](const char* key, std::string_view value) {
    const auto found = current.find(key);
    return found != current.end() && found->second == value;
  };
  std::string changed;
  const bool longer = rate_follows_length(old) || rate_follows_length(current),
             by_host = is("optimizer.offload_update", name_of(OffloadUpdate::kHost)),
             rounded = !is("activation_checkpointing.storage_dtype", name_of(StorageDType::kSame));
  for (const ConfigKey& key : table.keys()) {
    const std::string path = key.path();
    const auto was = old.find(path), is_now = current.find(path);
    if (was == old.end() || is_now == current.end() || was->second == is_now->second) continue;
    if (is_known_by_contents(path, contents_before, contents, current)) continue;
    if (decides_results(key) || decides_base(key, current) || (longer && path == "training.max_steps") ||
        (by_host && path == "optimizer.offload_ratio") ||
        (rounded && path.starts_with("activation_checkpointing.")))
      changed +=
          fmt::format("{}{} {} -> {}{}", changed.empty() ? "" : ", ", path, was->second, is_now->second,
                      path == "parallelism.zero_stage"
                          ? " (sums of other parts: last digits of grad_norm, and of what it clips)"
                          : "");
  }
  return changed;
}

std::string classes_of(const std::string& configuration) {
  const std::map<std::string, std::string> keys = keys_of(configuration);
  const auto found = keys.find("data.labels");
  return found == keys.end() ? "[]" : found->second;
}

// The problem on any rank; "" if all have loaded the snapshot.
std::string try_to_load(const Config& config, const std::string& folder, const TrainingState& state,
                        Communicator& world, Resumed& resumed) {
  std::string wrong;
  try {
    SnapshotReader reader(folder);
    reader.load(state);
    resumed.progress = reader.manifest().progress;
    const std::string& before = reader.manifest().configuration;
    const Contents &had = reader.manifest().inputs,
                   has = world.rank() == 0 && !had.empty() ? contents_of_inputs(config) : Contents();
    resumed.changed =
        changed_keys(before, dump_resolved(config), KeyTable::of(config.model.family()), had, has);
    for (const std::string& key : changed_contents(had, has)) {
      resumed.changed += fmt::format("{}what is in {}", resumed.changed.empty() ? "" : ", ", key);
      resumed.other_base |= key == "model.pretrained";
    }
    resumed.classes = classes_of(before);
    if (world.rank() == 0) resumed.ignored_files = reader.unknown_files();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kInput) throw;
    wrong = error.what();
  }
  const std::vector<std::string> all = gather_texts(wrong, world);
  const auto bad =
      std::find_if(all.begin(), all.end(), [](const std::string& text) { return !text.empty(); });
  return bad == all.end() ? "" : *bad;
}

// Throws if no snapshot could be loaded: the state is then undefined, so that the run cannot begin.
void check_any(const Resumed& resumed, const Config& config) {
  if (!resumed.folder.empty() || resumed.passed_over.empty()) return;
  throw Error(ExitCode::kInput,
              fmt::format("no snapshot in {} can be resumed:\n  {}", config.snapshot_folder(),
                          fmt::join(resumed.passed_over, "\n  ")),
              "start anew with resume=never, whose first snapshot replaces them");
}

// Resumes as resume: PATH requires.
Resumed resume_from_path(const Config& config, const TrainingState& state, Communicator& world) {
  const std::string path = plain_path(config.resume);
  const bool one = step_of_folder(std::filesystem::path(path).filename().string()) >= 0;
  std::error_code ignored;
  const bool no_folder =
      std::filesystem::exists(path, ignored) && !std::filesystem::is_directory(path, ignored);
  Folders folders = found_by_first(world, [&] {
    return no_folder ? Folders() : one ? Folders{path} : all_in(path);
  });
  if (folders.empty())
    throw Error(ExitCode::kInput, fmt::format("resume: there is no snapshot in {}", config.resume),
                "name the folder of one, such as output/snapshots/step-00000100");
  folders.resize(1);
  Resumed resumed = resume_from(folders, config, state, world);
  if (resumed.folder.empty())
    throw Error(ExitCode::kInput, resumed.passed_over.front(), "name another snapshot, or resume=auto");
  return resumed;
}

}  // namespace

void check_nothing_to_resume(const Config& config, Communicator& world) {
  const bool automatic = config.resume == "auto";
  if (config.resume == "never" || (automatic && !config.saves_snapshots())) return;
  const Folders there = found_by_first(
      world, [&] { return automatic ? all_in(config.snapshot_folder()) : Folders{config.resume}; });
  if (there.empty()) return;
  throw Error(
      ExitCode::kConfiguration,
      fmt::format("resume: a run whose training.max_steps is 0 evaluates model.pretrained, and not {}",
                  there.front()),
      fmt::format("recollect snapshot convert {} MODEL --to hf makes a model of it, for "
                  "model.pretrained=MODEL; or say resume=never",
                  there.front()));
}

Resumed resume_training(const Config& config, const TrainingState& state, Communicator& world) {
  Resumed resumed;
  const bool automatic = config.resume == "auto";
  if (config.saves_snapshots()) {
    const Folders folders = found_by_first(world, [&] {
      return automatic ? all_with_former(config.snapshot_folder()) : of_earlier_attempt(config);
    });
    resumed = resume_from(folders, config, state, world);
    const SnapshotFolder all(config.snapshot_folder());
    if (const int64_t step = resumed.progress.step; resumed.folder == all.former(step)) {
      on_first_rank(world, [&] { all.put_back(step); });
      resumed.folder = all.of_step(step);
    }
  }
  if (resumed.folder.empty() && !automatic && config.resume != "never") {
    const Folders damaged = std::move(resumed.passed_over);
    resumed = resume_from_path(config, state, world);
    resumed.passed_over = damaged;
  }
  check_any(resumed, config);
  if (!resumed.folder.empty() && resumed.progress.step > config.training.max_steps)
    throw Error(ExitCode::kInput,
                fmt::format("{} is of step {}, and training.max_steps is {}", resumed.folder,
                            resumed.progress.step, config.training.max_steps),
                "train longer, or start anew with resume=never");
  if (config.saves_snapshots() && !automatic)
    resumed.replaced = found_by_first(world, [&] { return later_than(resumed.progress.step, config); });
  return resumed;
}

Resumed resume_from(const Folders& folders, const Config& config, const TrainingState& state,
                    Communicator& world) {
  Folders passed_over;
  for (const std::string& folder : found_by_first(world, [&] { return folders; })) {
    Resumed resumed{.folder = folder};
    const std::string wrong = try_to_load(config, folder, state, world, resumed);
    resumed.passed_over = passed_over;
    if (wrong.empty()) return resumed;
    passed_over.push_back(wrong);
  }
  return {.passed_over = passed_over};
}

void check_classes(const Resumed& resumed, const Config& config, const Session& session) {
  const std::string classes = classes_of(recorded_configuration(config, session));
  if (resumed.classes == "[]" || classes == "[]" || classes == resumed.classes) return;
  throw Error(ExitCode::kInput,
              fmt::format("the data has the classes {}; {} was trained on {}", classes, resumed.folder,
                          resumed.classes),
              "say data.labels: " + resumed.classes + ", or start anew with resume=never");
}

void check_base(const Resumed& resumed, const Config& config) {
  if (!resumed.other_base) return;
  throw Error(
      ExitCode::kInput,
      fmt::format("model.pretrained {} is not the model that the adapters of {} are of: its files hold "
                  "something else than they did",
                  printable(config.model.pretrained), resumed.folder),
      "name the files that the training began with, or begin anew with resume=never");
}

bool has_own_snapshots(const Config& config) {
  for (const std::string& folder : all_in(config.snapshot_folder())) {
    if (config.snapshot.path.empty()) return true;
    try {
      const std::string written = SnapshotReader(folder).manifest().configuration;
      return keys_of(written)["output_dir"] == keys_of(dump_resolved(config))["output_dir"];
    } catch (const Error& error) {
      if (error.code() != ExitCode::kInput) throw;
    }
  }
  return false;
}

// A class name that a configuration cannot hold is not stored.
std::string recorded_configuration(Config config, const Session& session) {
  const std::vector<std::string>& names = session.labels();
  if ((config.task == Task::kSequenceClassification || config.task == Task::kTokenClassification) &&
      std::all_of(names.begin(), names.end(),
                  [](const std::string& name) { return printable(name) == name; }))
    config.data.labels = names;
  return dump_resolved(config);
}

}  // namespace recollect
