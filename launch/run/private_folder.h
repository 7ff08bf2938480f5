// A temporary folder that only this user can enter, gone with its owner. It holds the secret by which the
// processes of one run know each other.
#pragma once

#include <string>

namespace recollect::launcher {

// That many random bytes, each as two hexadecimal digits.
std::string random_hex(int bytes);

// TMPDIR, or /tmp where that is none.
std::string temporary_folder();

class PrivateFolder {
 public:
  PrivateFolder();  // with a fresh token in it
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }
  // 32 random bytes in hexadecimal, and the file of mode 0600 that holds them.
  const std::string& token() const { return token_; }
  const std::string& token_file() const { return token_file_; }

 private:
  std::string path_, token_, token_file_;
};

}  // namespace recollect::launcher
