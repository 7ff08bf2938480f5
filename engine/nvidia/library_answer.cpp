#include "engine/nvidia/library_answer.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <vector>

#include "engine/nvidia/library.h"

namespace recollect::cuda {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(20);  // for a library of half a gigabyte on a cold disk

// Returns the library's file, from the process's link map: the loader knows a library by the name it was
// asked for.
std::string file_of(void* handle, const std::string& asked) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name) return map->l_name;
  return asked;
}

std::string loader_error() {
  const char* text = dlerror();
  return text ? text : "unknown error";
}

// Returns the parts in the folder of `file`, in the order in which they need each other.
std::vector<std::string> parts_of(const LibraryName& name, const std::string& file) {
  const std::string ending = name.soname.substr(name.soname.find(".so"));
  std::vector<std::string> parts;
  std::error_code error;
  for (fs::directory_iterator it(fs::path(file).parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string part = it->path().filename().string();
    if (part.starts_with(name.parts) && part.ends_with(ending)) parts.push_back(it->path().string());
  }
  const auto rank = [&](const std::string& part) {
    for (std::size_t i = 0; i < name.first_parts.size(); ++i)
      if (fs::path(part).filename() == name.parts + name.first_parts[i] + ending) return i;
    return name.first_parts.size();
  };
  std::sort(parts.begin(), parts.end(), [&](const std::string& a, const std::string& b) {
    return std::pair(rank(a), a) < std::pair(rank(b), b);
  });
  return parts;
}

// Returns the file that the loader finds for a bare name.
std::string found_by_loader(const std::string& soname, std::string& why) {
  void* handle = dlopen(soname.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!handle) {
    why = loader_error();
    return "";
  }
  std::string path = file_of(handle, soname);
  dlclose(handle);
  return path;
}

// Runs in the child process: writes the version and the path, or what went wrong, as lines. Never returns.
[[noreturn]] void answer_and_end(const LibraryName& name, const std::string& file, int to) {
  const OpenedLibrary library = open_library(name, file, Parts::kFirst);
  std::string text = library.handle ? std::to_string(name.version(library.handle)) + "\n" + library.path
                                    : "-\n" + library.why;
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::write(to, text.data() + sent, text.size() - sent);
    if (n < 0 && errno != EINTR) break;
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
  ::_exit(0);  // without running the library's destructors
}

// Reads until the other end is closed. Returns false if that takes too long.
bool read_all(int from, std::string& text) {
  const auto deadline = Clock::now() + kPatience;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready{from, POLLIN, 0};
    if (left <= 0) return false;
    if (::poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
    char buffer[4096];
    const ssize_t n = ::read(from, buffer, sizeof buffer);
    if (n == 0) return true;
    if (n > 0) text.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace

OpenedLibrary loaded_library(const LibraryName& name) {
  void* handle = dlopen(name.soname.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  return {.handle = handle, .path = handle ? file_of(handle, name.soname) : ""};
}

OpenedLibrary open_library(const LibraryName& name, const std::string& file, Parts parts) {
  OpenedLibrary opened;
  std::string path = file;
  if (!name.parts.empty()) {
    if (path.find('/') == std::string::npos) path = found_by_loader(path, opened.why);
    if (path.empty()) return opened;
    for (const std::string& part : parts_of(name, path)) {
      if (!dlopen(part.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
        opened.why = loader_error();
        return opened;
      }
      if (parts == Parts::kFirst) break;
    }
  }
  opened.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened.handle)
    opened.path = file_of(opened.handle, path);
  else
    opened.why = loader_error();
  return opened;
}

LibraryAnswer ask_library(const LibraryName& name, const std::string& file) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {.why = "there is no pipe left to ask it through"};
  const pid_t child = ::fork();
  if (child == 0) answer_and_end(name, file, ends[1]);
  ::close(ends[1]);
  std::string text;
  const bool in_time = child > 0 && read_all(ends[0], text);
  ::close(ends[0]);
  if (child < 0) return {.why = "there is no process left to ask it in"};
  if (!in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) return {.why = "it does not answer"};
  if (WIFSIGNALED(status))
    return {.why = "loading it ends the process with signal " + std::to_string(WTERMSIG(status))};
  const std::size_t line = text.find('\n');
  if (line == std::string::npos) return {.why = "it does not answer"};
  if (text.starts_with("-")) return {.why = text.substr(line + 1)};
  return {.loads = true, .path = text.substr(line + 1), .version = std::stoul(text)};
}

}  // namespace recollect::cuda
