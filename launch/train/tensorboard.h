// Scalars as TensorBoard reads them: an event file, which is a sequence of records, each a protocol buffer
// between two check sums. A record reaches the file in one write, so that whoever reads while training goes
// on finds whole records; a file that ends in half of one (a full disk, a crash) is read up to there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace recollect {

struct Scalar {
  std::string_view tag;
  double value = 0;  // TensorBoard's scalars have 24 bits of it
};

class EventFile {
 public:
  // A new file in `folder`, which is made where it is missing. Behind `steps_done` steps, events of later steps in
  // earlier files no longer count. Error kStorage.
  explicit EventFile(const std::string& folder, int64_t steps_done = 0);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // One event with all of these. False, and errno, where it cannot be written.
  bool write(int64_t step, std::span<const Scalar> scalars);
  void flush() const noexcept;  // from any thread
  const std::string& path() const { return path_; }

 private:
  void begin_event(int64_t step);
  bool begin(int64_t steps_done);
  bool has_others() const;
  bool write_record();

  std::string path_;
  std::string event_, value_, summary_, record_;  // keep their memory from step to step
  int descriptor_ = -1;
};

}  // namespace recollect
