// Event files hold what metrics.jsonl holds: read back here by a reader written for the test, and by
// TensorBoard's own where Python has it.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <limits>

#include "engine/io/crc32c.h"
#include "launch/train/tensorboard.h"
#include "tests/launch/process.h"
#include "tests/launch/python.h"

namespace recollect::test::tensorboard_test {
namespace {

using nlohmann::json;

namespace fs = std::filesystem;

// By the definition, bit for bit: the remainder of a division of polynomials, bits in the order of
// transmission.
uint32_t slow_crc32c(std::string_view bytes) {
  uint32_t remainder = 0xffffffff;
  for (const char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool odd = ((remainder ^ (static_cast<unsigned char>(c) >> bit)) & 1) != 0;
      remainder = (remainder >> 1) ^ (odd ? 0x82f63b78u : 0);
    }
  return ~remainder;
}

TEST(Crc32c, IsThatOfTheStandard) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);    // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);  // likewise
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    text += static_cast<char>(i * i);
    EXPECT_EQ(crc32c(text), slow_crc32c(text));
    EXPECT_EQ(crc32c(std::string_view(text).substr(text.size() / 3),
                     crc32c(std::string_view(text).substr(0, text.size() / 3))),
              crc32c(text));
  }
}

struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::string version;
  bool starts_session = false;
  std::map<std::string, float> scalars;
};

// Takes a message apart: (field, kind) and the field's bytes, or its varint as eight bytes.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    field = static_cast<int>(key / 8);
    kind = static_cast<int>(key % 8);
    number = kind == 0 ? varint() : 0;
    bytes = take(kind == 0 ? 0 : kind == 1 ? 8 : kind == 5 ? 4 : varint());
    return true;
  }
  int field = 0, kind = 0;
  uint64_t number = 0;
  std::string_view bytes;

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view take(std::size_t count) {
    if (count > rest_.size()) throw std::runtime_error("a message ends early");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::string_view rest_;
};

