#include "checkpointing/device_file.h"

#include <filesystem>
#include <list>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "comm/agree.h"
#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/file_text.h"
#include "engine/io/scalars.h"
#include "engine/io/yaml_document.h"

namespace recollect {

namespace {

struct Rate {
  const char* key;
  double DeviceModel::*member;
};

constexpr Rate kRates[] = {{"gemm_f32", &DeviceModel::gemm_f32},
                           {"gemm_bf16", &DeviceModel::gemm_bf16},
                           {"gemm_f64", &DeviceModel::gemm_f64},
                           {"gemm_fp8", &DeviceModel::gemm_fp8},
                           {"attention_f32", &DeviceModel::attention_f32},
                           {"attention_bf16", &DeviceModel::attention_bf16},
                           {"vector_flops", &DeviceModel::vector_flops},
                           {"memory_bandwidth", &DeviceModel::memory_bandwidth},
                           {"link_bandwidth", &DeviceModel::link_bandwidth},
                           {"link_latency", &DeviceModel::link_latency},
                           {"to_host_bandwidth", &DeviceModel::to_host_bandwidth},
                           {"to_device_bandwidth", &DeviceModel::to_device_bandwidth},
                           {"launch_overhead", &DeviceModel::launch_overhead},
                           {"host_memory_bandwidth", &DeviceModel::host_memory_bandwidth},
                           {"disk_write_bandwidth", &DeviceModel::disk_write_bandwidth},
                           {"disk_read_bandwidth", &DeviceModel::disk_read_bandwidth}};

struct Curve {
  const char* key;
  RateCurve DeviceModel::*member;
};

constexpr Curve kCurves[] = {{"memory_levels", &DeviceModel::memory_levels},
                             {"collectives", &DeviceModel::collectives},
                             {"copies", &DeviceModel::copies},
                             {"disk_writes", &DeviceModel::disk_writes},
                             {"disk_reads", &DeviceModel::disk_reads}};

constexpr int64_t kNewestVersion = 2;

// Seconds that follow from them, and sums of those, stay finite.
constexpr ValueRange kRateRange{.low = 1, .high = 1e30}, kTimeRange{.low = 0, .high = 1},
    kSpreadRange{.low = 0, .high = 1e6};

bool may_be_absent(std::string_view key) {
  return key.starts_with("disk_") || key == "gemm_fp8" || key == "host_memory_bandwidth";
}

bool is_time(std::string_view key) { return key == "link_latency" || key == "launch_overhead"; }

// The keys of one mapping, taken one by one; what is left over nobody knows.
class Entries {
 public:
  Entries(const std::string& path, const YamlNode& node, const std::string& what) : path_(path) {
    if (node.kind != YamlNode::Kind::kMapping && node.kind != YamlNode::Kind::kNull)
      throw wrong(what + " is no list of rates");
    for (const auto& [key, value] : node.entries) given_[key.text] = value;
  }

  const YamlNode* take(const std::string& key) {
    const auto found = given_.find(key);
    if (found == given_.end()) return nullptr;
    taken_.push_back(std::move(found->second));
    given_.erase(found);
    return &taken_.back();
  }
  void end() const {
    if (!given_.empty()) throw wrong(fmt::format("unknown key '{}'", printable(given_.begin()->first)));
  }

  Error wrong(const std::string& what) const {
    return Error(ExitCode::kConfiguration, path_ + ": " + what,
                 "`recollect calibrate --out FILE` writes such files");
  }

  void read(const Rate& rate, DeviceModel& device) {
    const YamlNode* node = take(rate.key);
    if (!node && may_be_absent(rate.key)) return;
    if (!node) throw wrong(fmt::format("{} is missing", rate.key));
    double& value = device.*rate.member;
    if (!read_value(*node, is_time(rate.key) ? kTimeRange : kRateRange, value).empty())
      throw wrong(fmt::format("{}: {} is no rate", rate.key, describe(*node)));
  }

