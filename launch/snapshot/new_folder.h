// A folder that appears under its name complete or not at all: it is written as NAME.converting beside it. One that was
// there is replaced only where that was asked for, and only if it holds nothing but what it would be replaced by.
#pragma once

#include <string>
#include <vector>

namespace recollect {

class NewFolder {
 public:
  // `replaceable`: names of files that a folder there may hold. Error kStorage where it must stay, or cannot be made.
  NewFolder(const std::string& name, bool overwrite, const std::vector<std::string>& replaceable);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& path() const { return being_written_; }
  // Flushes it, and gives it its name. Error kStorage.
  void commit();

 private:
  void exchange_in_turn() const;

  std::string name_, being_written_;
  bool replaces_ = false;
};

}  // namespace recollect
