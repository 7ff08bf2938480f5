#include "engine/nvidia/library_search.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace recollect::cuda {

namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// 3.9 before 3.11, 13.0 before 13.2: runs of digits compare as numbers.
bool version_less(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (digit(a[i]) && digit(b[j])) {
      const std::size_t i_end = std::min(a.find_first_not_of("0123456789", i), a.size());
      const std::size_t j_end = std::min(b.find_first_not_of("0123456789", j), b.size());
      const std::string x = a.substr(i, i_end - i), y = b.substr(j, j_end - j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      i = i_end, j = j_end;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
    }
  }
  return a.size() < b.size();
}

// The folders in `parent` whose name begins with `prefix`, newest first.
std::vector<std::string> folders_in(const fs::path& parent, const std::string& prefix) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->path().filename().string().starts_with(prefix) && it->is_directory(ignored))
      found.push_back(it->path().string());
  }
  std::sort(found.begin(), found.end(),
            [](const std::string& a, const std::string& b) { return version_less(b, a); });
  return found;
}

class Places {
 public:
  void add(const fs::path& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) return;
    const std::string text = folder.lexically_normal().string();
    if (std::find(found_.begin(), found_.end(), text) == found_.end()) found_.push_back(text);
  }

  // Adds nvidia/<library>/lib of one folder of Python packages.
  void add_packages(const fs::path& packages) {
    for (const std::string& library : folders_in(packages / "nvidia", "")) add(fs::path(library) / "lib");
  }

  // Adds those of a Python installed below `prefix`: lib/python3.11/site-packages, and Debian's
  // dist-packages.
  void add_python(const fs::path& prefix) {
    for (const std::string& python : folders_in(prefix / "lib", "python3"))
      for (const char* packages : {"site-packages", "dist-packages"})
        add_packages(fs::path(python) / packages);
  }

  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

// A virtual environment's python3 is a link to the one it was made from: both have packages.
void add_python_on_path(const std::string& path, Places& places) {
  for (const std::string& folder : split(path)) {
    const fs::path python = fs::path(folder) / "python3";
    std::error_code error;
    if (!fs::exists(python, error)) continue;
    places.add_python(fs::path(folder).parent_path());
    const fs::path real = fs::canonical(python, error);
    if (!error) places.add_python(real.parent_path().parent_path());
    return;
  }
}

void add_common_pythons(const SearchEnvironment& e, Places& places) {
  if (!e.home.empty()) {
    for (const std::string& version : folders_in(fs::path(e.home) / ".pyenv/versions", ""))
      places.add_python(version);
    for (const char* name : {".local", ".venv", "miniconda3", "anaconda3"})
      places.add_python(fs::path(e.home) / name);
  }
  for (const char* name : {"/usr/local", "/usr", "/opt/conda"}) places.add_python(e.root + name);
  places.add_packages(e.root + "/usr/lib/python3/dist-packages");
}

void add_toolkit(const fs::path& toolkit, Places& places) {
  for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"})
    places.add(toolkit / folder);
}

}  // namespace

SearchEnvironment SearchEnvironment::of_process() {
  SearchEnvironment e;
  e.libraries = variable("RECOLLECT_NVIDIA_LIBRARIES");
  e.virtual_env = variable("VIRTUAL_ENV");
  e.conda = variable("CONDA_PREFIX");
  e.cuda_home = variable("CUDA_HOME");
  if (e.cuda_home.empty()) e.cuda_home = variable("CUDA_PATH");
  e.path = variable("PATH");
  e.home = variable("HOME");
  std::error_code error;
  e.program = fs::read_symlink("/proc/self/exe", error).string();
  return e;
}

SearchPlaces search_places(const SearchEnvironment& e) {
  Places then;
  // A wheel's program, site-packages/recollect/bin/recollect, uses its own site-packages, whatever
  // environment is active.
  const fs::path package = fs::path(e.program).parent_path().parent_path();
  if (package.filename() == "recollect") then.add_packages(package.parent_path());
  if (!e.virtual_env.empty()) then.add_python(e.virtual_env);
  if (!e.conda.empty()) then.add_python(e.conda);
  add_python_on_path(e.path, then);
  add_common_pythons(e, then);

  if (!e.cuda_home.empty()) add_toolkit(e.cuda_home, then);
  add_toolkit(e.root + "/usr/local/cuda", then);
  for (const std::string& toolkit : folders_in(e.root + "/usr/local", "cuda-")) add_toolkit(toolkit, then);
  return {split(e.libraries), then.take()};
}

}  // namespace recollect::cuda
