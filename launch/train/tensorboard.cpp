#include "launch/train/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/io/crc32c.h"
#include "engine/io/node.h"

namespace recollect {

namespace {

// The wire format of protocol buffers: a field is its key, number x 8 + kind, and its value.
enum class Kind { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Message Event of TensorBoard, its Summary, the Summary's Value, and its SessionLog.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SessionLogField { kStatus = 1 };
constexpr uint64_t kStart = 1;  // a status
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2 };

template <typename Word>
void put_fixed(std::string& out, Word word) {  // little-endian
  for (std::size_t i = 0; i < sizeof word; ++i) out += static_cast<char>(word >> (8 * i));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, int field, Kind kind) {
  put_varint(out, uint64_t{8} * static_cast<uint64_t>(field) + static_cast<uint64_t>(kind));
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, Kind::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Values beyond the range of float become infinite.
float to_float(double value) {
  if (std::abs(value) > std::numeric_limits<float>::max())
    return static_cast<float>(std::copysign(std::numeric_limits<double>::infinity(), value));
  return static_cast<float>(value);
}

// Record files mask their check sums, because a sum over bytes that contain sums is weak.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

// The name of this node as a part of a file name.
std::string host_in_file_name() {
  std::string text = host_name();
  std::replace(text.begin(), text.end(), '/', '_');
  return text.empty() ? "localhost" : text;
}

[[noreturn]] void storage_error(const std::string& what, int error_number) {
  throw Error(ExitCode::kStorage, what + ": " + std::strerror(error_number),
              "logging.tensorboard_dir must be a folder that can be made and written");
}

}  // namespace

EventFile::EventFile(const std::string& folder, int64_t steps_done) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) storage_error("cannot make the folder " + folder, error.value());
  const std::string stem = fmt::format("{}/events.out.tfevents.{:010}.{}.{}", folder,
                                       static_cast<int64_t>(now()), host_in_file_name(), ::getpid());
  for (int number = 0; descriptor_ < 0; ++number) {
    path_ = fmt::format("{}.{}", stem, number);
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) storage_error("cannot create " + path_, errno);
  }
  constexpr std::size_t kUsual = 2048;  // more bytes than a step's record
  for (std::string* text : {&event_, &value_, &summary_, &record_}) text->reserve(kUsual);
  if (begin(steps_done)) return;
  const int reason = errno;
  ::close(descriptor_);
  storage_error("cannot write " + path_, reason);
}

bool EventFile::begin(int64_t steps_done) {
  begin_event(0);
  put_bytes(event_, kFileVersion, "brain.Event:2");
  if (!write_record()) return false;
  if (steps_done == 0 && !has_others()) return true;
  begin_event(steps_done + 1);
  value_.clear();
  put_key(value_, kStatus, Kind::kVarint);
  put_varint(value_, kStart);
  put_bytes(event_, kSessionLog, value_);
  return write_record();
}

// Whether there are event files of an earlier run, whose steps must not be shown beside this run's.
bool EventFile::has_others() const {
  const std::filesystem::path own(path_);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(own.parent_path(), error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path() != own && entry->path().filename().string().find("tfevents") != std::string::npos)
      return true;
  return false;
}

void EventFile::flush() const noexcept { ::fdatasync(descriptor_); }

EventFile::~EventFile() { ::close(descriptor_); }

bool EventFile::write(int64_t step, std::span<const Scalar> scalars) {
  summary_.clear();
  for (const Scalar& scalar : scalars) {
    value_.clear();
    put_bytes(value_, kTag, scalar.tag);
    put_key(value_, kSimpleValue, Kind::kFixed32);
    put_fixed(value_, std::bit_cast<uint32_t>(to_float(scalar.value)));
    put_bytes(summary_, kValue, value_);
  }
  begin_event(step);
  put_bytes(event_, kSummary, summary_);
  return write_record();
}

// Begins an Event with its time and step.
void EventFile::begin_event(int64_t step) {
  event_.clear();
  put_key(event_, kWallTime, Kind::kFixed64);
  put_fixed(event_, std::bit_cast<uint64_t>(now()));
  put_key(event_, kStep, Kind::kVarint);
  put_varint(event_, static_cast<uint64_t>(step));
}

bool EventFile::write_record() {
  record_.clear();
  put_fixed(record_, static_cast<uint64_t>(event_.size()));
  put_fixed(record_, masked_crc(record_));
  record_ += event_;
  put_fixed(record_, masked_crc(event_));
  for (std::string_view rest = record_; !rest.empty();) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace recollect
