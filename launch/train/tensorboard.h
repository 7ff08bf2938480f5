// Writes scalars for TensorBoard to an event file: a sequence of records, each a protocol buffer between two
// check sums. Each record is one write, so that a reader during the training finds whole records. A file that
// ends with an incomplete record (a full disk, a crash) is read up to it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace recollect {

struct Scalar {
  std::string_view tag;
  double value = 0;  // TensorBoard keeps 24 bits of it
};

class EventFile {
 public:
  // Creates a new file in `folder`, which is created if necessary. Events after `steps_done` steps in earlier
  // files no longer count. Throws kStorage.
  explicit EventFile(const std::string& folder, int64_t steps_done = 0);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Writes one event with all scalars. Returns false and sets errno if it cannot be written.
  bool write(int64_t step, std::span<const Scalar> scalars);
  void flush() const noexcept;  // any thread may call it
  const std::string& path() const { return path_; }

 private:
  void begin_event(int64_t step);
  bool begin(int64_t steps_done);
  bool has_others() const;
  bool write_record();

  std::string path_;
  std::string event_, value_, summary_, record_;  // buffers that keep their memory
  int descriptor_ = -1;
};

}  // namespace recollect