template <typename T>
T as(std::string_view bytes) {
  T value{};
  EXPECT_EQ(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

void read_summary(std::string_view message, Event& event) {
  for (Fields values(message); values.next();) {
    EXPECT_EQ(values.field, 1);
    std::string tag;
    float simple = 0;
    for (Fields value(values.bytes); value.next();) {
      if (value.field == 1) tag = value.bytes;
      if (value.field == 2) simple = as<float>(value.bytes);
    }
    EXPECT_TRUE(event.scalars.emplace(tag, simple).second) << tag;
  }
}

Event read_event(std::string_view message) {
  Event event;
  for (Fields fields(message); fields.next();) {
    if (fields.field == 1) event.wall_time = as<double>(fields.bytes);
    if (fields.field == 2) event.step = static_cast<int64_t>(fields.number);
    if (fields.field == 3) event.version = fields.bytes;
    if (fields.field == 5) read_summary(fields.bytes, event);
    if (fields.field == 7)
      event.starts_session = fields.bytes == std::string_view("\x08\x01");  // status: START
  }
  return event;
}

uint32_t masked(std::string_view bytes) {
  const uint32_t crc = slow_crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

// All whole records; the sums must be right.
std::vector<Event> read_events(const std::string& path) {
  const std::string bytes = test::TemporaryFolder::read(path);
  std::vector<Event> events;
  for (std::string_view rest = bytes; rest.size() >= 12;) {
    const auto length = as<uint64_t>(rest.substr(0, 8));
    EXPECT_EQ(as<uint32_t>(rest.substr(8, 4)), masked(rest.substr(0, 8)));
    if (rest.size() < length + 16) break;
    EXPECT_EQ(as<uint32_t>(rest.substr(12 + length, 4)), masked(rest.substr(12, length)));
    events.push_back(read_event(rest.substr(12, length)));
    rest.remove_prefix(length + 16);
  }
  return events;
}

std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> found;
  if (fs::exists(folder))
    for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
  return found;
}

// metrics.jsonl as TensorBoard would have it: tag -> [[step, value as float]].
json expected_scalars(const std::vector<json>& metrics) {
  json scalars;
  for (const json& line : metrics)
    for (const auto& [key, value] : line.items())
      if (key != "step" && value.is_number())
        scalars[key].push_back({line.at("step"), static_cast<float>(value.get<double>())});
  return scalars;
}

const Words kBoth = {"training.max_steps=4", "evaluation.every_steps=2", "evaluation.batches=1",
                     "logging.report_to=[jsonl,tensorboard]"};

// Values that a clock decides are printed with fewer digits in metrics.jsonl.
void expect_equal(const json& found, const json& expected) {
  ASSERT_EQ(found.size(), expected.size()) << found << expected;
  for (const auto& [tag, points] : expected.items()) {
    ASSERT_TRUE(found.contains(tag)) << tag;
    ASSERT_EQ(found[tag].size(), points.size()) << tag;
    for (std::size_t i = 0; i < points.size(); ++i) {
      EXPECT_EQ(found[tag][i][0], points[i][0]) << tag;
      const double value = points[i][1];
      EXPECT_NEAR(found[tag][i][1].get<double>(), value, 1e-5 * std::abs(value)) << tag;
      if (tag == "loss" || tag == "eval_loss" || tag == "grad_norm") {
        EXPECT_EQ(found[tag][i][1].get<float>(), points[i][1].get<float>()) << tag;
      }
    }
  }
}

TEST(TensorBoard, EventsAreTheMetrics) {
  const Workplace place;
  const double before = static_cast<double>(std::time(nullptr));
  const Finished finished = place.train(kBoth);
  ASSERT_EQ(finished.status, 0) << finished.err;
  const std::vector<std::string> files = event_files(place.file("out/tensorboard"));
  ASSERT_EQ(files.size(), 1u);
  EXPECT_TRUE(fs::path(files[0]).filename().string().starts_with("events.out.tfevents.")) << files[0];
  const std::vector<Event> events = read_events(files[0]);
  ASSERT_EQ(events.size(), 1u + 4 + 2);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  json found;
  for (const Event& event : events) {
    EXPECT_GE(event.wall_time, before);
    EXPECT_LE(event.wall_time, static_cast<double>(std::time(nullptr)) + 1);
    for (const auto& [tag, value] : event.scalars) found[tag].push_back({event.step, value});
  }
  const json expected = expected_scalars(place.metrics());
  for (const char* tag : {"loss", "grad_norm", "learning_rate", "tokens_per_second", "device_memory"})
    EXPECT_EQ(expected.at(tag).size(), 4u) << tag;
  EXPECT_EQ(expected.at("eval_loss").size(), 2u);
  expect_equal(found, expected);
}

TEST(TensorBoard, ItsOwnReaderAgrees) {
  const std::string python = python_with("tensorboard.backend.event_processing.event_accumulator");
  if (python.empty()) GTEST_SKIP() << "no python3 here has tensorboard";
  const Workplace place;
  ASSERT_EQ(place.train(kBoth).status, 0);
  const Finished read =
      Process({python, RECOLLECT_SOURCE_DIR "/tests/launch/read_events.py", "out/tensorboard"},
              place.folder().path())
          .wait(Workplace::kBound);
  ASSERT_EQ(read.status, 0) << read.err;
  expect_equal(json::parse(read.out), expected_scalars(place.metrics()));
}

// A file for each start, without a gap and without a step that is there twice.
TEST(TensorBoard, OfAResumedRunGoesOn) {
  const Workplace place;
  const Words saves = {"snapshot.every_steps=2", "evaluation.every_steps=2", "evaluation.batches=1",
                       "logging.report_to=[jsonl,tensorboard]"};
  ASSERT_EQ(place.train(saves + Words{"training.max_steps=2"}).status, 0);
  const std::vector<std::string> first = event_files(place.file("out/tensorboard"));
  ASSERT_EQ(place.train(saves + Words{"training.max_steps=6"}).status, 0);
  std::vector<std::string> files = event_files(place.file("out/tensorboard"));
  ASSERT_EQ(files.size(), 2u);
  if (files[1] == first[0]) std::swap(files[0], files[1]);
  json found;
  for (const std::string& file : files)
    for (const Event& event : read_events(file))
      for (const auto& [tag, value] : event.scalars) found[tag].push_back({event.step, value});
  const json expected = expected_scalars(place.metrics());
  EXPECT_EQ(expected.at("loss").size(), 6u);
  expect_equal(found, expected);
}

TEST(TensorBoard, OnlyWhatIsAskedForIsWritten) {
  const Workplace place;
  ASSERT_EQ(place.train({"logging.report_to=tensorboard", "logging.tensorboard_dir=boards/a"}).status, 0);
  EXPECT_FALSE(fs::exists(place.file("out/metrics.jsonl")));
  EXPECT_FALSE(fs::exists(place.file("out/tensorboard")));
  // A second run adds its own file and leaves the first one alone.
  const std::vector<std::string> first = event_files(place.file("boards/a"));
  ASSERT_EQ(first.size(), 1u);
  const std::string content = test::TemporaryFolder::read(first[0]);
  ASSERT_EQ(place.train({"logging.report_to=tensorboard", "logging.tensorboard_dir=boards/a"}).status, 0);
  EXPECT_EQ(event_files(place.file("boards/a")).size(), 2u);
  EXPECT_EQ(test::TemporaryFolder::read(first[0]), content);
  ASSERT_EQ(place.train({"logging.report_to=[]", "output_dir=silent"}).status, 0);
  EXPECT_FALSE(fs::exists(place.file("silent/metrics.jsonl")));
  EXPECT_FALSE(fs::exists(place.file("silent/tensorboard")));
}

TEST(TensorBoard, RefusesWhatHasNoMeaningOrNoPlace) {
  const Workplace place;
  const Finished unknown = place.train({"logging.report_to=[jsonl,tensorbord]"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(
      unknown.err.find("'tensorbord' is none of jsonl, tensorboard, mlflow; did you mean 'tensorboard'?"),
      std::string::npos)
      << unknown.err;
  const Finished inert = place.train({"logging.tensorboard_dir=a"});
  EXPECT_EQ(inert.status, 2);
  EXPECT_NE(inert.err.find("logging.tensorboard_dir has no effect"), std::string::npos) << inert.err;
  const Finished nowhere = place.train({"logging.report_to=tensorboard", "logging.tensorboard_dir=c.yaml/a"});
  EXPECT_EQ(nowhere.status, 6);
  EXPECT_NE(nowhere.err.find("cannot make the folder c.yaml/a"), std::string::npos) << nowhere.err;
}

// By which TensorBoard drops what an earlier file has of these steps and later ones.
TEST(EventFile, OfAResumedRunBeginsASessionBehindTheStepsThatCount) {
  const TemporaryFolder folder;
  const EventFile first(folder.file("first")), resumed(folder.file("resumed"), 41);
  EXPECT_EQ(read_events(first.path()).size(), 1u);
  const std::vector<Event> events = read_events(resumed.path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_TRUE(events[1].starts_session);
  EXPECT_EQ(events[1].step, 42);
}

// So where a run begins again in the same folder: what the earlier one left there is not shown beside it.
TEST(EventFile, OfASecondRunBeginsASessionAtItsFirstStep) {
  const TemporaryFolder folder;
  const EventFile first(folder.path()), second(folder.path());
  EXPECT_EQ(read_events(first.path()).size(), 1u);
  const std::vector<Event> events = read_events(second.path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(events[1].starts_session);
  EXPECT_EQ(events[1].step, 1);
}

TEST(EventFile, IsReadWhileItIsWritten) {
  const test::TemporaryFolder folder;
  EventFile file(folder.file("a/b"));
  for (int step = 1; step <= 3; ++step) {
    ASSERT_TRUE(file.write(step, std::array{Scalar{"x", 0.5 * step}, Scalar{"y/z", -1e300}}));
    const std::vector<Event> events = read_events(file.path());  // while the file is open
    ASSERT_EQ(events.size(), 1u + step);
    EXPECT_EQ(events.back().step, step);
    EXPECT_EQ(events.back().scalars.at("x"), 0.5f * static_cast<float>(step));
    EXPECT_EQ(events.back().scalars.at("y/z"), -std::numeric_limits<float>::infinity());
  }
  EventFile second(folder.file("a/b"));  // in the same second, of the same process
  EXPECT_NE(second.path(), file.path());
  EXPECT_EQ(read_events(second.path()).size(), 2u);
}

}  // namespace
}  // namespace recollect::test::tensorboard_test
