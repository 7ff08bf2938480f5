// Every data format: what it reads, and the errors that name file, line or byte.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/data/token_formats.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect {
namespace {

using test::expect_error;
using test::TemporaryFolder;

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
std::string raw(T value) {
  return raw(std::vector<T>{value});
}

std::vector<int32_t> counting(int32_t first, int32_t count) {
  std::vector<int32_t> values;
  for (int32_t i = 0; i < count; ++i) values.push_back(first + i);
  return values;
}

template <typename T>
std::string tokens(int first, int count) {
  std::vector<T> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<T>(first + i));
  return raw(values);
}

struct Sequence {
  std::vector<int32_t> ids, labels;
};

Sequence read(const Dataset& dataset, int64_t index) {
  Fields sample;
  dataset.read(index, sample);
  return {sample["ids"], sample["labels"]};
}

class DataFormats : public ::testing::Test {
 protected:
  DatasetSpec spec(DataFormat format, std::vector<std::string> paths, int64_t length = 4,
                   int64_t vocabulary = 300) {
    DatasetSpec result;
    result.format = format;
    result.paths = std::move(paths);
    result.sequence_length = length;
    result.vocabulary_size = vocabulary;
    return result;
  }
  void refuses(const DatasetSpec& spec, const std::vector<std::string>& mentioned,
               ExitCode code = ExitCode::kInput) {
    expect_error(code, mentioned, [&] { open_dataset(spec); });
  }

  std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                  const std::string& order = "False") {
    std::string header =
        "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
    header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
    header += '\n';
    return std::string("\x93NUMPY\x01\x00", 8) + raw(static_cast<uint16_t>(header.size())) + header + data;
  }
  std::string llmc(int32_t magic, int32_t version, int32_t count, const std::string& data) {
    std::vector<int32_t> header(256, 0);
    header[0] = magic, header[1] = version, header[2] = count;
    return raw(header) + data;
  }
  // An index of sequences with the given lengths, each a document.
  std::string megatron(uint8_t type, int width, const std::vector<int32_t>& lengths) {
    std::vector<int64_t> pointers, marks = {0};
    int64_t at = 0;
    for (int32_t length : lengths) {
      pointers.push_back(at * width);
      at += length;
      marks.push_back(static_cast<int64_t>(pointers.size()));
    }
    return std::string("MMIDIDX\0\0", 9) + raw(uint64_t{1}) + raw(type) + raw(uint64_t{lengths.size()}) +
           raw(uint64_t{marks.size()}) + raw(lengths) + raw(pointers) + raw(marks);
  }

  TemporaryFolder folder_;
};

TEST_F(DataFormats, SpecsThatMakeNoSense) {
  const ExitCode code = ExitCode::kConfiguration;
  refuses(spec(DataFormat::kText, {}), {"data.path"}, code);
  refuses(spec(DataFormat::kText, {"x"}, 1), {"sequence_length"}, code);
  refuses(spec(DataFormat::kText, {"x"}, 4, 0), {"vocabulary"}, code);
  refuses(spec(DataFormat::kText, {folder_.write("a.txt", "0123456789")}, 4, 255), {"256", "255"}, code);
  DatasetSpec bad = spec(DataFormat::kRandom, {}, 4, 100);
  bad.random_low = 7, bad.random_high = 7;
  refuses(bad, {"[7, 7)"}, code);
  bad.random_high = 101;
  refuses(bad, {"101"}, code);
  refuses(spec(DataFormat::kRandom, {"x"}), {"data.path"}, code);
  bad = spec(DataFormat::kTokens, {folder_.write("a.bin", "0123456789")});
  bad.dtype = "float32";
  refuses(bad, {"float32", "uint16"}, code);
  refuses(spec(DataFormat::kText, {folder_.file("absent")}), {folder_.file("absent")});
  folder_.write("empty/README.md", "no data");
  refuses(spec(DataFormat::kText, {folder_.file("empty")}), {folder_.file("empty"), ".txt"});
}

