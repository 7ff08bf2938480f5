#include "launch/run/private_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "launch/run/descriptor.h"

namespace recollect::launcher {

namespace {

constexpr int kTokenBytes = 32;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ExitCode::kStorage, what + ": " + std::generic_category().message(errno),
              "the launcher keeps a secret of the run in a temporary folder; TMPDIR says where");
}

}  // namespace

std::string random_hex(int bytes) {
  std::vector<unsigned char> random(static_cast<std::size_t>(bytes));
  require(::getrandom(random.data(), random.size(), 0) == bytes, "the system gave too few random bytes");
  std::string text;
  for (const unsigned char byte : random) text += fmt::format("{:02x}", byte);
  return text;
}

std::string temporary_folder() {
  std::error_code none;
  const std::string path = std::filesystem::temp_directory_path(none);
  return none ? "/tmp" : path;
}

PrivateFolder::PrivateFolder() {
  path_ = temporary_folder() + "/recollect-run-XXXXXX";
  if (!::mkdtemp(path_.data())) fail("cannot make the folder " + path_);
  token_file_ = path_ + "/token";
  const std::string token = random_hex(kTokenBytes);
  const Descriptor file(::open(token_file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file || ::write(file.get(), token.data(), token.size()) != static_cast<ssize_t>(token.size())) {
    const int reason = errno;
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
    errno = reason;
    fail("cannot write " + token_file_);
  }
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace recollect::launcher
