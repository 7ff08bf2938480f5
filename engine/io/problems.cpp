#include "engine/io/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "engine/core/error.h"
#include "engine/core/printable.h"

namespace recollect {

void Problems::add(const Place& place, const std::string& message) {
  ++count_;
  if (full()) return;
  const int line = place.line > 0 ? place.line : std::numeric_limits<int>::max();
  entries_.push_back({line, place.column, printable(fmt::format("{}: {}", place.text, message))});
}

void Problems::append(const Problems& others) {
  for (const Entry& entry : others.entries_) {
    if (!full()) entries_.push_back(entry);
  }
  count_ += others.count_;
}

std::string Problems::text() const {
  std::vector<Entry> sorted = entries_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  std::string joined;
  for (const Entry& entry : sorted) joined += (joined.empty() ? "" : "\n") + entry.text;
  if (count_ > entries_.size()) joined += fmt::format("\n... and {} more", count_ - entries_.size());
  return joined;
}

void Problems::raise(const std::string& hint) const {
  if (!empty()) throw Error(ExitCode::kConfiguration, text(), hint);
}

}  // namespace recollect
