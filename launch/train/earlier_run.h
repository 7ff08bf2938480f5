// The files that a run has left in its folder, and the way in which the next run makes room: it moves them, whole, to
// FOLDER/earlier/N, where no run replaces anything. What else lies in the folder is not a run's, and stays.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace recollect {

inline constexpr const char* kResolvedConfig = "config.resolved.yaml";  // what every run writes first

// Whether a run of ours writes a file, or a folder, of that name.
bool is_of_a_run(std::string_view name);
// Those that are there, sorted. Error kStorage where the folder cannot be read.
std::vector<std::string> files_of_a_run(const std::string& folder);

class EarlierRun {
 public:
  // Moves them. Error kStorage where that is not possible: then all are where they were.
  EarlierRun(const std::string& folder, const std::vector<std::string>& names);
  // Moves them back, unless keep() was called: the next run was refused.
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
