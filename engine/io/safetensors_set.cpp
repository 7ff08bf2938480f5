// Finds the files of a model and checks them against their index.
#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "engine/core/error.h"
#include "engine/io/files.h"
#include "engine/io/safetensors.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

[[noreturn]] void input_error(const std::string& what, std::string hint = {}) {
  throw Error(ExitCode::kInput, what, std::move(hint));
}

// Also false if the path cannot be examined: opening it then reports why.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Returns the shard's path, after checking that it leads to a file in the index's own folder.
std::string resolve_shard(const std::string& index_path, const std::string& shard) {
  if (!is_plain_name(shard))
    input_error(
        fmt::format("{}: the shard name {} is not a plain file name", index_path, escaped_name(shard)));
  const fs::path parent = fs::path(index_path).parent_path();
  std::error_code error;
  const fs::path folder = fs::canonical(parent.empty() ? "." : parent, error);
  const fs::path real = fs::canonical(folder / shard, error);
  if (error)
    input_error(fmt::format("{}: the shard {} cannot be opened: {}", index_path, escaped_name(shard),
                            error.message()));
  const bool in_hub_cache = folder.parent_path().filename() == "snapshots" &&
                            real.parent_path() == folder.parent_path().parent_path() / "blobs";
  if (real.parent_path() != folder && !in_hub_cache)
    input_error(fmt::format("{}: the shard {} is a link that leads out of its folder", index_path,
                            escaped_name(shard)),
                "copy the file there");
  return real.string();
}

// Explains why a folder has no readable weights.
[[noreturn]] void refuse_folder(const std::string& path) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth"})
    if (is_there(fs::path(path) / name)) refuse_pickle((fs::path(path) / name).string());
  std::string others;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const std::string end = entry.path().extension();
    for (const char* form : {".safetensors", ".gguf", ".h5", ".msgpack", ".onnx", ".ckpt", ".pth"})
      if (end == form)
        others += (others.empty() ? "" : ", ") + escaped_name(entry.path().filename().string());
  }
  if (!others.empty())
    input_error(fmt::format("{} holds neither {} nor {}; it has {}", path, kSingleFile, kIndexFile, others),
                "give the model in Hugging Face's form, as save_pretrained writes it");
  input_error(fmt::format("{} holds neither {} nor {}", path, kSingleFile, kIndexFile));
}

// Returns name -> shard.
std::map<std::string, std::string> read_weight_map(const std::string& path) {
  const InputFile file(path);
  if (file.size() > kMaxSafetensorsHeader)
    input_error(fmt::format("{}: {} bytes are too many for an index", path, file.size()));
  const nlohmann::json index = parse_strict_json(file.text(), path);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    input_error(fmt::format("{}: there is no object \"weight_map\"", path));
  if (index.contains("metadata")) {
    const auto& metadata = index["metadata"];
    if (!metadata.is_object()) input_error(fmt::format("{}: \"metadata\" is not an object", path));
    if (metadata.contains("total_size") && !metadata["total_size"].is_number_unsigned())
      input_error(fmt::format("{}: \"metadata.total_size\" is not a count of bytes", path));
  }
  std::map<std::string, std::string> weight_map;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    if (!shard.is_string())
      input_error(fmt::format("{}: the shard of {} is not a string", path, escaped_name(name)));
    weight_map.emplace(name, shard.get<std::string>());
  }
  return weight_map;
}

}  // namespace

SafetensorsSet::SafetensorsSet(const std::string& path) : path_(path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const std::string single = is_folder ? (fs::path(path) / kSingleFile).string() : path;
  const std::string index = is_folder ? (fs::path(path) / kIndexFile).string() : path;
  if (!is_folder && has_pickle_extension(path) && is_there(path)) refuse_pickle(path);
  if (is_folder ? is_there(single) : !path.ends_with(".json"))
    add_file(single);
  else if (!is_folder || is_there(index))
    open_index(index);
  else
    refuse_folder(path);
}

void SafetensorsSet::add_file(const std::string& path) {
  const SafetensorsFile& file = files_.emplace_back(path);
  for (const TensorEntry& entry : file.entries()) {
    const auto [other, added] = where_.emplace(entry.name, &file);
    if (!added)
      input_error(fmt::format("tensor {} is in both {} and {}", escaped_name(entry.name),
                              other->second->path(), path));
  }
}

void SafetensorsSet::open_index(const std::string& path) {
  const auto weight_map = read_weight_map(path);
  std::map<std::string, std::string> resolved;  // shard -> path
  for (const auto& [name, shard] : weight_map)
    if (!resolved.contains(shard)) resolved.emplace(shard, resolve_shard(path, shard));
  for (const auto& [shard, shard_path] : resolved) add_file(shard_path);
  for (const auto& [name, shard] : weight_map) {
    const auto found = where_.find(name);
    if (found == where_.end() || found->second->path() != resolved.at(shard))
      input_error(
          fmt::format("{}: tensor {} is not in the shard {}", path, escaped_name(name), escaped_name(shard)));
  }
  for (const auto& [name, file] : where_)
    if (!weight_map.contains(name))
      input_error(fmt::format("{}: tensor {} of {} is not listed", path, escaped_name(name), file->path()));
}

std::vector<std::string> SafetensorsSet::names() const {
  std::vector<std::string> names;
  names.reserve(where_.size());
  for (const auto& [name, file] : where_) names.push_back(name);
  return names;
}

const TensorEntry* SafetensorsSet::find(std::string_view name) const {
  const auto found = where_.find(name);
  return found == where_.end() ? nullptr : found->second->find(name);
}

const SafetensorsFile& SafetensorsSet::file_of(std::string_view name) const {
  const auto found = where_.find(name);
  if (found == where_.end()) input_error(fmt::format("{}: there is no tensor {}", path_, escaped_name(name)));
  return *found->second;
}

const TensorEntry& SafetensorsSet::at(std::string_view name) const { return file_of(name).at(name); }

template <typename T>
void SafetensorsSet::read_as(std::string_view name, T* destination, int64_t first_row, int64_t rows) const {
  const SafetensorsFile& file = file_of(name);
  file.read_as(file.at(name), destination, first_row, rows);
}

void SafetensorsSet::read_bytes(std::string_view name, std::span<std::byte> to) const {
  const SafetensorsFile& file = file_of(name);
  file.read_bytes(*file.find(name), to);
}

void SafetensorsSet::will_read(std::string_view name) const {
  const SafetensorsFile& file = file_of(name);
  file.will_read(file.at(name));
}

template void SafetensorsSet::read_as(std::string_view, float*, int64_t, int64_t) const;
template void SafetensorsSet::read_as(std::string_view, double*, int64_t, int64_t) const;

}  // namespace recollect
