#include "tests/parallel/crash_states.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <set>

#include "engine/core/error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOrdered = 4,
                      kMostChosen = 7;  // changes of which all orders, all subsets are tried
constexpr int kRandomSubsets = 64;

void set(std::map<std::string, int>& names, const std::vector<std::pair<std::string, int>>& change) {
  for (const auto& [name, inode] : change)
    if (inode < 0)
      names.erase(name);
    else
      names[name] = inode;
}

void write_at(std::string& content, uint64_t offset, const std::string& data) {
  if (content.size() < offset + data.size()) content.resize(offset + data.size());
  content.replace(offset, data.size(), data);
}

// Subsets of so many things, each in ascending order: all, or where there are many those with few or with few missing.
std::vector<std::vector<std::size_t>> subsets(std::size_t count) {
  std::vector<std::vector<std::size_t>> all;
  const auto add = [&](const auto& takes) {
    std::vector<std::size_t> subset;
    for (std::size_t i = 0; i < count; ++i)
      if (takes(i)) subset.push_back(i);
    all.push_back(std::move(subset));
  };
  if (count <= kMostChosen) {
    for (std::size_t bits = 0; bits < std::size_t{1} << count; ++bits)
      add([&](std::size_t i) { return (bits >> i & 1) != 0; });
    return all;
  }
  for (std::size_t end = 0; end <= count; ++end) {
    add([&](std::size_t i) { return i < end; });
    add([&](std::size_t i) { return i >= end; });
    add([&](std::size_t i) { return i == end; });
    add([&](std::size_t i) { return i != end; });
  }
  std::mt19937 random(static_cast<unsigned>(count));
  for (int n = 0; n < kRandomSubsets; ++n) add([&](std::size_t) { return random() % 2 == 0; });
  return all;
}

}  // namespace

CrashStates::CrashStates(const std::string& folder) {
  add(true);
  std::set<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    paths.insert(fs::relative(entry.path(), folder).string());
  for (const std::string& path : paths) {
    const auto [parent, name] = parent_of(path);
    const bool is_folder = fs::is_directory(folder + "/" + path);
    const int inode = add(is_folder);
    if (!is_folder) inodes_[inode].content = TemporaryFolder::read(folder + "/" + path);
    inodes_[parent].names[name] = inode;
  }
}

int CrashStates::add(bool folder) {
  inodes_.push_back({.folder = folder});
  return static_cast<int>(inodes_.size()) - 1;
}

CrashStates::Names CrashStates::current_names(const Inode& inode) {
  Names names = inode.names;
  for (const Change& change : inode.changes) set(names, change);
  return names;
}

// -1 where there is none now.
int CrashStates::find(const std::string& path) const {
  int at = 0;
  for (const fs::path& name : fs::path(path)) {
    const Names names = current_names(inodes_[at]);
    const auto found = names.find(name.string());
    if (found == names.end()) return -1;
    at = found->second;
  }
  return at;
}

std::pair<int, std::string> CrashStates::parent_of(const std::string& path) const {
  const fs::path p(path);
  const int parent = find(p.parent_path().string());
  require(parent >= 0, "no folder for " + path);
  return {parent, p.filename().string()};
}

void CrashStates::apply(const FileCall& call) {
  if (call.failed) return;
  const std::string& what = call.function;
  const bool makes = what == "mkdir" || ((what == "open" || what == "openat") && call.creates);
  if (makes && find(call.path) < 0) {
    const auto [parent, name] = parent_of(call.path);
    const int inode = add(what == "mkdir");
    inodes_[parent].changes.push_back({{name, inode}});
  } else if (what == "pwrite" || what == "posix_fallocate") {
    Inode& file = inodes_.at(static_cast<std::size_t>(find(call.path)));
    if (what == "pwrite")
      file.writes.push_back({call.offset, call.data});
    else
      file.writes.push_back({0, std::string(call.offset + call.bytes, '\0')});  // a new file's only
  } else if (what == "fsync") {
    Inode& inode = inodes_.at(static_cast<std::size_t>(find(call.path)));
    inode.names = current_names(inode);
    inode.changes.clear();
    for (const Write& w : inode.writes) write_at(inode.content, w.offset, w.data);
    inode.writes.clear();
  } else if (what == "rename" || what == "renameat2") {
    const auto [parent, from] = parent_of(call.path);
    const auto [other, to] = parent_of(call.to);
    require(parent == other, "a rename into another folder");
    inodes_[parent].changes.push_back({{from, call.exchanges ? find(call.to) : -1}, {to, find(call.path)}});
  } else if (what == "unlink" || what == "unlinkat" || what == "rmdir") {
    const auto [parent, name] = parent_of(call.path);
    inodes_[parent].changes.push_back({{name, -1}});
  } else {
    require(what != "ftruncate", "a file is cut");
  }
}