TEST_F(DataFormats, RandomIsAPureFunctionOfSeedIndexAndPosition) {
  DatasetSpec wanted = spec(DataFormat::kRandom, {}, 64, 1000);
  wanted.random_low = 10, wanted.random_high = 20, wanted.seed = 5;
  const auto dataset = open_dataset(wanted);
  EXPECT_EQ(dataset->size(), int64_t{1} << 40);
  std::vector<int> histogram(10, 0);
  for (int64_t index : {int64_t{0}, int64_t{1}, (int64_t{1} << 32) + 1, (int64_t{1} << 40) - 1}) {
    const Sequence sequence = read(*dataset, index);
    EXPECT_EQ(sequence.labels.size(), 0u) << "it learns its own ids";
    EXPECT_EQ(sequence.ids, read(*dataset, index).ids);
    for (int32_t id : sequence.ids) {
      ASSERT_TRUE(id >= 10 && id < 20) << id;
      ++histogram[static_cast<std::size_t>(id - 10)];
    }
  }
  for (int count : histogram) EXPECT_GT(count, 5) << "256 draws from 10 values";
  EXPECT_NE(read(*dataset, 1).ids, read(*dataset, 2).ids);
  EXPECT_NE(read(*dataset, 1).ids, read(*dataset, (int64_t{1} << 32) + 1).ids);
  wanted.seed = 6;
  EXPECT_NE(read(*dataset, 1).ids, read(*open_dataset(wanted), 1).ids);
  wanted.seed = 5, wanted.sequence_length = 32;
  std::vector<int32_t> prefix = read(*dataset, 1).ids;
  prefix.resize(32);
  EXPECT_EQ(read(*open_dataset(wanted), 1).ids, prefix) << "the length is no part of the function";
}

TEST_F(DataFormats, JsonlPadsAndKeepsLabels) {
  folder_.write("b.jsonl", "{\"input_ids\":[7,8,9,10]}");
  folder_.write("a/a.jsonl",
                "{\"input_ids\": [1, 2, 3]}\r\n"
                "\t{ \"labels\" : [ -100 , 5,6, 0 ] ,\"input_ids\":[4,5,6,299]}\n");
  folder_.write("a/ignored.txt", "not data");
  const auto dataset = open_dataset(spec(DataFormat::kJsonl, {folder_.path()}));
  ASSERT_EQ(dataset->size(), 3);
  EXPECT_EQ(read(*dataset, 0).ids, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(read(*dataset, 0).labels.size(), 0u);
  EXPECT_EQ(read(*dataset, 1).ids, (std::vector<int32_t>{4, 5, 6, 299}));
  EXPECT_EQ(read(*dataset, 1).labels, (std::vector<int32_t>{-100, 5, 6, 0}));
  EXPECT_EQ(read(*dataset, 2).ids, (std::vector<int32_t>{7, 8, 9, 10}));
  expect_error(ExitCode::kInternal, {"out of range"}, [&] { read(*dataset, 3); });
}

TEST_F(DataFormats, JsonlErrorsNameFileLineAndColumn) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[1]", "expected an object"},
      {"{}", "expected a key"},
      {"{\"input_ids\":[1,2]", "',' or '}'"},
      {"{\"input_ids\":[1,2}", "',' or ']'"},
      {"{\"input_ids\":[1,2],}", "expected a key"},
      {"{\"input_ids\":[1,,2]}", "expected an integer"},
      {"{\"input_ids\":[1,2,]}", "expected an integer"},
      {"{\"input_ids\":[1 2]}", "',' or ']'"},
      {"{\"input_ids\":[1,2]} x", "something follows"},
      {"{\"input_ids\":[1,2]}{}", "something follows"},
      {"{\"labels\":[1]}", "no \"input_ids\""},
      {"{\"input_ids\":[1],\"input_ids\":[1]}", "appears twice"},
      {"{\"input_ids\":[1],\"labels\":[1],\"labels\":[1]}", "appears twice"},
      {"{\"input_ids\":[1],\"attention_mask\":[0]}", "\"attention_mask\" is all zeros"},
      {"{\"input_ids\":[1,2],\"attention_mask\":[1]}", "1 attention_mask for 2 input_ids"},
      {"{\"input_ids\":[1,2,3],\"attention_mask\":[1,0,0],\"labels\":[1,2,3]}",
       "\"labels\" has the label 3 where \"attention_mask\" is 0"},
      {"{\"input_ids\":[1],\"input_ids", "closing quote"},
      {"{\"input_ids\":[1.0]}", "not written as an integer"},
      {"{\"input_ids\":[1e2]}", "not written as an integer"},
      {"{\"input_ids\":[01]}", "leading zero"},
      {"{\"input_ids\":[+1]}", "expected an integer"},
      {"{\"input_ids\":[\"1\"]}", "expected an integer"},
      {"{\"input_ids\":[null]}", "expected an integer"},
      {"{\"input_ids\":[[1]]}", "expected an integer"},
      {"{\"input_ids\":1}", "expected '['"},
      {"{\"input_ids\":[99999999999999999999]}", "64 bits"},
      {"{\"input_ids\":[300]}", "2:15: id 300 is outside the vocabulary of 300"},
      {"{\"input_ids\":[-1]}", "id -1"},
      {"{\"input_ids\":[-100]}", "id -100"},
      {"{\"input_ids\":[1],\"labels\":[-99]}", "label -99"},
      {"{\"input_ids\":[1],\"labels\":[300]}", "label 300"},
      {"{\"input_ids\":[1,2],\"labels\":[1]}", "1 labels for 2 input_ids"},
      {"{\"input_ids\":[1,2,3,4,5]}", "more than 4 tokens"},
      {std::string("{\"input_ids\":[1]\0}", 17), "',' or '}'"},
  };
  for (const auto& [line, mentioned] : cases) {
    SCOPED_TRACE(line);
    const std::string path =
        folder_.write("bad.jsonl", "{\"input_ids\":[1]}\n" + line + "\n{\"input_ids\":[1]}\n");
    refuses(spec(DataFormat::kJsonl, {path}), {path + ":2:", mentioned});
  }
  refuses(spec(DataFormat::kJsonl, {folder_.write("empty.jsonl", "")}), {"not a single line"});
}

