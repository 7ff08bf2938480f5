// The file of choices. Every change reads it again under a lock and replaces it whole, so that of two runs
// that choose at the same time the first one's choice stays, for both.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "engine/core/error.h"
#include "engine/io/files.h"
#include "engine/io/folders.h"
#include "engine/io/input_file.h"
#include "engine/ops/cuda/gemm_choices.h"

namespace recollect::cuda {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = 16 << 20;    // a choice takes 300 bytes
constexpr std::chrono::seconds kLongestWait{10};  // others hold the lock for as long as a small write takes

// Held while a file of that name is read and replaced; released with the process, whatever ends it.
class FileLock {
 public:
  explicit FileLock(const std::string& path)
      : descriptor_(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600)) {
    if (descriptor_ < 0) fail(path, std::strerror(errno));
    const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
    while (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) fail(path, std::strerror(errno));
      if (std::chrono::steady_clock::now() > deadline) fail(path, "another process does not let go of it");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ~FileLock() { ::close(descriptor_); }
  FileLock(const FileLock&) = delete;

 private:
  [[noreturn]] void fail(const std::string& path, const std::string& reason) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw Error(ExitCode::kStorage, path + ": " + reason);
  }

  int descriptor_;
};

GemmChoices read(const std::string& path) {
  std::error_code error;
  if (fs::symlink_status(path, error).type() == fs::file_type::not_found) return {};
  const InputFile file(path);
  if (file.size() > kLargestFile) throw Error(ExitCode::kInput, path + ": larger than any such file");
  return GemmChoices::from_json(file.text(), path);
}

std::string file_name_part(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  return text;
}

}  // namespace

std::string gemm_cache_file(const GemmContext& context) {
  const std::string folder = user_cache_folder();
  if (folder.empty()) return "";
  return fmt::format("{}/gemm-{}-{}.json", folder, file_name_part(context.device), context.version);
}

GemmChoices GemmCache::load(std::string& warning) {
  if (path_.empty()) return {};
  try {
    return read(path_);
  } catch (const Error& e) {
    give_up(e.what(), warning);
    return {};
  }
}

GemmAlgorithm GemmCache::settle(const std::string& key, const GemmAlgorithm& mine,
                                const std::optional<GemmAlgorithm>& refused, std::string& warning) {
  if (path_.empty()) return mine;
  try {
    fs::create_directories(fs::path(path_).parent_path());
    const FileLock lock(path_ + ".lock");
    GemmChoices choices = read(path_);
    const std::optional<GemmAlgorithm> theirs = choices.find(key);
    if (theirs && theirs != refused) return *theirs;
    choices.set(key, mine);
    write_text_file(path_, choices.to_json());
  } catch (const std::exception& e) {
    give_up(e.what(), warning);
  }
  return mine;
}

void GemmCache::give_up(const std::string& why, std::string& warning) {
  warning = fmt::format(
      "the algorithms of matrix products, chosen by timing, are not kept for later runs, which may then "
      "differ "
      "from this one in the last bits ({}). Remove the file, or let another hold them: XDG_CACHE_HOME",
      why);
  path_.clear();
}

}  // namespace recollect::cuda
