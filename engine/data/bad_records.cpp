#include "engine/data/bad_records.h"

#include <fmt/format.h>

namespace recollect {

namespace {

std::string records(int64_t count) { return fmt::format("{} {}", count, count == 1 ? "record" : "records"); }

}  // namespace

bool BadRecords::passes_over(const Error& error) {
  if (error.code() != ExitCode::kInput || choice_ == OnBadRecord::kError) return false;
  const bool blank = dynamic_cast<const BlankRecord*>(&error) != nullptr;
  if (!blank && choice_ != OnBadRecord::kSkip) return false;
  std::string& first = blank ? first_blank_ : first_damaged_;
  if (first.empty()) first = error.what();
  ++(blank ? blank_ : damaged_);
  return true;
}

void BadRecords::append(const BadRecords& later) {
  blank_ += later.blank_;
  damaged_ += later.damaged_;
  if (first_blank_.empty()) first_blank_ = later.first_blank_;
  if (first_damaged_.empty()) first_damaged_ = later.first_damaged_;
}

std::vector<std::string> BadRecords::remarks() const {
  std::vector<std::string> remarks;
  if (blank_ > 0)
    remarks.push_back(
        fmt::format("{} without text passed over, the first: {}", records(blank_), first_blank_));
  if (damaged_ > 0)
    remarks.push_back(fmt::format("{} passed over that {} damaged, the first: {}", records(damaged_),
                                  damaged_ == 1 ? "is" : "are", first_damaged_));
  return remarks;
}

void BadRecords::fail_for_all(const std::string& files) const {
  throw Error(ExitCode::kInput,
              fmt::format("{}: there is not a single record to train on; {} passed over, the first: {}",
                          files, records(count()), blank_ > 0 ? first_blank_ : first_damaged_),
              "data.on_bad_record: error stops at the first of them");
}

}  // namespace recollect
