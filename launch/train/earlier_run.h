// Finds the files that an earlier run has left in its folder and moves them, complete, to FOLDER/earlier/N,
// where no run replaces anything. Other files in the folder stay.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace recollect {

inline constexpr const char* kResolvedConfig = "config.resolved.yaml";  // every run writes it first

// Whether a run writes a file or folder of this name.
bool is_of_a_run(std::string_view name);
// The existing files of a run, sorted. Throws kStorage if the folder cannot be read.
std::vector<std::string> files_of_a_run(const std::string& folder);

class EarlierRun {
 public:
  // Moves the files. Throws kStorage if that is not possible; then all files are back in their places.
  EarlierRun(const std::string& folder, const std::vector<std::string>& names);
  // Moves the files back because the next run was refused, unless keep() was called.
  ~EarlierRun();
  EarlierRun(const EarlierRun&) = delete;
  EarlierRun& operator=(const EarlierRun&) = delete;

  void keep() { moved_.clear(); }
  // FOLDER/earlier/N
  const std::string& place() const { return place_; }

 private:
  void put_back();

  const std::string folder_;
  std::string place_;
  std::vector<std::string> moved_;
};

}  // namespace recollect
