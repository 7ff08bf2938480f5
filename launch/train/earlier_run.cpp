#include "launch/train/earlier_run.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/io/folders.h"
#include "engine/io/safetensors_writer.h"
#include "engine/io/standard_output.h"

namespace recollect {

namespace {

namespace fs = std::filesystem;

constexpr const char* kHint = "name another output_dir, or let the files be replaced: --overwrite";

// Files of a tokenizer and a model beside the weights.
constexpr std::array<std::string_view, 12> kBesideAModel = {"added_tokens.json",
                                                            "chat_template.jinja",
                                                            "generation_config.json",
                                                            "merges.txt",
                                                            "special_tokens_map.json",
                                                            "spiece.model",
                                                            "tokenizer.json",
                                                            "tokenizer.model",
                                                            "tokenizer_config.json",
                                                            "vocab.json",
                                                            "vocab.txt",
                                                            "sentencepiece.bpe.model"};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

// A new FOLDER/earlier/N, or the last one if a run died before it had moved everything. The configuration is
// moved last and shows this.
std::string next_place(const std::string& folder, const std::vector<std::string>& names) {
  int last = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder + "/earlier", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int number = 0, read = 0;
    if (std::sscanf(name.c_str(), "%d%n", &number, &read) == 1 &&
        static_cast<std::size_t>(read) == name.size())
      last = std::max(last, number);
  }
  const std::string unfinished = fmt::format("{}/earlier/{}", folder, last);
  const bool goes_on = last > 0 && !is_there(unfinished + "/" + kResolvedConfig) &&
                       std::none_of(names.begin(), names.end(), [&](const std::string& name) {
                         return is_there(unfinished + "/" + name);
                       });
  return goes_on ? unfinished : fmt::format("{}/earlier/{}", folder, last + 1);
}

// Refuses relative links, because they would point elsewhere after the move.
void check_link(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  if (!error && target.is_relative())
    throw Error(ExitCode::kStorage, fmt::format("{} is a link, which cannot be moved", path), kHint);
}

}  // namespace

bool is_of_a_run(std::string_view name) {
  constexpr std::array<std::string_view, 16> kNames = {"adapter_config.json",
                                                       "adapter_model.safetensors",
                                                       "best_model",
                                                       "config.json",
                                                       kResolvedConfig,
                                                       "hook.log",
                                                       "merged",
                                                       "metrics.jsonl",
                                                       "model.safetensors",
                                                       "model.safetensors.index.json",
                                                       "plan.yaml",
                                                       "quantised_base",
                                                       "report.html",
                                                       "snapshots",
                                                       "tensorboard",
                                                       "train_results.json"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() || is_part_of_model(name) ||
         ((name.starts_with("memory.rank") || name.starts_with("trace.rank") ||
           name.starts_with("live.rank") || name.starts_with("status.")) &&
          name.ends_with(".json"));
}

std::vector<std::string> files_of_a_run(const std::string& folder) {
  std::vector<std::string> found, beside;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_of_a_run(name)) found.push_back(name);
    if (std::find(kBesideAModel.begin(), kBesideAModel.end(), name) != kBesideAModel.end())
      beside.push_back(name);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw Error(ExitCode::kStorage, fmt::format("cannot read the folder {}: {}", folder, error.message()),
                "output_dir must be a folder that can be made and written");
  if (std::any_of(found.begin(), found.end(), [](const std::string& name) {
        return name == "model.safetensors" || name == "model.safetensors.index.json" ||
               name == "adapter_model.safetensors";
      }))
    found.insert(found.end(), beside.begin(), beside.end());
  // Without a run in the folder these belong to somebody else, and may be used to resume.
  if (std::find(found.begin(), found.end(), kResolvedConfig) == found.end())
    std::erase_if(found,
                  [](const std::string& name) { return name == "snapshots" || name == "tensorboard"; });
  std::sort(found.begin(), found.end());
  return found;
}

EarlierRun::EarlierRun(const std::string& folder, const std::vector<std::string>& names) : folder_(folder) {
  for (const std::string& name : names) check_link(folder + "/" + name);
  std::vector<std::string> in_order = names;
  std::stable_partition(in_order.begin(), in_order.end(),
                        [](const std::string& name) { return name != kResolvedConfig; });
  place_ = next_place(folder, names);
  try {
    make_folders(place_);
    for (const std::string& name : in_order) {
      const std::string from = folder + "/" + name;
      if (std::rename(from.c_str(), (place_ + "/" + name).c_str()) != 0)
        throw Error(ExitCode::kStorage,
                    fmt::format("cannot move {} to {}: {}", from, place_, system_message(errno)), kHint);
      moved_.push_back(name);
    }
    flush_folder(place_);
    flush_folder(folder);
  } catch (const Error&) {
    put_back();
    throw;
  }
}

EarlierRun::~EarlierRun() {
  if (!moved_.empty()) put_back();
}

void EarlierRun::put_back() {
  for (auto name = moved_.rbegin(); name != moved_.rend(); ++name)
    if (std::rename((place_ + "/" + *name).c_str(), (folder_ + "/" + *name).c_str()) != 0)
      warn("{} stays in {}: {}", *name, place_, system_message(errno));
  moved_.clear();
  std::error_code ignored;
  for (const std::string& made : {place_, folder_ + "/earlier"})
    fs::remove(made, ignored);  // if it is empty
}

}  // namespace recollect
