// Files that are something else than they were given for: what they are is said, and what to do.
#include <gtest/gtest.h>

#include "engine/data/dataset.h"
#include "engine/data/text_file.h"
#include "engine/data/text_table.h"
#include "engine/io/file_kind.h"
#include "engine/io/file_text.h"
#include "engine/io/input_file.h"
#include "engine/io/safetensors.h"
#include "engine/io/strict_json.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect {
namespace {

using namespace std::string_literals;

const std::string kPointer =
    "version https://git-lfs.github.com/spec/v1\noid "
    "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 12345\n";

TEST(FileKind, PointersOfGitLfsAreNoFiles) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("model.safetensors", kPointer);
  test::expect_error(ExitCode::kInput, {path, "is a pointer of Git LFS", "git lfs pull"},
                     [&] { InputFile file(path); });
  std::string text;
  EXPECT_NE(read_file_text(path, 1 << 20, text).find("a pointer of Git LFS"), std::string::npos);
  EXPECT_EQ(InputFile(folder.write("long", kPointer + std::string(1024, '\n'))).size(),
            kPointer.size() + 1024);
}

TEST(FileKind, IsToldByItsFirstBytes) {
  const test::TemporaryFolder folder;
  const std::string zip = "PK\x03\x04\x14\0\0\0"s, gzip = "\x1f\x8b\x08\0"s, parquet = "PAR1\x15\x04\xff"s,
                    page = "\n<!DOCTYPE HTML><html>404", legacy = "TNTIDX\0\0\x01\0"s,
                    tensors = "\x40\0\0\0\0\0\0\0{\"a\""s;
  const auto tokens = [&](const std::string& name, const std::string& content, const char* dtype = "auto") {
    open_dataset({.format = DataFormat::kTokens,
                  .paths = {folder.write(name, content + std::string(64, '\0'))},
                  .sequence_length = 4,
                  .vocabulary_size = 30,
                  .dtype = dtype});
  };
  const auto refused = [](const std::vector<std::string>& mentioned, const auto& read) {
    test::expect_error(ExitCode::kInput, mentioned, read);
  };
  refused({"a.npz is a zip archive: NumPy's .npz", "numpy.save"}, [&] { tokens("a.npz", zip); });
  refused({"a.bin is a zip archive"}, [&] { tokens("a.bin", zip, "uint16"); });
  refused({"a.bin is compressed with gzip"}, [&] { tokens("a.bin", gzip); });
  refused({"a.bin holds weights in the form of safetensors"}, [&] { tokens("a.bin", tensors); });
  refused({"is outside the vocabulary"},
          [&] { tokens("a.bin", gzip, "uint16"); });  // two bytes can be a token
  folder.write("b.idx", legacy);
  refused({"b.idx is an index of Megatron's or fairseq's old form (TNTIDX)", "--dataset-impl mmap"},
          [&] { tokens("b.bin", "", "uint16"); });
  refused({"a.csv is a Parquet file, not text in UTF-8", "to_json"},
          [&] { TextTable(folder.write("a.csv", parquet), {}); });
  refused({"a.csv is a zip archive", "unpack"}, [&] { TextTable(folder.write("a.csv", zip), {}); });
  EXPECT_NO_THROW(read_utf8(folder.write("a.txt", page)));  // somebody may want to learn from it
  refused({"a.csv is text in UTF-16", "iconv"}, [&] {
    TextTable(folder.write("a.csv",
                           "\xff\xfe"
                           "a\0"s),
              {});
  });
  refused({"config.json is a web page, and no JSON", "download it again"},
          [&] { parse_strict_json(page, "config.json"); });
  for (const auto& [content, said] :
       {std::pair(page, "is a web page"), std::pair(parquet + "1234", "is a Parquet file"),
        std::pair("GGUF\x03\0\0\0"s, "holds weights in the form of GGUF")})
    refused({"m.safetensors", said, "weights of safetensors"},
            [&, &content = content] { SafetensorsFile file(folder.write("m.safetensors", content)); });
}

TEST(FileKind, WhatIsNoJsonlOfIdsIsNamed) {
  const test::TemporaryFolder folder;
  for (const auto& [content, said] :
       {std::pair("\x1f\x8b\x08\0"s, "is compressed with gzip, not JSONL"),
        std::pair("PAR1\x15\x04"s, "is a Parquet file, not JSONL"),
        std::pair("PK\x03\x04"s, "is a zip archive"), std::pair("\xff\xfe{\0"s, "is text in UTF-16"),
        std::pair("<!DOCTYPE html>\n"s, "is a web page, not JSONL")})
    test::expect_error(ExitCode::kInput, {"a.jsonl", said}, [&, &content = content] {
      open_dataset({.format = DataFormat::kJsonl,
                    .paths = {folder.write("a.jsonl", content)},
                    .sequence_length = 4,
                    .vocabulary_size = 30});
    });
}

TEST(FileKind, JsonThatIsNoJsonlIsNamed) {
  const test::TemporaryFolder folder;
  const TableSpec spec{.format = TableFormat::kJsonl, .columns = {"text"}};
  for (const auto& [text, hint] :
       {std::pair("[{\"text\": \"a\"},\n{\"text\": \"b\"}]\n", "jq -c '.[]'"),
        std::pair("{\n  \"text\": \"a\"\n}\n", "jq -c ."), std::pair("text,label\na,b\n", "data.format csv")})
    test::expect_error(ExitCode::kInput, {"a:1", hint},
                       [&, &text = text] { TextTable(folder.write("a", text), spec); });
  test::expect_error(ExitCode::kInput,
                     {"there is no \"text\"", "it has messages", "task causal_lm", "--preview"},
                     [&] { TextTable(folder.write("a", "{\"messages\": []}\n"), spec); });
  test::expect_error(ExitCode::kInput, {"there is no \"text\"", "it has id, story", "data.columns"},
                     [&] { TextTable(folder.write("a", "{\"id\": 1, \"story\": \"b\"}\n"), spec); });
}

}  // namespace
}  // namespace recollect
