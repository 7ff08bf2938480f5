// Writing: what comes out reads back exactly, and a failure leaves the old file and nothing else.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "engine/io/input_file.h"
#include "engine/io/safetensors.h"
#include "engine/io/safetensors_writer.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect {
namespace {

using test::expect_error;
using test::TemporaryFolder;

std::vector<float> counting(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), -3.0f);
  return values;
}

TEST(SafetensorsWriter, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.file("model.safetensors");
  const std::vector<float> values = counting(12);
  const std::vector<int64_t> ids = {1, -1};
  SafetensorsWriter writer(path);
  writer.declare("byte", DType::kU8, {1});
  writer.declare("bf16", DType::kBF16, {3, 4});
  writer.declare("f16", DType::kF16, {12});
  writer.declare("f32 \"quoted\" \xC3\xA9", DType::kF32, {3, 2, 2});
  writer.declare("f64", DType::kF64, {3, 4});
  writer.declare("ids", DType::kI64, {2});
  writer.declare("none", DType::kF32, {0, 4});
  writer.declare("scalar", DType::kF32, {});
  writer.write_converted("f64", values.data(), values.size());  // not the declared order
  writer.write("byte", std::as_bytes(std::span("x", 1)));
  writer.write("ids", std::as_bytes(std::span(ids)));
  for (std::size_t i = 0; i < values.size(); i += 4) {  // in pieces, two tensors interleaved
    writer.write_converted("bf16", values.data() + i, 4);
    writer.write_converted("f16", values.data() + i, 4);
  }
  writer.write_converted("f32 \"quoted\" \xC3\xA9", values.data(), values.size());
  writer.write_converted("scalar", values.data(), 1);
  EXPECT_FALSE(std::filesystem::exists(path)) << "the name must appear only at finish()";
  writer.finish();
  EXPECT_EQ(folder.count(), 1u);

  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file.entries().size(), 8u);
  for (const TensorEntry& entry : file.entries())
    EXPECT_EQ(entry.offset % size_of(*entry.dtype), 0u) << entry.name;
  for (const char* name : {"bf16", "f16", "f32 \"quoted\" \xC3\xA9", "f64"}) {
    std::vector<float> back(12), last_row(4);
    file.read_as(file.at(name), back.data());
    EXPECT_EQ(back, values) << name;
  }
  std::vector<float> last_row(4);
  file.read_as(file.at("f64"), last_row.data(), 2, 1);
  EXPECT_EQ(last_row, (std::vector<float>{5, 6, 7, 8}));
  const std::string whole = TemporaryFolder::read(path);
  EXPECT_EQ(std::memcmp(whole.data() + file.at("ids").offset, ids.data(), 16), 0);
  EXPECT_EQ(file.at("none").elements(), 0);
}

TEST(SafetensorsWriter, ManyBytesAreSeveralFilesAndAnIndex) {
  const TemporaryFolder folder;
  const auto save = [&](uint64_t most, float first) {
    SafetensorsWriter writer(folder.file("model.safetensors"));
    writer.split_at(most);
    for (const auto& [name, size] : {std::pair("a", 8), {"b", 8}, {"large", 20}, {"last", 1}})
      writer.declare(name, DType::kF32, {size});
    for (const auto& [name, size] : {std::pair("last", 1), {"a", 8}, {"large", 20}, {"b", 8}}) {
      const std::vector<float> values(static_cast<std::size_t>(size), first++);
      writer.write(name, std::as_bytes(std::span(values)));
    }
    writer.finish();
  };
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  };
  using Names = std::vector<std::string>;
  const Names one = {"model.safetensors"},
              three = {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                       "model-00003-of-00003.safetensors", "model.safetensors.index.json"},
              four = {"model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors",
                      "model-00003-of-00004.safetensors", "model-00004-of-00004.safetensors",
                      "model.safetensors.index.json"};
  float first = 1;
  for (const auto& [most, expected] :
       {std::pair(uint64_t{64}, three), {0, one}, {63, four}, {64, three}, {148, one}}) {
    save(most, first);
    if (most == 0) {  // it does not know files of the other form
      for (const std::string& name : three) std::filesystem::remove(folder.file(name));
    }
    EXPECT_EQ(names(), expected) << most;
    const SafetensorsSet set(folder.path());
    std::vector<float> large(20), last(1);
    set.read_as("large", large.data(), 0, 20);
    set.read_as("last", last.data(), 0, 1);
    EXPECT_EQ(large, std::vector<float>(20, first + 2)) << most;
    EXPECT_EQ(last.front(), first) << most;
    ++first;
  }
  save(64, first);
  EXPECT_EQ(TemporaryFolder::read(folder.file("model.safetensors.index.json")), R"({
  "metadata": {
    "total_parameters": 37,
    "total_size": 148
  },
  "weight_map": {
    "a": "model-00001-of-00003.safetensors",
    "b": "model-00001-of-00003.safetensors",
    "large": "model-00002-of-00003.safetensors",
    "last": "model-00003-of-00003.safetensors"
  }
}
)");
}

