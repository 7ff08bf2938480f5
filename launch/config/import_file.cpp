#include "launch/config/import_file.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>

namespace recollect {

namespace {

bool is_inside(std::string_view path, std::string_view section) {
  return path.size() > section.size() && path.starts_with(section) && path[section.size()] == '.';
}

}  // namespace

std::optional<double> number_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::string decimal_text(double value) { return fmt::format("{:.15g}", value); }

std::vector<std::string> entries_of_list(std::string_view list) {
  if (!list.starts_with('[')) return {std::string(list)};
  std::vector<std::string> entries;
  std::istringstream inside(std::string(list.substr(1, list.size() - 2)));
  for (std::string entry; std::getline(inside, entry, ',');) {
    entry.erase(0, entry.find_first_not_of(' '));
    entries.push_back(entry);
  }
  return entries;
}

ForeignFile::ForeignFile(const YamlNode& root, std::vector<ForeignLeaf> leaves)
    : root_(&root), leaves_(std::move(leaves)) {}

const ForeignLeaf* ForeignFile::find(std::string_view path) const {
  for (const std::vector<ForeignLeaf>* of : {&leaves_, &settled_})
    for (const ForeignLeaf& leaf : *of)
      if (leaf.path == path) return &leaf;
  return nullptr;
}

std::string ForeignFile::value(std::string_view path, std::string_view otherwise) const {
  const ForeignLeaf* leaf = find(path);
  return leaf && leaf->value ? *leaf->value : std::string(otherwise);
}

double ForeignFile::number(std::string_view path, double otherwise) const {
  return number_of(value(path)).value_or(otherwise);
}

std::vector<ForeignLeaf> ForeignFile::inside(std::string_view section) const {
  std::vector<ForeignLeaf> found;
  std::copy_if(leaves_.begin(), leaves_.end(), std::back_inserter(found),
               [&](const ForeignLeaf& leaf) { return is_inside(leaf.path, section); });
  return found;
}

void ForeignFile::settle(std::string_view path) {
  const auto found = std::find_if(leaves_.begin(), leaves_.end(),
                                  [&](const ForeignLeaf& leaf) { return leaf.path == path; });
  if (found == leaves_.end()) return;
  settled_.push_back(*found);
  leaves_.erase(found);
}

void ForeignFile::settle_inside(std::string_view section) {
  for (const ForeignLeaf& leaf : inside(section)) settle(leaf.path);
}

void ForeignFile::rename(std::string_view path, std::string_view name) {
  for (ForeignLeaf& leaf : leaves_)
    if (leaf.path == path && !has(name)) {
      leaf.name = leaf.path;
      leaf.path = name;
      return;
    }
}

void ForeignFile::add(std::string path, std::string value) {
  if (!has(path)) leaves_.push_back({std::move(path), std::move(value), true});
}

void ForeignFile::write(std::string_view path, std::string ours, std::string value, std::string remark) {
  const ForeignLeaf* leaf = find(path);
  writes_.push_back({std::move(ours),
                     std::move(value),
                     leaf ? leaf->shown() : "",
                     std::move(remark),
                     !leaf || leaf->unset,
                     {}});
  settle(path);
}

void ForeignFile::write_if_taken(std::string_view path, std::string ours, std::string value,
                                 std::string refused) {
  write(path, std::move(ours), std::move(value));
  writes_.back().refused = std::move(refused);
}

void ForeignFile::write_default(std::string ours, std::string value, std::string remark) {
  writes_.push_back({std::move(ours), std::move(value), "", std::move(remark), true, {}});
}

void ForeignFile::leave_out(std::string_view path, std::string why) {
  for (const ForeignLeaf& leaf : leaves_)
    if (leaf.path == path && !leaf.unset) note(leaf.shown(), std::move(why));
  settle(path);
}

}  // namespace recollect
