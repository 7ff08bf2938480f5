#include "launch/train/mlflow.h"

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/io/folders.h"

namespace recollect {

namespace {

namespace fs = std::filesystem;

constexpr const char* kExperiment = "0";  // MLflow's default one
constexpr const char* kOutputTag = "recollect.output_dir";

int64_t milliseconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// 32 random hexadecimal digits, as in MLflow.
std::string new_run_id() {
  std::random_device device;
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", device());
  return id;
}

std::string yaml_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + "'";
}

std::string file_uri(const std::string& path) {
  std::string uri = "file://";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        (byte < 0x80 && std::isalnum(byte)) || std::string_view("/-._~").find(c) != std::string_view::npos;
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return uri;
}

std::string first_line_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// From a run's meta.yaml; 0 if there is none.
int64_t start_time(const std::string& meta) {
  std::ifstream file(meta);
  long long time = 0;
  for (std::string line; std::getline(file, line);)
    if (std::sscanf(line.c_str(), "start_time: %lld", &time) == 1) return time;
  return 0;
}

// The lines of a metric's file up to this step. A line that a crash cut off is dropped.
std::string points_until(const std::string& path, int64_t step) {
  std::string kept;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const std::size_t last = line.rfind(' ');
    long long of = 0;
    if (last != std::string::npos && std::sscanf(line.c_str() + last, " %lld", &of) == 1 && of <= step)
      kept += line + '\n';
  }
  if (file.bad())
    throw Error(ExitCode::kStorage, fmt::format("{} cannot be read: {}", path, system_message(errno)),
                "the run would go on without what its earlier steps measured: mend it or move it away");
  return kept;
}

// Not flushed: there are many, and none is worth a wait for the disk.
void write_value(const std::string& path, const std::string& value) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << value;
  file.close();
  if (!file)
    throw Error(ExitCode::kStorage, fmt::format("cannot write {}: {}", path, system_message(errno)),
                "logging.mlflow_dir must be a folder that can be made and written");
}

// The absolute path without a slash at the end.
std::string absolute_folder(const std::string& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

void make_folder(const std::string& path) {
  try {
    make_folders(path);
  } catch (const Error& error) {
    throw Error(ExitCode::kStorage, error.what(),
                "logging.mlflow_dir must be a folder that can be made and written");
  }
}

void write_experiment(const std::string& folder) {
  std::error_code error;
  if (fs::exists(folder + "/meta.yaml", error)) return;
  const int64_t now = milliseconds_now();
  write_text_file(folder + "/meta.yaml",
                  fmt::format("artifact_location: {}\ncreation_time: {}\nexperiment_id: '{}'\n"
                              "last_update_time: {}\nlifecycle_stage: active\nname: Default\n",
                              yaml_quoted(file_uri(folder)), now, kExperiment, now));
}

}  // namespace

MlflowRun::MlflowRun(const std::string& store, const std::string& output_dir,
                     const std::map<std::string, std::string>& parameters, int64_t steps_done)
    : output_(absolute_folder(output_dir)),
      name_(fs::path(output_).filename().string()),
      exceptions_(std::uncaught_exceptions()) {
  const std::string experiment = absolute_folder(store) + "/" + kExperiment;
  make_folder(experiment);
  write_experiment(experiment);
  if (steps_done == 0 || !find_earlier(experiment)) {
    id_ = new_run_id();
    folder_ = experiment + "/" + id_;
    started_ = milliseconds_now();
  }
  for (const char* part : {"metrics", "params", "tags", "artifacts"}) make_folder(folder_ + "/" + part);
  write_tags();
  for (const auto& [key, value] : parameters) write_value(folder_ + "/params/" + key, value);
  write_meta(Status::kRunning);  // from here on MLflow shows the run
  go_back_to(steps_done);
}

MlflowRun::~MlflowRun() {
  const bool failed = std::uncaught_exceptions() > exceptions_;
  try {
    write_meta(failed ? Status::kFailed : is_complete_ ? Status::kFinished : Status::kKilled);
  } catch (const std::exception&) {  // the end of a run is reported elsewhere too
  }
}