TEST_F(DataFormats, TextJoinsFilesWithANewline) {
  folder_.write("t/b/1.txt", "CDE\xFF");
  folder_.write("t/a.txt", "AB");
  folder_.write("t/c.txt", "");
  folder_.write("t/d.txt", "FG");
  folder_.write("t/README.md", "this is not data");
  const auto dataset = open_dataset(spec(DataFormat::kText, {folder_.file("t")}, 3));
  // "AB\nCDE\xFF\n\nFG" is 11 bytes: three sequences, the rest dropped.
  ASSERT_EQ(dataset->size(), 3);
  EXPECT_EQ(read(*dataset, 0).ids, (std::vector<int32_t>{'A', 'B', '\n'}));
  EXPECT_EQ(read(*dataset, 1).ids, (std::vector<int32_t>{'C', 'D', 'E'}));
  EXPECT_EQ(read(*dataset, 2).ids, (std::vector<int32_t>{255, '\n', '\n'}));
  const auto whole = open_dataset(spec(DataFormat::kText, {folder_.file("t")}, 11));
  EXPECT_EQ(read(*whole, 0).ids,
            (std::vector<int32_t>{'A', 'B', '\n', 'C', 'D', 'E', 255, '\n', '\n', 'F', 'G'}));
  refuses(spec(DataFormat::kText, {folder_.file("t")}, 12), {"11 bytes", "12"});
  refuses(spec(DataFormat::kText, {folder_.file("t/c.txt")}, 12), {"t/c.txt", "0 bytes"});
}

