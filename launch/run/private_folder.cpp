#include "launch/run/private_folder.h"

#include <stdlib.h>
#include <sys/random.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "comm/store/environment.h"
#include "engine/core/error.h"

namespace recollect::launcher {

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
  if (!::mkdtemp(path_.data()))
    throw Error(ExitCode::kStorage,
                "cannot make the folder " + path_ + ": " + std::generic_category().message(errno),
                "the launcher keeps a secret of the run in a temporary folder; TMPDIR says where");
  token_ = make_store_token();
  token_file_ = path_ + "/token";
  try {
    write_store_token(token_file_, token_);
  } catch (const Error&) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
    throw;
  }
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace recollect::launcher
