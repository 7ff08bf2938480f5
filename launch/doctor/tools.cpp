// Checks the tools that a build from source needs. A built program needs none of them.
#include <cstdlib>

#include <fmt/format.h>

#include "launch/doctor/check.h"
#include "launch/doctor/child.h"

namespace recollect::doctor {

namespace {

using namespace std::chrono_literals;

// The first number in `text` with a dot in it.
std::string version_in(const std::string& text) {
  for (std::size_t at = text.find_first_of("0123456789"); at != std::string::npos;
       at = text.find_first_of("0123456789", at)) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789.", at), text.size());
    std::string word = text.substr(at, end - at);
    if (word.find('.') != std::string::npos) return word;
    at = end;
  }
  return "";
}

// Major and minor version as one comparable number.
int rank_of(const std::string& version) {
  char* end = nullptr;
  const long major = std::strtol(version.c_str(), &end, 10);
  const long minor = *end == '.' ? std::strtol(end + 1, nullptr, 10) : 0;
  return static_cast<int>(1000 * major + std::min(minor, 999l));
}

// The version follows `marker` in the output of the tool. `least` is a number of rank_of().
Check tool(const char* name, const std::vector<std::string>& words, const char* marker, int least,
           const char* fix) {
  Check check{.name = name};
  const Ended ended = run_program(words, "", 10s);
  if (!ended.good()) {
    check.status = Status::kMissing;
    check.found = ended.in_time && ended.status == 127 ? "not on the PATH" : ended.how();
    check.fix = fix;
    return check;
  }
  const std::size_t at = ended.output.find(marker);
  const std::string version = version_in(at == std::string::npos ? ended.output : ended.output.substr(at));
  check.found = version.empty() ? first_line(ended.output) : version;
  if (!version.empty() && rank_of(version) < least) {
    check.status = Status::kWarn;
    check.found += fmt::format("; {}.{} or later is wanted", least / 1000, least % 1000);
    check.fix = fix;
  }
  return check;
}

}  // namespace

Group check_tools() {
  const char* home = std::getenv("CUDA_HOME");
  Check nvcc =
      tool("nvcc", {"nvcc", "--version"}, "release", 12000, "for the CUDA backend only: the CUDA toolkit");
  if (nvcc.status == Status::kMissing) {
    const std::string path = std::string(home ? home : "/usr/local/cuda") + "/bin/nvcc";
    const Check elsewhere = tool("nvcc", {path, "--version"}, "release", 12000, "");
    if (elsewhere.status == Status::kOk)
      nvcc = {.name = "nvcc",
              .status = Status::kWarn,
              .found = elsewhere.found + " at " + path,
              .fix = "put it on the PATH"};
  }
  return {"building (not needed to run)",
          {tool("g++", {"g++", "-dumpfullversion"}, "", 12000, "apt-get install g++"),
           tool("cmake", {"cmake", "--version"}, "version", 3025, "apt-get install cmake"),
           tool("ninja", {"ninja", "--version"}, "", 1000, "apt-get install ninja-build"), nvcc}};
}

}  // namespace recollect::doctor
