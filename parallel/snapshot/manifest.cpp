#include "parallel/snapshot/manifest.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/error.h"
#include "engine/io/crc32c.h"
#include "engine/io/json.h"
#include "engine/io/safetensors_header.h"
#include "engine/io/strict_json.h"
#include "parallel/mesh.h"

namespace recollect {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "recollect snapshot";
constexpr int64_t kVersion = 1;
constexpr std::string_view kSumBefore = ",\n\"crc32c\": \"";  // the last member; the sum is of all before it
constexpr std::size_t kSumEnd = kSumBefore.size() + 8 + 3;    // with the digits and what closes it
constexpr std::size_t kMostName = 128;
constexpr int64_t kMostSteps = std::numeric_limits<int32_t>::max();  // of any run: training.max_steps

class ManifestReader {
 public:
  explicit ManifestReader(const std::string& source) : source_(source) {}

  Manifest read(std::string_view text) const {
    check_sum(text);
    const Json document = parse_strict_json(text, source_);
    if (member<std::string>(document, "format") != kFormat) fail("it is no snapshot's");
    if (const int64_t version = count(document, "version"); version != kVersion)
      fail(fmt::format("it has version {}, and this program reads version {}", version, kVersion));
    Manifest m;
    const Json& progress = object(document, "progress");
    m.progress = {.step = count(progress, "step"),
                  .updates = count(progress, "updates"),
                  .samples = count(progress, "samples"),
                  .loss_scale = number(progress, "loss_scale"),
                  .updates_at_scale = count(progress, "updates_at_scale"),
                  .not_finite = progress.contains("not_finite") ? count(progress, "not_finite") : 0,
                  .best = progress.contains("best") ? read_best(progress) : BestEvaluation()};
    if (m.progress.step > kMostSteps) fail(fmt::format("no run has {} steps", m.progress.step));
    if (m.progress.samples < m.progress.step) fail("it has fewer samples than steps");
    if (m.progress.updates > m.progress.step) fail("it has more updates than steps");
    if (!(m.progress.loss_scale > 0)) fail("its loss scale is not positive");
    if (m.progress.best.step > m.progress.step) fail("its best evaluation is of a later step");
    for (const auto& [axis, size] : object(document, "ranks").items())
      m.ranks[axis] = count(object(document, "ranks"), axis);
    for (const auto& [what, version] : object(document, "versions").items())
      m.versions[what] = member<std::string>(object(document, "versions"), what);
    if (document.contains("launch")) m.launch = member<std::string>(document, "launch");
    m.configuration = member<std::string>(document, "configuration");
    if (document.contains("inputs"))
      for (const auto& [key, word] : object(document, "inputs").items())
        m.inputs[key] = member<std::string>(object(document, "inputs"), key);
    for (const Json& file : array(document, "files")) m.files.push_back(read_file(file));
    check_names(m.files);
    check_ranks(m);
    for (const Json& tensor : array(document, "tensors"))
      m.tensors.push_back(read_tensor(tensor, m.files.size()));
    std::set<std::string> names;
    for (const SnapshotTensor& tensor : m.tensors)
      if (!names.insert(tensor.whole.name).second) fail(escaped_name(tensor.whole.name) + " is there twice");
    return m;
  }

  BestEvaluation read_best(const Json& progress) const {
    const Json& best = object(progress, "best");
    return {.metric = member<std::string>(best, "metric"),
            .step = count(best, "step"),
            .value = number(best, "value"),
            .not_better = count(best, "not_better")};
  }

  SnapshotFile read_file(const Json& json) const {
    SnapshotFile file{.name = member<std::string>(json, "name"),
                      .bytes = static_cast<uint64_t>(count(json, "bytes"))};
    for (const Json& sum : array(json, "crc32c")) file.sums.push_back(read_sum(sum));
    if (file.sums.size() != (file.bytes + kSummedBytes - 1) / kSummedBytes)
      fail(fmt::format("{} has {} check sums for {} bytes", escaped_name(file.name), file.sums.size(),
                       file.bytes));
    return file;
  }

  SnapshotShard read_shard(const Json& json) const {
    SnapshotShard shard{.file = static_cast<std::size_t>(count(json, "file")),
                        .tensor = member<std::string>(json, "tensor")};
    const Json& place = array(json, "place");
    if (place.size() != 4) fail("a place has not four numbers");
    std::array<int64_t, 4> numbers{};
    for (std::size_t i = 0; i < 4; ++i) numbers[i] = as_count(place[i], "a place");
    shard.place = {numbers[0], numbers[1], numbers[2], numbers[3]};
    return shard;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ExitCode::kInput, fmt::format("{}: {}", source_, what), "the snapshot is damaged");
  }

