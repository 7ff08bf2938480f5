#include "launch/run/find_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

namespace recollect::launcher {

namespace {

bool is_file(const std::string& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none);
}

bool can_run(const std::string& path) { return is_file(path) && ::access(path.c_str(), X_OK) == 0; }

// The path of this binary; works even if the file was replaced since the start.
std::string own_path() {
  std::error_code none;
  const std::string path = std::filesystem::read_symlink("/proc/self/exe", none).string();
  return can_run(path) ? path : "/proc/self/exe";
}

std::string search(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (can_run(name)) return name;
    throw Error(ExitCode::kConfiguration, name + (is_file(name) ? " may not be executed" : " is no program"),
                "run starts a program file, or a command of recollect such as train");
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (std::string file = (folder.empty() ? "." : folder) + "/" + name; can_run(file)) return file;
  throw Error(ExitCode::kConfiguration, fmt::format("there is no program '{}' in PATH", name),
              is_file(name) ? fmt::format("write ./{} for the one in this folder", name)
                            : "run starts a program, or a command of recollect such as train");
}

}  // namespace

Program find_program(const Words& words, const std::vector<std::string>& commands, bool with_python) {
  const std::string& first = words.front();
  if (std::find(commands.begin(), commands.end(), first) != commands.end()) {
    Program program{own_path(), {"recollect"}, true};
    program.words.insert(program.words.end(), words.begin(), words.end());
    return program;
  }
  if (with_python && first.ends_with(".py")) {
    if (!is_file(first)) throw Error(ExitCode::kConfiguration, "there is no file " + first);
    const char* python = std::getenv("PYTHON_EXEC");
    Program program{search(python ? python : "python3"), {"python3", "-u"}, false};
    program.words.insert(program.words.end(), words.begin(), words.end());
    return program;
  }
  return {search(first), words, false};
}

}  // namespace recollect::launcher
