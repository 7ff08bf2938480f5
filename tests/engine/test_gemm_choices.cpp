// Choices of algorithms outlive a run in a file that other runs write too, and that anybody may have spoilt.
#include "engine/ops/cuda/gemm_choices.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::cuda {
namespace {

namespace fs = std::filesystem;
using recollect::test::expect_error;
using recollect::test::TemporaryFolder;

GemmAlgorithm algorithm(uint64_t first) { return {first, ~uint64_t{0}, 0, 3, 4, 5, 6, 0x8000000000000000u}; }

const GemmContext kContext{.device = "NVIDIA H200", .multiprocessors = 132, .version = 130100};
const GemmShape kShape{
    .m = 4096, .n = 768, .k = 3072, .transpose_b = true, .in = DType::kBF16, .out = DType::kBF16};

TEST(GemmKey, IsReadable) {
  EXPECT_EQ(gemm_key(kContext, kShape), "NVIDIA H200 x132 cublasLt 130100 4096x768x3072 NT bf16->bf16 f32");
  GemmShape weight{.m = 768, .n = 3072, .k = 4096, .transpose_a = true, .accumulates = true};
  EXPECT_EQ(gemm_key(kContext, weight),
            "NVIDIA H200 x132 cublasLt 130100 768x3072x4096 TN f32->f32 f32 accumulates");
}

TEST(GemmKey, DiffersWhereverTheAlgorithmMay) {
  std::set<std::string> keys;
  const auto add = [&](GemmContext context, GemmShape shape) { keys.insert(gemm_key(context, shape)); };
  std::size_t made = 0;
  const auto with = [&](auto change) {
    GemmContext context = kContext;
    GemmShape shape = kShape;
    change(context, shape);
    add(context, shape);
    ++made;
  };
  with([](auto&, auto&) {});
  with([](auto& c, auto&) { c.device = "NVIDIA H100"; });
  with([](auto& c, auto&) { c.multiprocessors = 114; });
  with([](auto& c, auto&) { c.version = 130101; });
  with([](auto&, auto& s) { s.m = 4097; });
  with([](auto&, auto& s) { s.n = 769; });
  with([](auto&, auto& s) { s.k = 3073; });
  with([](auto&, auto& s) { s.transpose_a = true; });
  with([](auto&, auto& s) { s.transpose_b = false; });
  with([](auto&, auto& s) { s.in = DType::kF16; });
  with([](auto&, auto& s) { s.out = DType::kF32; });
  with([](auto&, auto& s) { s.accumulates = true; });
  with([](auto&, auto& s) { s.biased = true; });
  with([](auto&, auto& s) { s.beside_collectives = true; });
  with([](auto&, auto& s) { s.in = s.second = DType::kE4M3; });
  with([](auto&, auto& s) { s.in = DType::kE5M2, s.second = DType::kE4M3; });
  with([](auto&, auto& s) { s.in = DType::kE4M3, s.second = DType::kE5M2; });
  with([](auto&, auto& s) { s.in = s.out = DType::kF32; });
  with([](auto& c, auto& s) { s.in = s.out = DType::kF32, c.tf32 = true; });
  EXPECT_EQ(keys.size(), made);
}

TEST(GemmKey, Tf32ConcernsFloatsAlone) {
  GemmContext tf32 = kContext;
  tf32.tf32 = true;
  EXPECT_EQ(gemm_key(tf32, kShape), gemm_key(kContext, kShape));
}

TEST(GemmChoices, SurviveBeingText) {
  GemmChoices choices;
  choices.set("a", algorithm(1));
  choices.set("b \"quoted\"\n", algorithm(2));
  EXPECT_EQ(GemmChoices::from_json(choices.to_json(), "test"), choices);
  EXPECT_EQ(GemmChoices::from_json(GemmChoices().to_json(), "test").size(), 0u);
}

TEST(GemmChoices, AnothersPrevail) {
  GemmChoices mine, others;
  mine.set("a", algorithm(1));
  mine.set("b", algorithm(2));
  others.set("b", algorithm(3));
  mine.merge(others);
  EXPECT_EQ(mine.find("a"), algorithm(1));
  EXPECT_EQ(mine.find("b"), algorithm(3));
  EXPECT_EQ(mine.find("c"), std::nullopt);
}

TEST(GemmChoices, AnythingElseIsRefused) {
  const std::string good = R"({"format": "recollect gemm choices 1", "choices": {"k": [0,1,2,3,4,5,6,7]}})";
  ASSERT_EQ(GemmChoices::from_json(good, "file").size(), 1u);
  for (const std::string& bad :
       {std::string(""), std::string("null"), std::string("[]"), std::string("{}"),
        good.substr(0, good.size() - 1), good + good, std::string(1000, '['),
        std::string(R"({"format": "recollect gemm choices 2", "choices": {}})"),
        std::string(R"({"format": "recollect gemm choices 1"})"),
        std::string(R"({"format": "recollect gemm choices 1", "choices": []})"),
        std::string(R"({"format": "recollect gemm choices 1", "choices": {}, "more": 1})"),
        std::string(R"({"format": "recollect gemm choices 1", "choices": {"k": 1}})"),
        std::string(R"({"format": "recollect gemm choices 1", "choices": {"k": [0,1,2,3,4,5,6]}})"),
        std::string(R"({"format": "recollect gemm choices 1", "choices": {"k": [0,1,2,3,4,5,6,-7]}})"),
        std::string(R"({"format": "recollect gemm choices 1", "choices": {"k": [0,1,2,3,4,5,6,7.5]}})"),
        std::string(R"({"format": "recollect gemm choices 1", "choices": {"k": [0,1,2,3,4,5,6,"7"]}})"),
        std::string(R"({"format": "recollect gemm choices 1", "choices": {"k": [0,1,2,3,4,5,6,1e30]}})")})
    expect_error(ExitCode::kInput, {"file"}, [&] { GemmChoices::from_json(bad, "file"); });
}

class GemmCacheTest : public ::testing::Test {
 protected:
  std::string path() const { return folder_.path() + "/deep/down/gemm.json"; }

