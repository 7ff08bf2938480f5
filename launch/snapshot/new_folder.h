// A folder that appears under its name complete or not at all. It is written as NAME.converting beside its
// destination. An existing folder is replaced only on request, and only if all its files are of the kinds
// that the new one has.
#pragma once

#include <string>
#include <vector>

namespace recollect {

class NewFolder {
 public:
  // `replaceable` are the names of files that an existing folder may hold. Throws kStorage if an existing
  // folder must stay, or the new one cannot be made.
  NewFolder(const std::string& name, bool overwrite, const std::vector<std::string>& replaceable);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& path() const { return being_written_; }
  // Flushes the folder and renames it to its name. Throws kStorage.
  void commit();

 private:
  void exchange_in_turn() const;

  std::string name_, being_written_;
  bool replaces_ = false;
};

}  // namespace recollect