std::vector<CrashStates::Names> CrashStates::possible_names(const Inode& inode) const {
  std::set<Names> all;
  for (std::vector<std::size_t> order : subsets(inode.changes.size())) {
    do {
      Names names = inode.names;
      for (const std::size_t i : order) set(names, inode.changes[i]);
      std::map<int, int> named;
      bool possible = true;
      for (const auto& [name, of] : names) possible &= !inodes_[of].folder || ++named[of] == 1;
      if (possible) all.insert(std::move(names));
    } while (inode.changes.size() <= kMostOrdered && std::next_permutation(order.begin(), order.end()));
  }
  return {all.begin(), all.end()};
}

std::vector<std::string> CrashStates::possible_contents(const Inode& inode) const {
  std::set<std::string> all;
  for (const std::vector<std::size_t>& subset : subsets(inode.writes.size())) {
    std::string content = inode.content;
    for (const std::size_t i : subset) {
      const Write& w = inode.writes[i];
      if (i == subset.back()) {
        std::string half = content;
        write_at(half, w.offset, w.data.substr(0, w.data.size() / 2));
        all.insert(std::move(half));
      }
      write_at(content, w.offset, w.data);
    }
    all.insert(std::move(content));
  }
  return {all.begin(), all.end()};
}

// Folder by folder: those that are still to be gone through, and what is found so far.
struct CrashStates::Walk {
  const CrashStates& states;
  const std::function<bool(const std::string&)>& matters;
  const std::function<void(const FileTree&)>& visit;

  struct Entry {
    std::string path;
    int inode;
    bool varies;
  };

  void go(std::vector<Entry> left, const FileTree& tree) const {
    if (left.empty()) return visit(tree);
    const Entry entry = left.back();
    left.pop_back();
    const Inode& inode = states.inodes_[entry.inode];
    if (!inode.folder) {
      for (const std::string& content :
           entry.varies ? states.possible_contents(inode) : std::vector{everything(inode)}) {
        FileTree with = tree;
        with[entry.path] = content;
        go(left, with);
      }
      return;
    }
    for (const Names& names :
         entry.varies ? states.possible_names(inode) : std::vector{current_names(inode)}) {
      FileTree with = tree;
      if (!entry.path.empty()) with[entry.path + "/"] = "";
      std::vector<Entry> more = left;
      for (const auto& [name, of] : names)
        more.push_back({entry.path.empty() ? name : entry.path + "/" + name, of,
                        entry.varies && (!states.inodes_[of].folder || matters(name))});
      go(more, with);
    }
  }
  static std::string everything(const Inode& inode) {
    std::string content = inode.content;
    for (const Write& w : inode.writes) write_at(content, w.offset, w.data);
    return content;
  }
};

void CrashStates::each(const std::function<bool(const std::string& name)>& matters,
                       const std::function<void(const FileTree&)>& visit) const {
  Walk{*this, matters, visit}.go({{"", 0, true}}, {});
}

void make_tree(const FileTree& tree, const std::string& folder) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& [path, content] : tree)
    if (path.ends_with('/'))
      fs::create_directories(folder + "/" + path);
    else
      std::ofstream(folder + "/" + path, std::ios::binary) << content;
}

}  // namespace recollect::test