TEST(SafetensorsWriter, LargePiecesAndAnEmptyFile) {
  const TemporaryFolder folder;
  const std::vector<float> values = counting(100'000);
  SafetensorsWriter writer(folder.file("big"));
  writer.declare("w", DType::kF64, {100'000});
  writer.write_converted("w", values.data(), values.size());
  writer.finish();
  std::vector<float> back(values.size());
  SafetensorsFile big(folder.file("big"));
  big.read_as(big.at("w"), back.data());
  EXPECT_EQ(back, values);
  SafetensorsWriter empty(folder.file("empty"), {});
  empty.finish();
  EXPECT_TRUE(SafetensorsFile(folder.file("empty")).entries().empty());
}

TEST(SafetensorsWriter, SavesOverTheFileItReadsFrom) {
  const TemporaryFolder folder;
  const std::string path = folder.file("model.safetensors");
  const std::vector<float> values = counting(5000);
  const auto save = [&](const std::vector<float>& data) {
    SafetensorsWriter writer(path);
    writer.declare("w", DType::kF32, {5000});
    writer.write_converted("w", data.data(), data.size());
    writer.finish();
  };
  save(values);
  const SafetensorsFile open(path);
  save(std::vector<float>(5000, 0.0f));
  std::vector<float> back(5000);
  open.read_as(open.at("w"), back.data());
  EXPECT_EQ(back, values) << "an open file must keep its content";
  SafetensorsFile replaced(path);
  replaced.read_as(replaced.at("w"), back.data());
  EXPECT_EQ(back, std::vector<float>(5000, 0.0f));
}

TEST(SafetensorsWriter, AbandonedOrUnfinishedLeavesNothing) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", "old");
  const float value = 1;
  {
    SafetensorsWriter writer(folder.file("model.safetensors"));
    writer.declare("w", DType::kF32, {2});
    writer.write_converted("w", &value, 1);
    EXPECT_EQ(folder.count(), 2u);
    expect_error(ExitCode::kInternal, {"\"w\"", "4 of 8 bytes"}, [&] { writer.finish(); });
  }
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_EQ(TemporaryFolder::read(folder.file("model.safetensors")), "old");
}

TEST(SafetensorsWriter, MisuseIsNamed) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder.file("a"));
  writer.declare("w", DType::kF32, {1});
  const auto internal = [](const std::string& part, auto action) {
    expect_error(ExitCode::kInternal, {part}, action);
  };
  const std::vector<float> two = {1, 2};
  internal("twice", [&] { writer.declare("w", DType::kF32, {1}); });
  internal("__metadata__", [&] { writer.declare("__metadata__", DType::kF32, {1}); });
  internal("cannot be saved", [&] { writer.declare("x", DType::kF32, {-1}); });
  internal("cannot be saved", [&] { writer.declare("x", DType::kF32, {int64_t{1} << 62, 4}); });
  internal("not declared", [&] { writer.write_converted("x", two.data(), 1); });
  internal("too many bytes", [&] { writer.write_converted("w", two.data(), 2); });
  internal("after the first write", [&] { writer.declare("y", DType::kF32, {1}); });
  SafetensorsWriter invalid(folder.file("b"));
  invalid.declare("\xff", DType::kF32, {0});
  internal("UTF-8", [&] { invalid.finish(); });
}

TEST(SafetensorsWriter, AFullDiskIsFoundBeforeTheFirstByte) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder.file("a"));
  writer.declare("w", DType::kU8, {int64_t{1} << 61});
  expect_error(ExitCode::kStorage, {folder.file("a"), "23058430092136940"},
               [&] { writer.write("w", std::as_bytes(std::span("x", 1))); });
  EXPECT_EQ(folder.count(), 0u);
  SafetensorsWriter nowhere(folder.file("missing/a"));
  expect_error(ExitCode::kStorage, {"missing/a"}, [&] { nowhere.finish(); });
  SafetensorsWriter on_folder(folder.path());
  expect_error(ExitCode::kStorage, {folder.path()}, [&] { on_folder.finish(); });
}

// In a process of its own: the limit cannot be raised again.
TEST(SafetensorsWriterDeathTest, AFileSizeLimitLeavesTheOldFile) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const TemporaryFolder folder;
  const std::string path = folder.write("model.safetensors", "old");
  const auto limited_save = [&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {64 * 1024, 64 * 1024};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      SafetensorsWriter writer(path);
      writer.declare("w", DType::kU8, {1 << 20});
      writer.write("w", std::as_bytes(std::span("x", 1)));
    } catch (const Error& error) {
      const bool clean = folder.count() == 1 && TemporaryFolder::read(path) == "old";
      ::_exit(clean ? static_cast<int>(error.code()) : 99);
    }
    ::_exit(98);
  };
  EXPECT_EXIT(limited_save(), ::testing::ExitedWithCode(static_cast<int>(ExitCode::kStorage)), "");
}

TEST(Files, TextIsReplacedAtomically) {
  const TemporaryFolder folder;
  const std::string path = folder.file("config.json");
  write_text_file(path, "first");
  const InputFile open(path);
  write_text_file(path, "second, longer");
  EXPECT_EQ(open.text(), "first");
  EXPECT_EQ(InputFile(path).text(), "second, longer");
  write_text_file(path, "");
  EXPECT_EQ(InputFile(path).size(), 0u);
  EXPECT_EQ(folder.count(), 1u);
  expect_error(ExitCode::kStorage, {folder.path()}, [&] { write_text_file(folder.path(), "x"); });
  expect_error(ExitCode::kInput, {"a folder"}, [&] { InputFile file(folder.path()); });
  expect_error(ExitCode::kInput, {"absent"}, [&] { InputFile file(folder.file("absent")); });
  expect_error(ExitCode::kInput, {"/dev/null"}, [&] { InputFile file("/dev/null"); });
}

}  // namespace
}  // namespace recollect
