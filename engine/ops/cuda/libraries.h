// NVIDIA's libraries of one rank: opened, with a handle each, and with the algorithms that were chosen. They
// are made when a run on a device begins; planning a program does not need them. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace recollect::cuda {

class Cublas;
class Cudnn;

struct LibrariesOptions {
  bool tf32 = false;            // f32 products may round their operands to tf32
  bool timed = true;            // algorithms are timed; otherwise the library's first proposal is taken
  std::string cache_file = {};  // file of timed choices; "": in the user's cache folder; "none": no file
};

class Libraries {
 public:
  // Uses the calling thread's device; all later calls must come from the same thread. Throws kConfiguration
  // if there is no driver or no device, or if a library is missing.
  explicit Libraries(LibrariesOptions options);
  ~Libraries();
  Libraries(const Libraries&) = delete;
  // Uses the caller's cuBLASLt. For tests.
  explicit Libraries(std::unique_ptr<Cublas> cublas);

  // learned() returns this rank's choices of algorithms as text; learn() adds another rank's. A rank that
  // learns the choices of another before it prepares its kernels computes the same bits. learn() throws
  // kInput if the text is invalid.
  std::string learned() const;
  void learn(const std::string& text);

  // Returns each warning once. Warnings concern the file of choices.
  std::vector<std::string> take_warnings();

  Cublas& cublas() { return *cublas_; }
  Cudnn& cudnn();  // opened at first use

 private:
  std::unique_ptr<Cublas> cublas_;
  std::unique_ptr<Cudnn> cudnn_;
};

}  // namespace recollect::cuda