  void check_sum(std::string_view text) const {
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    if (text.size() < kSumEnd) fail("it is too short to have a check sum");
    const std::string_view before = text.substr(0, text.size() - kSumEnd + 1),
                           end = text.substr(before.size());
    if (!end.starts_with(kSumBefore) || !end.ends_with("\"}")) fail("it does not end with a check sum");
    const std::string said(end.substr(kSumBefore.size(), 8)), is = fmt::format("{:08x}", crc32c(before));
    if (said != is) fail(fmt::format("its check sum is {}, and it says {}", is, escaped_name(said)));
  }

  const Json& value(const Json& json, const std::string& key) const {
    if (!json.is_object() || !json.contains(key)) fail(fmt::format("{} is missing", escaped_name(key)));
    return json.at(key);
  }
  const Json& object(const Json& json, const std::string& key) const {
    const Json& found = value(json, key);
    if (!found.is_object()) fail(escaped_name(key) + " is no object");
    return found;
  }
  const Json& array(const Json& json, const std::string& key) const {
    const Json& found = value(json, key);
    if (!found.is_array()) fail(escaped_name(key) + " is no list");
    return found;
  }
  template <typename T>
  T member(const Json& json, const std::string& key) const {
    const Json& found = value(json, key);
    if (!found.is_string()) fail(escaped_name(key) + " is no text");
    return found.get<T>();
  }
  int64_t as_count(const Json& json, const std::string& what) const {
    if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) ||
        json.get<int64_t>() < 0)
      fail(what + " is no count");
    return json.get<int64_t>();
  }
  int64_t count(const Json& json, const std::string& key) const {
    return as_count(value(json, key), escaped_name(key));
  }
  double number(const Json& json, const std::string& key) const {
    const Json& found = value(json, key);
    if (!found.is_number()) fail(escaped_name(key) + " is no number");
    return found.get<double>();
  }

  uint32_t read_sum(const Json& json) const {
    if (!json.is_string()) fail("a check sum is no text");
    const auto& text = json.get_ref<const std::string&>();
    uint32_t sum = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum, 16);
    if (text.size() != 8 || error != std::errc() || end != text.data() + text.size())
      fail(escaped_name(text) + " is no check sum");
    return sum;
  }

  void check_names(const std::vector<SnapshotFile>& files) const {
    std::set<std::string> names;
    for (const SnapshotFile& file : files) {
      const bool plain = !file.name.empty() && file.name.size() <= kMostName && file.name.front() != '.' &&
                         std::all_of(file.name.begin(), file.name.end(), [](char c) {
                           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                  (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
                         });
      if (!plain) fail(escaped_name(file.name) + " is no name for a file of a snapshot");
      if (!names.insert(file.name).second) fail(escaped_name(file.name) + " is there twice");
    }
  }

  // Each rank has written a file. Those that repeat are among the tensor ranks.
  void check_ranks(const Manifest& m) const {
    auto files = static_cast<int64_t>(m.files.size());
    for (const auto& [axis, size] : m.ranks) {
      if (size < 1 || files % size != 0)
        fail(fmt::format("{} files are not of so many ranks: {} {}", m.files.size(), escaped_name(axis),
                         size));
      if (axis != kRepeatAxis) files /= size;
    }
    if (files != 1) fail(fmt::format("its {} files are of more ranks than it says", m.files.size()));
  }

  SnapshotTensor read_tensor(const Json& json, std::size_t files) const {
    SnapshotTensor tensor;
    StateTensor& whole = tensor.whole;
    whole.name = member<std::string>(json, "name");
    const auto type = member<std::string>(json, "dtype");
    bool known = false;
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32,
                              DType::kU16, DType::kU8})
      if (safetensors_name_of(dtype) == type) whole.dtype = dtype, known = true;
    if (!known) fail(fmt::format("{} has the type {}", escaped_name(whole.name), escaped_name(type)));
    const Json& shape = array(json, "shape");
    whole.vector = shape.size() == 1;
    if (shape.empty() || shape.size() > 2) fail(escaped_name(whole.name) + " is no vector and no matrix");
    whole.rows = as_count(shape[0], "a shape");
    whole.columns = whole.vector ? 1 : as_count(shape[1], "a shape");
    for (const Json& shard : array(json, "shards")) {
      tensor.shards.push_back(read_shard(shard));
      if (tensor.shards.back().file >= files)
        fail(escaped_name(whole.name) + " is in a file that there is not");
    }
    check_covered(tensor);
    return tensor;
  }

  // Bands of columns from the first to the last, in each of them rows from the first to the last.
  void check_covered(const SnapshotTensor& tensor) const {
    const StateTensor& whole = tensor.whole;
    std::vector<Rectangle> places;
    for (const SnapshotShard& shard : tensor.shards) places.push_back(shard.place);
    std::sort(places.begin(), places.end(), [](const Rectangle& a, const Rectangle& b) {
      return std::tie(a.column, a.row) < std::tie(b.column, b.row);
    });
    int64_t all = 0, row = whole.rows, column = 0, columns = 0;  // where the next one begins
    bool good = !__builtin_mul_overflow(whole.rows, whole.columns, &all) && all > 0;
    for (const Rectangle& place : places) {
      if (!good) break;
      if (row == whole.rows) column += columns, columns = place.columns, row = 0;
      good = place.row == row && place.column == column && place.columns == columns && columns > 0 &&
             columns <= whole.columns - column && place.rows > 0 && place.rows <= whole.rows - row;
      row += good ? place.rows : 0;
    }
    if (!good || row != whole.rows || column + columns != whole.columns)
      fail(fmt::format("the parts of {} are not the whole", escaped_name(whole.name)));
  }

  const std::string& source_;
};

