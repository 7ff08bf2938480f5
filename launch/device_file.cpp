#include "launch/device_file.h"

#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "launch/config/agree.h"
#include "launch/config/document.h"
#include "launch/config/file_text.h"
#include "launch/config/scalars.h"

namespace recollect {

namespace {

struct Rate {
  const char* key;
  double DeviceModel::*member;
};

constexpr Rate kRates[] = {{"gemm_f32", &DeviceModel::gemm_f32},
                           {"gemm_bf16", &DeviceModel::gemm_bf16},
                           {"gemm_f64", &DeviceModel::gemm_f64},
                           {"attention_f32", &DeviceModel::attention_f32},
                           {"attention_bf16", &DeviceModel::attention_bf16},
                           {"vector_flops", &DeviceModel::vector_flops},
                           {"memory_bandwidth", &DeviceModel::memory_bandwidth},
                           {"link_bandwidth", &DeviceModel::link_bandwidth},
                           {"link_latency", &DeviceModel::link_latency},
                           {"to_host_bandwidth", &DeviceModel::to_host_bandwidth},
                           {"to_device_bandwidth", &DeviceModel::to_device_bandwidth},
                           {"launch_overhead", &DeviceModel::launch_overhead},
                           {"disk_write_bandwidth", &DeviceModel::disk_write_bandwidth},
                           {"disk_read_bandwidth", &DeviceModel::disk_read_bandwidth}};

bool may_be_absent(std::string_view key) { return key.starts_with("disk_"); }

bool is_time(std::string_view key) { return key == "link_latency" || key == "launch_overhead"; }

DeviceModel read_file(const std::string& path) {
  const auto wrong = [&](const std::string& what) {
    return Error(ExitCode::kConfiguration, path + ": " + what,
                 "`recollect calibrate --out FILE` writes such files");
  };
  std::string text;
  if (const std::string why = read_file_text(path, kMaxDocumentBytes, text); !why.empty()) throw wrong(why);
  Problems problems;
  const YamlNode root = parse_document(path, text, problems);
  problems.raise(wrong("").hint());
  std::map<std::string, YamlNode> given;
  for (const auto& [key, value] : root.entries) given[key.text] = value;
  DeviceModel device{.name = path};
  given.erase("name");
  for (const Rate& rate : kRates) {
    const auto found = given.find(rate.key);
    if (found == given.end() && may_be_absent(rate.key)) continue;
    if (found == given.end()) throw wrong(fmt::format("{} is missing", rate.key));
    double& value = device.*rate.member;
    // Seconds that follow from them, and sums of those, stay finite.
    const ValueRange range =
        is_time(rate.key) ? ValueRange{.low = 0, .high = 1} : ValueRange{.low = 1, .high = 1e30};
    if (!read_value(found->second, range, value).empty())
      throw wrong(fmt::format("{}: {} is no rate", rate.key, describe(found->second)));
    given.erase(found);
  }
  if (!given.empty()) throw wrong(fmt::format("unknown key '{}'", printable(given.begin()->first)));
  return device;
}

}  // namespace

std::string to_yaml(const DeviceModel& device) {
  std::string text = fmt::format("name: {}\n", device.name);
  for (const Rate& rate : kRates)
    if (device.*rate.member > 0 || !may_be_absent(rate.key))
      text += fmt::format("{}: {:.6g}\n", rate.key, device.*rate.member);
  return text;
}

DeviceModel read_device_model(const std::string& name_or_path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(name_or_path, ignored) ? read_file(name_or_path)
                                                                 : device_preset(name_or_path);
}

void check_device_models_agree(const DeviceModel& device, Communicator& communicator) {
  std::map<std::string, std::string> texts;
  for (const Rate& rate : kRates) texts[rate.key] = fmt::format("{}", device.*rate.member);
  check_texts_agree(texts, "device models", "give every rank the same file as device.model", communicator);
}

}  // namespace recollect
