// A folder as a power cut may leave it. What was flushed is there. Of writes to a file behind its last flush any may be
// lost, and the last one half done; of changes to the names in a folder behind its last flush any may be lost, and the
// others may have come in any order. A rename or an exchange is done or not, and a folder has one name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/parallel/file_calls.h"

namespace recollect::test {

using FileTree = std::map<std::string, std::string>;  // contents by path; a folder's path ends in '/'

class CrashStates {
 public:
  // As it is on the disk, and flushed.
  explicit CrashStates(const std::string& folder);

  void apply(const FileCall& call);
  // All trees that may be found now, but where one folder has many changes: then those with few of them, or with few
  // missing, and some at random. Files in folders that `matters` does not name have all that was written to them.
  void each(const std::function<bool(const std::string& name)>& matters,
            const std::function<void(const FileTree&)>& visit) const;

 private:
  using Names = std::map<std::string, int>;
  using Change = std::vector<std::pair<std::string, int>>;  // names and what they are of; -1: nothing
  struct Write {
    uint64_t offset;
    std::string data;
  };
  struct Inode {
    bool folder = false;
    std::string content = {};  // flushed
    std::vector<Write> writes = {};
    Names names = {};  // flushed
    std::vector<Change> changes = {};
  };
  // A choice for every inode whose state is open, and what it makes of the tree.
  struct Walk;

  int add(bool folder);
  int find(const std::string& path) const;
  std::pair<int, std::string> parent_of(const std::string& path) const;
  std::vector<Names> possible_names(const Inode& inode) const;
  std::vector<std::string> possible_contents(const Inode& inode) const;
  static Names current_names(const Inode& inode);

  std::vector<Inode> inodes_;  // the first one is the folder
};

void make_tree(const FileTree& tree, const std::string& folder);

}  // namespace recollect::test