  RateCurve read_curve(const std::string& key, const YamlNode& node) const {
    RateCurve curve;
    for (const auto& [amount, rate] : node.entries) {
      RatePoint point;
      if (!read_value(amount, kRateRange, point.amount).empty() ||
          !read_value(rate, kRateRange, point.rate).empty())
        throw wrong(fmt::format("{}: {}: {} is no rate of an amount", printable(key), describe(amount),
                                describe(rate)));
      if (!curve.empty() && point.amount <= curve.back().amount)
        throw wrong(fmt::format("{}: the amounts are not in ascending order at {}", printable(key),
                                describe(amount)));
      curve.push_back(point);
    }
    if (curve.empty()) throw wrong(fmt::format("{}: expected {{amount: rate, ...}}", printable(key)));
    return curve;
  }

  int64_t count(const std::string& key) {
    int64_t value = 0;
    const YamlNode* node = take(key);
    if (node && !read_value(*node, {.low = 0, .high = 1 << 20}, value).empty())
      throw wrong(fmt::format("{}: {} is no number of them", key, describe(*node)));
    return value;
  }

 private:
  std::string path_;
  std::map<std::string, YamlNode> given_;
  std::list<YamlNode> taken_;
};

void read_rates(Entries& given, const std::string& path, DeviceModel& device) {
  for (const Rate& rate : kRates) given.read(rate, device);
  device.threads = given.count("threads");
  for (const Curve& curve : kCurves)
    if (const YamlNode* node = given.take(curve.key))
      device.*curve.member = given.read_curve(curve.key, *node);
  if (const YamlNode* node = given.take("kernels")) {
    const Entries of_kernels(path, *node, "kernels");  // an Error where it is no list
    for (const auto& [kernel, curve] : node->entries)
      device.kernels[kernel.text] = given.read_curve("kernels, " + kernel.text, curve);
  }
}

DeviceModel read_text(const std::string& path, const std::string& text) {
  Problems problems;
  const YamlNode root = parse_document(path, text, problems);
  problems.raise(Entries(path, {}, "").wrong("").hint());
  Entries given(path, root, "the file");
  DeviceModel device{.name = path};
  given.take("name");
  if (const int64_t version = given.count("version"); version > kNewestVersion)
    throw given.wrong(
        fmt::format("version {} is newer than this recollect, which reads {}", version, kNewestVersion));
  read_rates(given, path, device);
  device.cores = given.count("cores");
  if (const YamlNode* node = given.take("spread"))
    if (!read_value(*node, kSpreadRange, device.spread).empty())
      throw given.wrong(fmt::format("spread: {} is no share", describe(*node)));
  if (device.cores > 0 && device.threads == 0) throw given.wrong("cores without threads");
  if (const YamlNode* list = given.take("fewer_threads"))
    for (const YamlNode& item : list->items) {
      Entries of_item(path, item, "fewer_threads");
      DeviceModel& fewer = device.fewer_threads.emplace_back(DeviceModel{.name = path});
      read_rates(of_item, path, fewer);
      of_item.end();
      if (fewer.threads == 0 || fewer.threads >= device.threads)
        throw given.wrong("fewer_threads: expected threads, fewer than those of the file");
      if (fewer.memory_levels.empty() != device.memory_levels.empty())
        throw given.wrong("fewer_threads: memory_levels are missing");
    }
  given.end();
  return device;
}

DeviceModel read_file(const std::string& path) {
  std::string text;
  if (const std::string why = read_file_text(path, kMaxDocumentBytes, text); !why.empty())
    throw Entries(path, {}, "").wrong(why);
  return read_text(path, text);
}

// Every rate as it is told to people and compared.
using Lines = std::vector<std::pair<std::string, std::string>>;

std::string short_number(double value) { return fmt::format("{:.6g}", value); }

std::string curve_text(const RateCurve& curve, std::string (*text)(double)) {
  std::string points;
  for (const RatePoint& point : curve)
    points += fmt::format("{}{}: {}", points.empty() ? "" : ", ", text(point.amount), text(point.rate));
  return "{" + points + "}";
}

Lines lines_of(const DeviceModel& device, std::string (*text)(double)) {
  Lines lines;
  for (const Rate& rate : kRates)
    if (device.*rate.member > 0 || !may_be_absent(rate.key))
      lines.emplace_back(rate.key, text(device.*rate.member));
  if (device.threads > 0) lines.emplace_back("threads", fmt::format("{}", device.threads));
  for (const Curve& curve : kCurves)
    if (!(device.*curve.member).empty())
      lines.emplace_back(curve.key, curve_text(device.*curve.member, text));
  return lines;
}

std::string rates_yaml(const DeviceModel& device, const std::string& indent) {
  std::string yaml;
  for (const auto& [key, value] : lines_of(device, short_number))
    yaml += fmt::format("{}{}: {}\n", indent, key, value);
  if (!device.kernels.empty()) yaml += indent + "kernels:\n";
  for (const auto& [kernel, curve] : device.kernels)
    yaml += fmt::format("{}  {}: {}\n", indent, kernel, curve_text(curve, short_number));
  return yaml;
}

}  // namespace

std::string describe(const DeviceModel& device) {
  if (is_preset(device))
    return fmt::format(
        "{}, a preset: an order of magnitude, not this machine (`recollect calibrate` measures it)",
        device.name);
  if (device.name == kRatesOfMachine)
    return "those of this machine, measured within a second (`recollect calibrate` takes longer and knows "
           "more)";
  if (device.threads == 0 && !device.kernels.empty())
    return fmt::format("{}, measured on a GPU", device.name);
  if (device.threads == 0)
    return fmt::format("{}, which knows neither threads nor sizes: write it again with `recollect calibrate`",
                       device.name);
  std::string threads;
  for (const DeviceModel& fewer : device.fewer_threads) threads += fmt::format("{} and ", fewer.threads);
  const std::string spread =
      device.spread > 0 ? fmt::format("; two measurements differed by {:.0f} %", 100 * device.spread) : "";
  return fmt::format("{}, measured with {}{} threads on {} cores{}", device.name, threads, device.threads,
                     device.cores, spread);
}

std::string to_yaml(const DeviceModel& device) {
  std::string text = fmt::format("version: {}\nname: {}\n", kNewestVersion, print_text(device.name));
  if (device.cores > 0) text += fmt::format("cores: {}\n", device.cores);
  if (device.spread > 0) text += fmt::format("spread: {:.3g}\n", device.spread);
  text += rates_yaml(device, "");
  if (!device.fewer_threads.empty()) text += "fewer_threads:\n";
  for (const DeviceModel& fewer : device.fewer_threads) {
    std::string item = rates_yaml(fewer, "    ");
    text += item.replace(0, 4, "  - ");
  }
  return text;
}

DeviceModel read_device_model(const std::string& name_or_path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(name_or_path, ignored) ? read_file(name_or_path)
                                                                 : device_preset(name_or_path);
}

DeviceModel device_model_of(const std::string& path, const std::string& text) {
  return read_text(path, text);
}

void check_device_models_agree(const DeviceModel& device, Communicator& communicator) {
  std::map<std::string, std::string> texts;
  const auto exact = [](double value) { return fmt::format("{}", value); };
  const auto add = [&](const std::string& prefix, const DeviceModel& d) {
    for (const auto& [key, text] : lines_of(d, exact)) texts[prefix + key] = text;
    for (const auto& [kernel, curve] : d.kernels) texts[prefix + kernel] = curve_text(curve, exact);
  };
  texts["cores"] = std::to_string(device.cores);
  add("", device);
  for (const DeviceModel& fewer : device.fewer_threads)
    add(fmt::format("{} threads, ", fewer.threads), fewer);
  check_texts_agree(texts, "device models", "give every rank the same file as device.model", communicator);
}

}  // namespace recollect