Json json_of(const SnapshotFile& file) {
  Json sums = Json::array();
  for (const uint32_t sum : file.sums) sums.push_back(fmt::format("{:08x}", sum));
  return {{"name", file.name}, {"bytes", file.bytes}, {"crc32c", std::move(sums)}};
}

Json json_of(const SnapshotShard& shard) {
  const Rectangle& p = shard.place;
  return {{"file", shard.file}, {"tensor", shard.tensor}, {"place", {p.row, p.rows, p.column, p.columns}}};
}

Json json_of(const SnapshotTensor& tensor) {
  Json shards = Json::array();
  for (const SnapshotShard& shard : tensor.shards) shards.push_back(json_of(shard));
  return {{"name", tensor.whole.name},
          {"dtype", std::string(safetensors_name_of(tensor.whole.dtype))},
          {"shape", tensor.whole.shape()},
          {"shards", std::move(shards)}};
}

// One to a line, for those who look.
template <typename Items>
std::string lines_of(const Items& items) {
  std::string text = "[";
  for (const auto& item : items)
    text += fmt::format("{}\n{}", text.size() > 1 ? "," : "", json_of(item).dump());
  return text + "]";
}

}  // namespace

std::string shard_name(const StateTensor& whole, const Rectangle& place) {
  if (place == Rectangle{0, whole.rows, 0, whole.columns}) return whole.name;
  if (whole.vector) return fmt::format("{}@{}", whole.name, place.row);
  return fmt::format("{}@{},{}", whole.name, place.row, place.column);
}

std::string to_text(const SnapshotPart& part) {
  Json shards = Json::array();
  for (const auto& [tensor, shard] : part.shards) shards.push_back({tensor, json_of(shard)});
  return Json{{"file", json_of(part.file)}, {"shards", std::move(shards)}}.dump();
}

SnapshotPart read_part(const std::string& text) {
  const std::string source = "a rank's part of a manifest";
  const Json json = parse_strict_json(text, source);
  const ManifestReader reader(source);
  SnapshotPart part{.file = reader.read_file(json.at("file"))};
  for (const Json& pair : json.at("shards"))
    part.shards.emplace_back(pair.at(0).get<std::size_t>(), reader.read_shard(pair.at(1)));
  return part;
}

void add_part(SnapshotPart part, Manifest& manifest) {
  for (auto& [tensor, shard] : part.shards) {
    shard.file = manifest.files.size();
    manifest.tensors.at(tensor).shards.push_back(std::move(shard));
  }
  manifest.files.push_back(std::move(part.file));
}

std::string to_json(const Manifest& m) {
  const TrainingProgress& p = m.progress;
  Json progress{{"step", p.step},
                {"updates", p.updates},
                {"samples", p.samples},
                {"loss_scale", p.loss_scale},
                {"updates_at_scale", p.updates_at_scale},
                {"not_finite", p.not_finite}};
  if (const BestEvaluation& best = p.best; !best.metric.empty())
    progress["best"] = {
        {"metric", best.metric}, {"step", best.step}, {"value", best.value}, {"not_better", best.not_better}};
  const std::string launch = m.launch.empty() ? "" : fmt::format("\"launch\": {},\n", Json(m.launch).dump());
  const std::string inputs = m.inputs.empty() ? "" : fmt::format("\"inputs\": {},\n", Json(m.inputs).dump());
  std::string text = fmt::format(
      "{{\"format\": \"{}\",\n\"version\": {},\n\"progress\": {},\n\"ranks\": {},\n\"versions\": {},\n{}"
      "\"configuration\": {},\n{}\"files\": {},\n\"tensors\": {}",
      kFormat, kVersion, progress.dump(), Json(m.ranks).dump(), Json(m.versions).dump(), launch,
      Json(m.configuration).dump(), inputs, lines_of(m.files), lines_of(m.tensors));
  const uint32_t sum = crc32c(text);
  return fmt::format("{}{}{:08x}\"}}\n", text, kSumBefore, sum);
}

Manifest parse_manifest(std::string_view text, const std::string& source) {
  return ManifestReader(source).read(text);
}

}  // namespace recollect
