#include "launch/program/recorded.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include "checkpointing/device_file.h"
#include "engine/core/printable.h"
#include "engine/io/file_text.h"
#include "engine/io/yaml_document.h"
#include "engine/ops/cpu_level.h"
#include "launch/ranks/program_identity.h"

namespace recollect {

namespace {

using Conditions = std::map<std::string, std::string>;

constexpr std::string_view kBegin = "# recorded with ", kIs = " = ", kNext = " | ";

std::string name_of_processor() {
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);)
    if (const std::size_t colon = line.find(": "); line.starts_with("model name") && colon != line.npos)
      return line.substr(colon + 2);
  return "unknown";
}

Conditions machine(CpuIsa isa) {
  return {{"instruction set", cpu_level(isa).instruction_set()}, {"processor", name_of_processor()}};
}

std::string line_of(const Conditions& conditions) {
  std::string line;
  for (const auto& [what, is] : conditions)
    line += fmt::format("{}{}{}{}", line.empty() ? kBegin : kNext, what, kIs, is);
  return line + "\n";
}

Conditions conditions_in(const std::string& path) {
  std::error_code ignored;
  std::string text;
  if (!std::filesystem::is_regular_file(path, ignored) ||
      !read_file_text(path, kMaxDocumentBytes, text).empty() || !text.starts_with(kBegin))
    return {};
  Conditions found;
  std::string_view rest = std::string_view(text).substr(kBegin.size());
  rest = rest.substr(0, rest.find_first_of("\r\n"));
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(kNext));
    if (const std::size_t is = one.find(kIs); is != one.npos)
      found.emplace(one.substr(0, is), one.substr(is + kIs.size()));
    rest.remove_prefix(std::min(rest.size(), one.size() + kNext.size()));
  }
  return found;
}

// The conditions in `then` that are different now, as text.
std::vector<std::string> differences(const Conditions& then, const Conditions& now) {
  std::vector<std::string> different;
  for (const auto& [what, is] : now) {
    const auto before = then.find(what);
    if (before == then.end() || before->second == is) continue;
    if (what == "program")
      different.push_back("another build of recollect");
    else if (what == "fused multiply-add")
      different.push_back(fmt::format("{} {} (here {})", what, printable(before->second), is));
    else if (what == "instruction set" || what == "processor")
      different.push_back(fmt::format("{} (here {})", printable(before->second), is));
    else
      different.push_back("another " + what);
  }
  return different;
}

// Remarks on numbers of threads without measured rates.
std::vector<std::string> other_threads(const DeviceModel& device) {
  const int64_t here = omp_get_max_threads();
  std::vector<int64_t> measured;
  for (const DeviceModel& fewer : device.fewer_threads) measured.push_back(fewer.threads);
  measured.push_back(device.threads);
  if (device.threads == 0 || std::find(measured.begin(), measured.end(), here) != measured.end()) return {};
  return {fmt::format("{} threads (here {})", fmt::join(measured, ", "), here)};
}

}  // namespace

std::string recorded_line(const Config& config) { return line_of(program_identity(config.device.isa)); }

std::string measured_line() { return line_of(machine(CpuIsa::kAuto)); }

std::vector<Remark> recorded_elsewhere(const Config& config) {
  std::vector<Remark> remarks;
  const auto compare = [&](const char* key, const std::string& path, const char* means) {
    const Conditions then = conditions_in(path);
    if (then.empty()) return;
    if (const auto different = differences(then, program_identity(config.device.isa)); !different.empty())
      remarks.push_back({key, fmt::format("{} was recorded with {}: {}", printable(path),
                                          fmt::join(different, ", "), means)});
  };
  if (const auto file = config.origins.find(""); file != config.origins.end())
    compare("configuration", file->second.text, "losses may differ from that run's in their last bits");
  compare("plan", config.activation_checkpointing.plan, "it may take other memory than in that run");
  const DeviceModel device = read_device_model(config.device.model);
  if (config.device.backend != BackendKind::kCpu || is_preset(device)) return remarks;
  std::vector<std::string> different =
      differences(conditions_in(config.device.model), machine(config.device.isa));
  for (std::string& threads : other_threads(device)) different.push_back(std::move(threads));
  if (!different.empty())
    remarks.push_back({"device.model", fmt::format("{} was measured with {}: predicted times may be off",
                                                   printable(device.name), fmt::join(different, ", "))});
  return remarks;
}

}  // namespace recollect