  GemmAlgorithm settle(const std::string& key, uint64_t mine, std::optional<GemmAlgorithm> refused = {}) {
    GemmCache cache(path());
    std::string warning;
    const GemmAlgorithm kept = cache.settle(key, algorithm(mine), refused, warning);
    EXPECT_EQ(warning, "");
    return kept;
  }

  TemporaryFolder folder_;
};

TEST_F(GemmCacheTest, TheFirstChoiceStays) {
  std::string warning;
  EXPECT_EQ(GemmCache(path()).load(warning).size(), 0u);
  EXPECT_EQ(warning, "");
  EXPECT_EQ(settle("a", 1), algorithm(1));
  EXPECT_EQ(settle("a", 2), algorithm(1));
  EXPECT_EQ(settle("b", 3), algorithm(3));
  const GemmChoices choices = GemmCache(path()).load(warning);
  EXPECT_EQ(choices.find("a"), algorithm(1));
  EXPECT_EQ(choices.find("b"), algorithm(3));
}

TEST_F(GemmCacheTest, ARefusedChoiceIsReplacedByTheFirstNewOne) {
  settle("a", 1);
  EXPECT_EQ(settle("a", 2, algorithm(1)), algorithm(2));
  EXPECT_EQ(settle("a", 3, algorithm(1)), algorithm(2));
}

TEST_F(GemmCacheTest, ManyAtOnceAgree) {
  constexpr int kThreads = 8, kKeys = 5;
  std::vector<std::vector<GemmAlgorithm>> kept(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      GemmCache cache(path());
      std::string warning;
      for (int k = 0; k < kKeys; ++k)
        kept[t].push_back(cache.settle("key" + std::to_string(k), algorithm(t), {}, warning));
    });
  for (std::thread& thread : threads) thread.join();
  std::string warning;
  const GemmChoices choices = GemmCache(path()).load(warning);
  EXPECT_EQ(choices.size(), static_cast<std::size_t>(kKeys));
  for (int t = 0; t < kThreads; ++t)
    for (int k = 0; k < kKeys; ++k) EXPECT_EQ(kept[t][k], choices.find("key" + std::to_string(k)));
}

TEST_F(GemmCacheTest, ASpoiltFileIsLeftAloneWithOneWarning) {
  fs::create_directories(folder_.path() + "/deep/down");
  for (const std::string& text :
       {std::string("{\"format\": "), std::string("precious\n"), std::string("\0", 1)}) {
    std::ofstream(path(), std::ios::binary) << text;
    GemmCache cache(path());
    std::string warning;
    EXPECT_EQ(cache.load(warning).size(), 0u);
    EXPECT_NE(warning.find(path()), std::string::npos) << warning;
    warning.clear();
    EXPECT_EQ(cache.settle("a", algorithm(1), {}, warning), algorithm(1));
    EXPECT_EQ(warning, "");
    EXPECT_EQ(TemporaryFolder::read(path()), text);
  }
}

TEST_F(GemmCacheTest, WhatIsNoFileIsNoHarm) {
  fs::create_directories(path());
  std::string warning;
  EXPECT_EQ(GemmCache(path()).load(warning).size(), 0u);
  EXPECT_NE(warning.find("a folder"), std::string::npos) << warning;

  fs::remove(path());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);  // reading it would wait for ever
  EXPECT_EQ(GemmCache(path()).load(warning).size(), 0u);
  EXPECT_NE(warning.find("pipe"), std::string::npos) << warning;
}

TEST_F(GemmCacheTest, AFolderThatCannotBeMadeIsAWarning) {
  std::ofstream(folder_.path() + "/deep") << "a file in the way";
  GemmCache cache(path());
  std::string warning;
  EXPECT_EQ(cache.settle("a", algorithm(1), {}, warning), algorithm(1));
  EXPECT_NE(warning.find("not kept"), std::string::npos) << warning;
}

TEST_F(GemmCacheTest, NothingIsLeftBesideIt) {
  settle("a", 1);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_.path() + "/deep/down"))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"gemm.json", "gemm.json.lock"}));
}

TEST_F(GemmCacheTest, NoPathIsNoFile) {
  GemmCache cache("");
  std::string warning;
  EXPECT_EQ(cache.load(warning).size(), 0u);
  EXPECT_EQ(cache.settle("a", algorithm(1), {}, warning), algorithm(1));
  EXPECT_EQ(warning, "");
}

// Puts an environment variable back.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(GemmCacheFile, StandsInTheUsersCache) {
  const Variable home("HOME", "/home/me");
  {
    const Variable cache("XDG_CACHE_HOME", "/cache");
    EXPECT_EQ(gemm_cache_file(kContext), "/cache/recollect/gemm-NVIDIA-H200-130100.json");
  }
  {
    const Variable cache("XDG_CACHE_HOME", "relative");
    EXPECT_EQ(gemm_cache_file(kContext), "/home/me/.cache/recollect/gemm-NVIDIA-H200-130100.json");
  }
  const Variable cache("XDG_CACHE_HOME", nullptr), none("HOME", nullptr);
  EXPECT_EQ(gemm_cache_file(kContext), "");
}

}  // namespace
}  // namespace recollect::cuda