bool MlflowRun::find_earlier(const std::string& experiment) {
  std::error_code error;
  for (fs::directory_iterator entry(experiment, error), end; !error && entry != end; entry.increment(error)) {
    const std::string folder = entry->path().string();
    const int64_t started = start_time(folder + "/meta.yaml");
    if (started <= started_ || first_line_in(folder + "/tags/" + kOutputTag) != output_) continue;
    started_ = started;
    folder_ = folder;
    id_ = entry->path().filename().string();
  }
  return !id_.empty();
}

void MlflowRun::write_tags() {
  const char* const user = std::getenv("USER");
  const std::pair<const char*, std::string> tags[] = {{"mlflow.runName", name_},
                                                      {"mlflow.source.name", "recollect"},
                                                      {"mlflow.source.type", "LOCAL"},
                                                      {"mlflow.user", user ? user : ""},
                                                      {kOutputTag, output_}};
  for (const auto& [tag, value] : tags) write_value(fmt::format("{}/tags/{}", folder_, tag), value);
}

void MlflowRun::write_meta(Status status) const {
  const char* const user = std::getenv("USER");
  const std::string ended = status == Status::kRunning ? "null" : std::to_string(milliseconds_now());
  write_text_file(
      folder_ + "/meta.yaml",
      fmt::format("artifact_uri: {}\nend_time: {}\nentry_point_name: ''\nexperiment_id: '{}'\n"
                  "lifecycle_stage: active\nrun_id: {}\nrun_name: {}\nsource_name: ''\nsource_type: 4\n"
                  "source_version: ''\nstart_time: {}\nstatus: {}\ntags: []\nuser_id: {}\n",
                  yaml_quoted(file_uri(folder_ + "/artifacts")), ended, kExperiment, yaml_quoted(id_),
                  yaml_quoted(name_), started_, static_cast<int>(status), yaml_quoted(user ? user : "")));
}

void MlflowRun::go_back_to(int64_t step) {
  const std::string metrics = folder_ + "/metrics";
  remove_stale_temporaries(metrics);
  const std::lock_guard lock(mutex_);
  files_.clear();
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(metrics, error), end; !error && entry != end; entry.increment(error))
    if (entry->is_regular_file(error)) names.push_back(entry->path().filename().string());
  for (const std::string& name : names) {
    const std::string path = metrics + "/" + name, kept = points_until(path, step);
    if (kept.empty())
      fs::remove(path, error);  // MLflow cannot read an empty file
    else
      files_.push_back({name, std::make_unique<GrowingFile>(path, kept)});
  }
}

// Creates the file at the first write.
GrowingFile& MlflowRun::file_of(std::string_view name) {
  for (const MetricFile& one : files_)
    if (one.name == name) return *one.file;
  const std::lock_guard lock(mutex_);
  const std::string path = fmt::format("{}/metrics/{}", folder_, name);
  return *files_.emplace_back(MetricFile{std::string(name), std::make_unique<GrowingFile>(path)}).file;
}

bool MlflowRun::write(int64_t step, std::span<const Scalar> scalars) {
  const int64_t now = milliseconds_now();
  try {
    for (const Scalar& scalar : scalars) {
      fmt::basic_memory_buffer<char, 128> line;
      fmt::format_to(std::back_inserter(line), "{} {} {}\n", now, scalar.value, step);
      if (!file_of(scalar.tag).append({line.data(), line.size()})) return false;
    }
  } catch (const Error&) {  // from creating a file
    return false;
  }
  return true;
}

const GrowingFile* MlflowRun::file_at(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  return index < files_.size() ? files_[index].file.get() : nullptr;
}

// Waits for the disk without the lock, so that training continues.
void MlflowRun::flush() const {
  for (std::size_t i = 0; const GrowingFile* file = file_at(i); ++i) file->flush();
}

}  // namespace recollect
