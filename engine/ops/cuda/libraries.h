// NVIDIA's libraries as one rank uses them: found and opened, a handle each, and what they have chosen. Made
// where a run on a device begins; programs that are only planned need none. Not for several threads at once.
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
  std::string cache_file = {};  // of what timing has chosen; "": the user's cache folder; "none": no file
};

class Libraries {
 public:
  // For the calling thread's device, by the same thread as everything later. Error kConfiguration where there
  // is no driver, no device, or a library is missing.
  explicit Libraries(LibrariesOptions options);
  ~Libraries();
  Libraries(const Libraries&) = delete;
  // With a cuBLASLt of the caller's own. For tests.
  explicit Libraries(std::unique_ptr<Cublas> cublas);

  // What this rank knows of algorithms, as text, and the other way round: a rank that learns another's
  // choices before its kernels are prepared computes as that one does. Error kInput where it is no such text.
  std::string learned() const;
  void learn(const std::string& text);

  // Each warning once; they are about the file of choices.
  std::vector<std::string> take_warnings();

  Cublas& cublas() { return *cublas_; }
  Cudnn& cudnn();  // opened when it is first asked for

 private:
  std::unique_ptr<Cublas> cublas_;
  std::unique_ptr<Cudnn> cudnn_;
};

}  // namespace recollect::cuda