// What the quickstart trains on: the folder's README is no part of it.
TEST_F(DataFormats, TheExampleTextIsRead) {
  const std::string path = RECOLLECT_SOURCE_DIR "/examples/text";
  const std::string text = TemporaryFolder::read(path + "/moby-dick-opening.txt");
  EXPECT_GT(text.size(), 90'000u);
  const auto dataset = open_dataset(spec(DataFormat::kText, {path}, 64, 256));
  EXPECT_EQ(dataset->size(), static_cast<int64_t>(text.size() / 64));
  const Sequence first = read(*dataset, 0);
  EXPECT_EQ(std::string(first.ids.begin(), first.ids.end()), text.substr(0, 64));
}

TEST_F(DataFormats, TokensOfEveryKindReadTheSame) {
  const auto headerless = [&](const std::string& dtype, const std::string& data) {
    DatasetSpec result = spec(DataFormat::kTokens, {folder_.write(dtype + ".raw", data)});
    result.dtype = dtype;
    return result;
  };
  folder_.write("m.idx", megatron(8, 2, {3, 0, 6, 1}));
  folder_.write("m.bin", tokens<uint16_t>(200, 10));
  folder_.write("n.idx", megatron(4, 4, {10}) + std::string(1, '\0'));  // with modes
  folder_.write("n.bin", tokens<int32_t>(200, 10));
  const std::vector<DatasetSpec> specs = {
      headerless("uint16", tokens<uint16_t>(200, 10)),
      headerless("uint32", tokens<uint32_t>(200, 10)),
      headerless("int64", tokens<int64_t>(200, 10)),
      headerless("uint8", tokens<uint8_t>(200, 10)),
      spec(DataFormat::kTokens, {folder_.write("1.npy", npy("<u2", "(10,)", tokens<uint16_t>(200, 10)))}),
      spec(DataFormat::kTokens, {folder_.write("2.npy", npy("<u4", "(10,)", tokens<uint32_t>(200, 10)))}),
      spec(DataFormat::kTokens, {folder_.write("3.npy", npy("<i4", "(2, 5)", tokens<int32_t>(200, 10)))}),
      spec(DataFormat::kTokens, {folder_.write("4.npy", npy("<i8", "(10, 1)", tokens<int64_t>(200, 10)))}),
      spec(DataFormat::kTokens, {folder_.write("5.bin", llmc(20240520, 1, 10, tokens<uint16_t>(200, 10)))}),
      spec(DataFormat::kTokens, {folder_.write("6.bin", llmc(20240801, 7, 10, tokens<uint32_t>(200, 10)))}),
      spec(DataFormat::kTokens, {folder_.file("m.bin")}),
      spec(DataFormat::kTokens, {folder_.file("m.idx")}),
      spec(DataFormat::kTokens, {folder_.file("m")}),
      spec(DataFormat::kTokens, {folder_.file("n")}),
  };
  for (const DatasetSpec& each : specs) {
    SCOPED_TRACE(each.paths[0]);
    const auto dataset = open_dataset(each);
    ASSERT_EQ(dataset->size(), 2);
    EXPECT_EQ(read(*dataset, 0).ids, counting(200, 4));
    EXPECT_EQ(read(*dataset, 1).ids, counting(204, 4));
  }
}

TEST_F(DataFormats, WindowsStayWithinAFile) {
  folder_.write("t/a.bin", tokens<uint16_t>(0, 9));
  folder_.write("t/b.bin", tokens<uint16_t>(100, 5));
  DatasetSpec both = spec(DataFormat::kTokens, {folder_.file("t")});
  both.dtype = "uint16";
  const auto dataset = open_dataset(both);
  ASSERT_EQ(dataset->size(), 3);
  EXPECT_EQ(read(*dataset, 1).ids, counting(4, 4));
  EXPECT_EQ(read(*dataset, 2).ids, counting(100, 4));
  folder_.write("t/c.bin", tokens<uint16_t>(0, 3));
  refuses(both, {"c.bin", "3 tokens", "4"});
}

TEST_F(DataFormats, DamagedTokenFiles) {
  const auto file = [&](const std::string& name, const std::string& content,
                        const std::string& dtype = "auto") {
    DatasetSpec result = spec(DataFormat::kTokens, {folder_.write(name, content)});
    result.dtype = dtype;
    return result;
  };
  const std::string ten = tokens<uint16_t>(200, 10);
  refuses(file("a.bin", ten), {"a.bin", "data.dtype", "uint16"});
  refuses(file("a.bin", ten + "x", "uint16"), {"a.bin", "truncated", "21"});
  refuses(file("a.bin", "", "uint16"), {"a.bin", "0 tokens"});

  refuses(file("b.bin", llmc(20240520, 1, 10, ten.substr(2))), {"b.bin", "truncated", "1044", "1042"});
  refuses(file("b.bin", llmc(20240520, 1, 9, ten)), {"b.bin", "too long", "1042", "1044"});
  refuses(file("b.bin", llmc(20240520, 1, -1, ten)), {"b.bin", "-1"});
  refuses(file("b.bin", llmc(20240520, 7, 10, ten)), {"b.bin", "version 7"});
  refuses(file("b.bin", llmc(20240801, 1, 10, ten)), {"b.bin", "version 1"});
  refuses(file("b.bin", llmc(20240522, 1, 10, ten)), {"b.bin", "evaluation"});
  refuses(file("b.bin", llmc(20240520, 1, 10, ten).substr(0, 8)), {"b.bin", "truncated"});
  refuses(file("b.bin", llmc(20240520, 1, 10, ten), "uint32"), {"b.bin", "uint16", "uint32"});

  refuses(file("c.npy", npy("<u2", "(11,)", ten)), {"c.npy", "truncated"});
  refuses(file("c.npy", npy("<u2", "(9,)", ten)), {"c.npy", "too long"});
  refuses(file("c.npy", npy(">u2", "(10,)", ten)), {"c.npy", ">u2"});
  refuses(file("c.npy", npy("<f4", "(5,)", ten)), {"c.npy", "<f4"});
  refuses(file("c.npy", npy("<u2", "(2, 5)", ten, "True")), {"c.npy", "Fortran"});
  refuses(file("c.npy", npy("<u2", "()", ten)), {"c.npy", "0 dims"});
  refuses(file("c.npy", npy("<u2", "(1, 2, 5)", ten)), {"c.npy", "3 dims"});
  refuses(file("c.npy", npy("<u2", "(4294967296, 4294967296)", ten)), {"c.npy", "header"});
  refuses(file("c.npy", npy("<u2", "(9223372036854775808,)", ten)), {"c.npy", "no file can hold"});
  refuses(file("c.npy", npy("<u2", "(-10,)", ten)), {"c.npy", "header"});
  refuses(file("c.npy", npy("<u2", "(10,)", ten, "Maybe")), {"c.npy", "header"});
  refuses(file("c.npy", npy("<u2', 'descr': '<u2", "(10,)", ten)), {"c.npy", "header"});
  refuses(file("c.npy", npy("<u2", "(10,)", ten).substr(0, 40)), {"c.npy", "truncated"});
  refuses(file("c.npy", npy("<u2", "(10,)", ten).substr(0, 8)), {"c.npy", "truncated"});
  refuses(file("c.npy", std::string("\x93NUMPY\x09\x00", 8) + ten), {"c.npy", "version 9"});
}

TEST_F(DataFormats, DamagedMegatronPairs) {
  const std::string data = folder_.write("m.bin", tokens<uint16_t>(200, 10)), index = folder_.file("m.idx");
  const std::string good = megatron(8, 2, {3, 7});
  const auto changed = [&](std::size_t at, const std::string& bytes) {
    return std::string(good).replace(at, bytes.size(), bytes);
  };
  const auto refused = [&](const std::string& content, const std::vector<std::string>& mentioned) {
    folder_.write("m.idx", content);
    refuses(spec(DataFormat::kTokens, {data}), mentioned);
  };
  refused(good.substr(0, 20), {index, "truncated"});
  refused(good.substr(0, good.size() - 1), {index, "asks for"});
  refused(good + "xyz", {index, "asks for"});
  refused(changed(9, raw(uint64_t{2})), {index, "version 2"});
  refused(changed(17, raw(uint8_t{7})), {index, "code 7"});
  refused(changed(18, raw(~uint64_t{0})), {index, "asks for"});
  refused(changed(18, raw(uint64_t{good.size() + 1})), {index, "asks for"});
  refused(changed(26, raw(uint64_t{1} << 61)), {index, "asks for"});
  refused(changed(34, raw(int32_t{-3})), {index, "sequence 0"});
  refused(changed(42 + 8, raw(int64_t{8})), {index, "sequence 1"});
  refused(changed(42 + 16 + 8, raw(int64_t{3})), {index, "document mark 1"});
  refused(megatron(8, 2, {3, 8}), {data, "truncated", "22", "20"});
  refused(megatron(8, 2, {3, 6}), {data, "too long", "18", "20"});
  folder_.write("m.idx", good);
  DatasetSpec wrong = spec(DataFormat::kTokens, {data});
  wrong.dtype = "uint32";
  refuses(wrong, {data, "uint16", "uint32"});
  std::filesystem::remove(data);
  refuses(spec(DataFormat::kTokens, {index}), {data});
}

TEST_F(DataFormats, IdsOutsideTheVocabularyNameTheirByte) {
  const auto check = [&](const std::string& name, const std::string& content, const std::string& dtype,
                         const std::string& token, const std::string& byte) {
    DatasetSpec bad = spec(DataFormat::kTokens, {folder_.write(name, content)});
    bad.dtype = dtype;
    refuses(bad, {name, "token " + token + " at byte " + byte, "300"});
  };
  check("a.raw", tokens<uint16_t>(295, 10), "uint16", "300", "10");
  check("a.raw", tokens<uint32_t>(295, 10), "uint32", "300", "20");
  check("a.raw", raw(std::vector<uint32_t>{1, 2, 3, 0x80000000u}), "uint32", "2147483648", "12");
  check("a.raw", raw(std::vector<int32_t>{1, 2, 3, -4}), "int32", "-4", "12");
  check("a.raw", raw(std::vector<int64_t>{1, 2, 3, (int64_t{1} << 32) + 5}), "int64", "4294967301", "24");
  check("a.bin", llmc(20240520, 1, 10, tokens<uint16_t>(291, 10)), "auto", "300", "1042");
  check("a.raw", tokens<uint16_t>(0, 299) + raw(std::vector<uint16_t>(70000, 1)) + raw(uint16_t{65535}),
        "uint16", "65535", std::to_string(2 * 70299));
}

// Whatever the bytes, opening ends in a dataset or an Error; sanitizer builds see every stray access.
// A run that reads on where its file has become shorter says so, and where; a mapping would be killed.
TEST_F(DataFormats, AFileThatIsShortenedWhileItIsOpen) {
  const std::string lines = "{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": [4, 5]}\n";
  const std::string long_text(100000, 'x');
  const struct {
    DataFormat format;
    const char* name;
    std::string content;
    std::uintmax_t left, gone;  // the size that stays; the first byte that the last sequence then lacks
  } cases[] = {{DataFormat::kTokens, "a.bin", llmc(20240520, 1, 16, tokens<uint16_t>(200, 16)), 1041, 1048},
               {DataFormat::kTokens, "b.npy", npy("<i8", "(16,)", tokens<int64_t>(200, 16)), 128 + 60, 224},
               {DataFormat::kText, "c.txt", "sixteen letters.", 9, 12},
               {DataFormat::kText, "d.txt", long_text, 4096, 99996},
               {DataFormat::kJsonl, "e.jsonl", lines, 30, 30}};
  for (const auto& c : cases) {
    const std::string path = folder_.write(c.name, c.content);
    const auto dataset = open_dataset(spec(c.format, {path}));
    EXPECT_NO_THROW(read(*dataset, dataset->size() - 1)) << c.name;
    std::filesystem::resize_file(path, c.left);
    EXPECT_NO_THROW(read(*dataset, 0)) << c.name;
    const std::string gone = "byte " + std::to_string(c.gone) + " is gone",
                      had = "had " + std::to_string(c.content.size()) + " bytes";
    expect_error(ExitCode::kInput, {c.name, gone, had}, [&] { read(*dataset, dataset->size() - 1); });
  }
}

