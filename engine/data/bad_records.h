// Records of files that nothing can be trained on: passed over, counted and told, or an error. What is passed over follows
// from the files and the choice alone, so that every rank, and every run that goes on, has the same samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/spelled.h"

namespace recollect {

// skip_blank: lines without anything and texts without tokens are passed over; what is damaged is an error.
// error:      both are errors. skip: both are passed over.
enum class OnBadRecord { kSkipBlank, kError, kSkip };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<OnBadRecord> = {"skip_blank", "error", "skip"};

// A record that holds nothing.
class BlankRecord : public Error {
 public:
  explicit BlankRecord(const std::string& what, std::string hint = {})
      : Error(ExitCode::kInput, what, std::move(hint)) {}
};

class BadRecords {
 public:
  explicit BadRecords(OnBadRecord choice = OnBadRecord::kSkipBlank) : choice_(choice) {}

  OnBadRecord choice() const { return choice_; }
  // Whether the record that this is the error of is passed over; it is counted then. Otherwise the error must go on.
  bool passes_over(const Error& error);
  // What another has counted that saw later records.
  void append(const BadRecords& later);

  int64_t count() const { return blank_ + damaged_; }
  // A sentence for each kind that was met, with the first record of it.
  std::vector<std::string> remarks() const;
  // Error kInput: of a file, or several, whose records are all of them bad.
  [[noreturn]] void fail_for_all(const std::string& files) const;

 private:
  OnBadRecord choice_;
  int64_t blank_ = 0, damaged_ = 0;
  std::string first_blank_, first_damaged_;  // what is wrong, with file and line
};

}  // namespace recollect
