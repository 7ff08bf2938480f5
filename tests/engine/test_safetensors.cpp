// The safetensors reader: what it reads, and everything it must refuse.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/io/safetensors.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect {
namespace {

using test::expect_error;
using test::TemporaryFolder;

std::string little_endian(uint64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  return bytes;
}

std::string file_with(const std::string& header, std::size_t data_bytes) {
  return little_endian(header.size()) + header + std::string(data_bytes, '\x01');
}

struct BadFile {
  std::string label;
  std::string content;
  std::string mentioned;
};

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

std::vector<BadFile> bad_files() {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const auto one = [](const std::string& entry, std::size_t bytes = 8) {
    return file_with("{\"weight\":" + entry + "}", bytes);
  };
  const auto shaped = [&](const std::string& dtype, const std::string& shape, std::size_t bytes) {
    return one("{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[0," +
                   std::to_string(bytes) + "]}",
               bytes);
  };
  const auto two = [](const std::string& first, const std::string& second, std::size_t bytes) {
    const auto entry = [](const std::string& offsets, int size) {
      return "{\"dtype\":\"U8\",\"shape\":[" + std::to_string(size) + "],\"data_offsets\":" + offsets + "}";
    };
    return file_with("{\"first\":" + entry(first, 4) + ",\"second\":" + entry(second, 4) + "}", bytes);
  };
  return {
      {"empty file", "", "too few"},
      {"seven bytes", std::string(7, '\0'), "too few"},
      {"empty header", file_with("", 0), "begin with '{'"},
      {"huge length", little_endian(~uint64_t{0}) + good, "exceeds"},
      {"length one above the cap", little_endian(kMaxSafetensorsHeader + 1) + good, "exceeds"},
      {"length beyond the file", little_endian(good.size() + 1) + good, "truncated"},
      {"truncated data", file_with(good, 7), "\"a\""},
      {"data behind the tensors", file_with(good, 9), "end at data byte 8"},
      {"leading space", file_with(" " + good, 8), "begin with '{'"},
      {"byte order mark", file_with("\xEF\xBB\xBF" + good, 8), "begin with '{'"},
      {"zero byte and a second document", file_with(good + std::string(1, '\0') + good, 8), "zero byte"},
      {"second document", file_with(good + good, 8), "JSON"},
      {"cut JSON", file_with(good.substr(0, 20), 8), "JSON"},
      {"an array", file_with("[" + good + "]", 8), "begin with '{'"},
      {"bad UTF-8 in a name",
       file_with("{\"\xC3(\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8), "UTF-8"},
      {"overlong UTF-8", file_with("{\"\xC0\xAF\":{}}", 0), "UTF-8"},
      {"lone surrogate", file_with(R"({"\ud800":{}})", 0), "UTF-8"},
      {"overlap", two("[0,4]", "[2,6]", 6), "overlapping"},
      {"same range twice", two("[0,4]", "[0,4]", 4), "overlapping"},
      {"hole", two("[0,4]", "[5,9]", 9), "hole"},
      {"hole at the start", two("[1,5]", "[5,9]", 9), "hole"},
      {"end before begin", two("[0,4]", "[8,4]", 8), "\"second\""},
      {"range behind the data", two("[0,4]", "[4,8]", 4), "\"second\""},
      {"offset of 2^64-1", two("[0,4]", "[18446744073709551615,3]", 8), "\"second\""},
      {"shape product overflows", shaped("F32", "[4294967296,4294967296,2]", 8), "overflows"},
      {"byte product overflows", shaped("F64", "[2305843009213693952]", 0), "overflows"},
      {"overflow hidden behind a zero", shaped("F32", "[9223372036854775807,2,0]", 0), "overflows"},
      {"dim of 2^63", shaped("F32", "[9223372036854775808]", 8), "too large"},
      {"dim of 2^64", shaped("F32", "[18446744073709551616]", 8), "64 bits"},
      {"negative dim", shaped("F32", "[-2]", 8), "-2"},
      {"fractional dim", shaped("F32", "[2.0]", 8), "2.0"},
      {"dim as text", shaped("F32", "[\"2\"]", 8), "string"},
      {"nine dims", shaped("F32", "[1,1,1,1,1,1,1,1,2]", 8), "dims"},
      {"nested shape", shaped("F32", "[[2]]", 8), "array"},
      {"too many bytes for the shape", shaped("F32", "[1]", 8), "needs 4 bytes"},
      {"too few bytes for the dtype", shaped("F64", "[2]", 8), "needs 16 bytes"},
      {"half a byte", shaped("F4", "[3]", 2), "F4"},
      {"no dtype", one(R"({"shape":[2],"data_offsets":[0,8]})"), "needs dtype"},
      {"no shape", one(R"({"dtype":"F32","data_offsets":[0,8]})"), "needs dtype"},
      {"no offsets", one(R"({"dtype":"F32","shape":[2]})"), "needs dtype"},
      {"one offset", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"), "two numbers"},
      {"three offsets", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})"), "two numbers"},
      {"numeric dtype", one(R"({"dtype":7,"shape":[2],"data_offsets":[0,8]})"), "number"},
      {"unknown field", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"extra":1})"), "extra"},
      {"tensor is a number", one("3"), "number"},
      {"tensor is null", one("null"), "null"},
      {"duplicate field", one(R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})"), "twice"},
      {"metadata twice", file_with(R"({"__metadata__":{},"__metadata__":{}})", 0), "twice"},
      {"metadata key twice", file_with(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "twice"},
      {"metadata number", file_with(R"({"__metadata__":{"k":1}})", 0), "number"},
      {"metadata object", file_with(R"({"__metadata__":{"k":{}}})", 0), "object"},
      {"metadata is a string", file_with(R"({"__metadata__":"pt"})", 0), "string"},
      {"deep JSON", file_with("{\"a\":" + repeated("[", 100000) + repeated("]", 100000) + "}", 0), "array"},
      {"deep objects", file_with(repeated("{\"a\":", 100000), 0), "unknown key"},
      {"deep dtype", file_with("{\"a\":" + repeated("{\"dtype\":", 100000), 0), "object"},
      {"pickle", std::string("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", 16), "convert"},
      {"zip", std::string("PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00", 12), "convert"},
  };
}

TEST(Safetensors, RefusesMalformedFiles) {
  const TemporaryFolder folder;
  for (const BadFile& bad : bad_files()) {
    SCOPED_TRACE(bad.label);
    const std::string path = folder.write("bad.safetensors", bad.content);
    expect_error(ExitCode::kInput, {path, bad.mentioned}, [&] { SafetensorsFile file(path); });
  }
}

TEST(Safetensors, RefusesTheSameNameInTwoSpellings) {
  const TemporaryFolder folder;
  for (const std::string second : {"a", "\\u0061"}) {
    const std::string path =
        folder.write("bad.safetensors",
                     file_with("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"" + second +
                                   "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                               2));
    expect_error(ExitCode::kInput, {path, "\"a\" appears twice"}, [&] { SafetensorsFile file(path); });
  }
}

TEST(Safetensors, AcceptsTheEdgesOfTheFormat) {
  const TemporaryFolder folder;
  EXPECT_TRUE(SafetensorsFile(folder.write("a", file_with("{}", 0))).entries().empty());
  EXPECT_TRUE(SafetensorsFile(folder.write("b", file_with("{}   ", 0))).entries().empty());
  // Zero-sized tensors share their offset with a neighbour; the header lists them in any order.
  const SafetensorsFile file(
      folder.write("c", file_with(R"({"z":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                  R"("none":{"dtype":"F64","shape":[3,0],"data_offsets":[0,0]},)"
                                  R"("end":{"shape":[0],"data_offsets":[5,5],"dtype":"BF16"},)"
                                  R"("odd":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1],"data_offsets":[4,5]}})",
                                  5)));
  ASSERT_EQ(file.entries().size(), 4u);
  EXPECT_EQ(file.at("odd").shape.size(), 8u);
  EXPECT_EQ(file.at("z").elements(), 1);
  double unused = 7;
  file.read_as(file.at("none"), &unused);
  EXPECT_EQ(unused, 7);
}

TEST(Safetensors, NamesAnUnsupportedDTypeOnlyWhenAsked) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "mixed.safetensors", file_with(R"({"new":{"dtype":"X3","shape":[5],"data_offsets":[0,3]},)"
                                     R"("mask":{"dtype":"BOOL","shape":[2],"data_offsets":[3,5]},)"
                                     R"("ids":{"dtype":"I32","shape":[1],"data_offsets":[5,9]},)"
                                     R"("w":{"dtype":"F32","shape":[1],"data_offsets":[9,13]}})",
                                     13));
  const SafetensorsFile file(path);
  float value = 0;
  file.read_as(file.at("w"), &value);
  float expected = 0;
  std::memcpy(&expected, "\x01\x01\x01\x01", 4);
  EXPECT_EQ(value, expected);
  expect_error(ExitCode::kInput, {path, "\"new\"", "X3"}, [&] { file.at("new"); });
  expect_error(ExitCode::kInput, {path, "\"mask\"", "BOOL"}, [&] { file.at("mask"); });
  expect_error(ExitCode::kInput, {path, "\"ids\"", "I32"}, [&] { file.read_as(file.at("ids"), &value); });
  expect_error(ExitCode::kInput, {path, "\"missing\""}, [&] { file.at("missing"); });
  EXPECT_EQ(file.find("missing"), nullptr);
}

TEST(Safetensors, NamesCannotForgeALogLine) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", file_with(R"({"a\nERROR":{"dtype":"F32","shape":[2]}})", 0));
  expect_error(ExitCode::kInput, {"a\\nERROR"}, [&] { SafetensorsFile file(path); });
}

// The file was made by the reference implementation: tests/data/make_safetensors.py.
TEST(Safetensors, ReadsAFileOfTheReferenceImplementation) {
  const SafetensorsFile file(RECOLLECT_SOURCE_DIR "/tests/data/tiny.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const std::vector<double> exact = {0.0, -1.5, 0.15625, 3.0, 1024.0, -0.0078125};
  for (const char* name : {"f64", "f32", "bf16", "f16"}) {
    SCOPED_TRACE(name);
    const TensorEntry& entry = file.at(name);
    EXPECT_EQ(entry.shape, (std::vector<int64_t>{3, 2}));
    std::vector<double> wide(6);
    std::vector<float> narrow(6), middle(2);
    file.read_as(entry, wide.data());
    file.read_as(entry, narrow.data());
    file.read_as(entry, middle.data(), 1, 1);
    EXPECT_EQ(wide, exact);
    EXPECT_EQ(narrow, std::vector<float>(exact.begin(), exact.end()));
    EXPECT_EQ(middle, (std::vector<float>{0.15625f, 3.0f}));
  }
  std::vector<double> special(5);
  file.read_as(file.at("special"), special.data());
  EXPECT_EQ(special[0], INFINITY);
  EXPECT_EQ(special[1], -INFINITY);
  EXPECT_TRUE(std::isnan(special[2]));
  EXPECT_EQ(special[3], 0x1p-24);  // the smallest subnormal f16
  EXPECT_TRUE(special[4] == 0 && std::signbit(special[4]));
  float scalar = 0;
  file.read_as(file.at("scalar"), &scalar);
  EXPECT_EQ(scalar, 2.5f);
  const std::string whole = TemporaryFolder::read(file.path());
  int64_t last = 0;
  std::memcpy(&last, whole.data() + file.at("i64").offset + 8, 8);
  EXPECT_EQ(last, -(int64_t{1} << 40));
}

// A mapping of it would be killed. What is still there can be read.
TEST(Safetensors, AFileThatIsShortenedWhileItIsReadIsAnError) {
  const TemporaryFolder folder;
  for (const char* dtype : {"F64", "F32"}) {
    const int64_t rows = 40000, bytes = rows * (dtype[1] == '6' ? 8 : 4);
    const std::string path = folder.write(
        "a", file_with(fmt::format(R"({{"w":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})", dtype,
                                   rows, bytes),
                       static_cast<std::size_t>(bytes)));
    const SafetensorsFile file(path);
    std::filesystem::resize_file(path, file.at("w").offset + file.at("w").bytes / 2);
    std::vector<double> values(rows);
    file.read_as(file.at("w"), values.data(), 0, rows / 2);
    expect_error(ExitCode::kInput, {path, "was shortened since"},
                 [&] { file.read_as(file.at("w"), values.data()); });
  }
}

// Whatever the bytes, the reader answers with a file or an Error; sanitizer builds see every stray access.
TEST(Safetensors, SurvivesRandomMutations) {
  const TemporaryFolder folder;
  const std::string good = TemporaryFolder::read(RECOLLECT_SOURCE_DIR "/tests/data/tiny.safetensors");
  ASSERT_GT(good.size(), 100u);
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (int edits = 1 + static_cast<int>(random() % 4); edits > 0; --edits) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 5) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        case 2:
          bytes[at] = "0123456789\"{}[]:,"[random() % 17];
          break;
        case 3:
          bytes.erase(at, 1 + random() % 3);
          break;
        case 4:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 20));
          break;
      }
    }
    try {
      const SafetensorsHeader parsed = parse_safetensors_header(bytes, bytes.size(), "mutant");
      uint64_t covered = 0;
      for (const TensorEntry& entry : parsed.entries) {
        ASSERT_LE(entry.offset + entry.bytes, bytes.size());
        covered += entry.bytes;
      }
      ASSERT_LE(covered, bytes.size());
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ExitCode::kInput) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace recollect
