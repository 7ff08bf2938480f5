// A temporary folder that only this user can enter. The destructor removes it. It holds the secret with which
// the processes of one run prove that they belong to it.
#pragma once

#include <string>

namespace recollect::launcher {

// `bytes` random bytes, each as two hexadecimal digits.
std::string random_hex(int bytes);

// TMPDIR, or /tmp if that is not a folder.
std::string temporary_folder();

class PrivateFolder {
 public:
  PrivateFolder();  // with a new token in it
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