TEST_F(DataFormats, SurviveRandomMutations) {
  const std::string npy_file = npy("<u2", "(10, 3)", tokens<uint16_t>(0, 30));
  const std::string llmc_file = llmc(20240801, 7, 30, tokens<uint32_t>(0, 30));
  const std::string index = megatron(5, 8, {10, 5, 5});
  const std::string line = "{\"input_ids\": [1, 2, 30], \"labels\": [-100, 2, 3]}\n{\"input_ids\":[4]}\n";
  std::mt19937 random(2);
  const auto mutate = [&](std::string bytes, std::size_t within) {
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const std::size_t at = random() % std::min(bytes.size(), within);
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = "0123456789\"'{}[](),:-"[random() % 21];
          break;
        case 2:
          bytes.erase(at, 1 + random() % 3);
          break;
        case 3:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 12));
          break;
      }
    }
    return bytes;
  };
  int refused = 0;
  const auto try_layout = [&](auto action, uint64_t available) {
    try {
      const TokenLayout layout = action();
      ASSERT_LE(layout.offset + layout.count * size_of(layout.type), available);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ExitCode::kInput) << error.what();
      ++refused;
    }
  };
  for (int round = 0; round < 4000; ++round) {
    const std::string a = mutate(npy_file, 100), b = mutate(llmc_file, 16), c = mutate(index, index.size());
    const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
    if (is_npy(bytes(a))) try_layout([&] { return parse_npy(bytes(a), a.size(), "a"); }, a.size());
    if (is_llmc(bytes(b))) try_layout([&] { return parse_llmc(bytes(b), b.size(), "b"); }, b.size());
    if (is_megatron_index(bytes(c)))
      try_layout([&] { return parse_megatron_index(bytes(c), "c", 160, "d"); }, 160);
  }
  EXPECT_GT(refused, 4000);
  for (int round = 0; round < 1000; ++round) {
    const DatasetSpec mutant =
        spec(DataFormat::kJsonl, {folder_.write("m.jsonl", mutate(line, line.size()))}, 3);
    try {
      const auto dataset = open_dataset(mutant);
      for (int64_t i = 0; i < dataset->size(); ++i)
        for (int32_t id : read(*dataset, i).ids) ASSERT_TRUE(id >= 0 && id < 300);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ExitCode::kInput) << error.what();
    }
  }
}

}  // namespace
}  // namespace recollect
