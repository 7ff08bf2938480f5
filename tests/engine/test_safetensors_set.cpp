// A model's folder: which files are read, and how an index is held to its shards.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/io/safetensors.h"
#include "engine/io/safetensors_writer.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect {
namespace {

using test::expect_error;
using test::TemporaryFolder;

void write_shard(const std::string& path, const std::vector<std::pair<std::string, float>>& scalars) {
  SafetensorsWriter writer(path);
  for (const auto& [name, value] : scalars) writer.declare(name, DType::kF32, {});
  for (const auto& [name, value] : scalars) writer.write_converted(name, &value, 1);
  writer.finish();
}

class SafetensorsSetTest : public ::testing::Test {
 protected:
  SafetensorsSetTest() {
    write_shard(folder_.file("one.safetensors"), {{"a", 1.0f}, {"b", 2.0f}});
    write_shard(folder_.file("two.safetensors"), {{"c", 3.0f}});
  }

  std::string index(const std::string& text) { return folder_.write("model.safetensors.index.json", text); }
  void refuses(const std::string& text, const std::vector<std::string>& mentioned) {
    SCOPED_TRACE(text);
    index(text);
    expect_error(ExitCode::kInput, mentioned, [&] { SafetensorsSet set(folder_.path()); });
  }

  TemporaryFolder folder_;
  const std::string good_ = R"({"metadata":{"total_size":12},"weight_map":)"
                            R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"}})";
};

TEST_F(SafetensorsSetTest, LooksNamesUpOverAllShards) {
  const std::string path = index(good_);
  for (const std::string& source : {folder_.path(), path}) {
    const SafetensorsSet set(source);
    EXPECT_EQ(set.files().size(), 2u);
    EXPECT_EQ(set.names(), (std::vector<std::string>{"a", "b", "c"}));
    double value = 0;
    set.read_as("c", &value);
    EXPECT_EQ(value, 3.0);
    set.read_as("b", &value);
    EXPECT_EQ(value, 2.0);
    set.read_as("a", &value);
    EXPECT_EQ(value, 1.0);
    EXPECT_EQ(set.find("d"), nullptr);
    expect_error(ExitCode::kInput, {source, "\"d\""}, [&] { set.at("d"); });
  }
}

TEST_F(SafetensorsSetTest, PrefersTheSingleFile) {
  index("this is not read");
  write_shard(folder_.file("model.safetensors"), {{"only", 4.0f}});
  EXPECT_EQ(SafetensorsSet(folder_.path()).names(), std::vector<std::string>{"only"});
  EXPECT_EQ(SafetensorsSet(folder_.file("two.safetensors")).names(), std::vector<std::string>{"c"});
}

TEST_F(SafetensorsSetTest, RefusesABadIndex) {
  const std::string path = folder_.file("model.safetensors.index.json");
  refuses("", {path, "JSON"});
  refuses("[]", {path, "weight_map"});
  refuses("{}", {path, "weight_map"});
  refuses(R"({"weight_map":[]})", {path, "weight_map"});
  refuses(R"({"weight_map":{"a":1}})", {path, "\"a\""});
  refuses(R"({"metadata":{"total_size":-1},"weight_map":{}})", {path, "total_size"});
  refuses(R"({"metadata":{"total_size":"1"},"weight_map":{}})", {path, "total_size"});
  refuses(R"({"metadata":[],"weight_map":{}})", {path, "metadata"});
  refuses(R"({"weight_map":{"a":"one.safetensors","a":"two.safetensors"}})", {path, "\"a\"", "twice"});
  refuses(R"({"weight_map":{"a":"absent.safetensors"}})", {path, "absent.safetensors"});
  refuses(R"({"weight_map":{"x":"one.safetensors"}})", {path, "\"x\"", "one.safetensors"});
  refuses(R"({"weight_map":{"a":"one.safetensors"}})", {path, "\"b\"", "not listed"});
  refuses(R"({"weight_map":{"a":"two.safetensors","b":"one.safetensors","c":"two.safetensors"}})",
          {path, "\"a\""});
  refuses(good_ + std::string(1, '\0') + "x", {path, "zero byte"});
  std::string deep = "{\"weight_map\":{},\"x\":";
  for (int i = 0; i < 100000; ++i) deep += "[";
  refuses(deep, {path, "deeper"});
}

TEST_F(SafetensorsSetTest, KeepsShardsInsideTheFolder) {
  const TemporaryFolder elsewhere;
  write_shard(elsewhere.file("out.safetensors"), {{"a", 1.0f}});
  std::filesystem::create_directory(folder_.file("sub"));
  write_shard(folder_.file("sub/in.safetensors"), {{"a", 1.0f}});
  for (const std::string& shard :
       {elsewhere.file("out.safetensors"), std::string("../out.safetensors"),
        std::string("sub/in.safetensors"), std::string(".."), std::string("."), std::string()})
    refuses("{\"weight_map\":{\"a\":\"" + shard + "\"}}", {"plain file name"});
  refuses(R"({"weight_map":{"a":"one.safetensors\u0000"}})", {"plain file name"});
  std::filesystem::create_symlink(elsewhere.file("out.safetensors"), folder_.file("link.safetensors"));
  refuses(R"({"weight_map":{"a":"link.safetensors"}})", {"leads out"});
}

TEST_F(SafetensorsSetTest, FollowsTheLinksOfTheHubCache) {
  namespace fs = std::filesystem;
  const fs::path repository = folder_.path();
  fs::create_directories(repository / "snapshots" / "rev");
  fs::create_directories(repository / "blobs");
  write_shard((repository / "blobs" / "hash").string(), {{"a", 1.0f}});
  fs::create_symlink("../../blobs/hash", repository / "snapshots" / "rev" / "s.safetensors");
  folder_.write("snapshots/rev/model.safetensors.index.json", R"({"weight_map":{"a":"s.safetensors"}})");
  EXPECT_EQ(SafetensorsSet((repository / "snapshots" / "rev").string()).names(),
            std::vector<std::string>{"a"});
}

TEST_F(SafetensorsSetTest, RefusesTheSameTensorInTwoShards) {
  write_shard(folder_.file("two.safetensors"), {{"c", 3.0f}, {"a", 9.0f}});
  refuses(good_, {"\"a\"", "one.safetensors", "two.safetensors"});
}

TEST(SafetensorsSet, RefusesPicklesAndNothing) {
  const TemporaryFolder folder;
  expect_error(ExitCode::kInput, {folder.path(), "model.safetensors"},
               [&] { SafetensorsSet set(folder.path()); });
  expect_error(ExitCode::kInput, {"absent"}, [&] { SafetensorsSet set(folder.file("absent")); });
  expect_error(ExitCode::kInput, {"absent.bin"}, [&] { SafetensorsSet set(folder.file("absent.bin")); });
  const std::string path = folder.write("pytorch_model.bin", "anything");
  expect_error(ExitCode::kInput, {path, "convert"}, [&] { SafetensorsSet set(path); });
  expect_error(ExitCode::kInput, {path, "convert"}, [&] { SafetensorsSet set(folder.path()); });
  const std::string zip = folder.write("model.safetensors", std::string("PK\x03\x04\x14\0\0\0\0\0", 10));
  expect_error(ExitCode::kInput, {zip, "convert"}, [&] { SafetensorsSet set(folder.path()); });
}

}  // namespace
}  // namespace recollect
