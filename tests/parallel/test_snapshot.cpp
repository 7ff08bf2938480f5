// Snapshots: what one layout of ranks saves every other one loads, bit for bit; whatever is damaged is found before it is
// used; and the newest whole snapshot stays until another one is.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "engine/io/crc32c.h"
#include "parallel/snapshot/snapshot_reader.h"
#include "parallel/snapshot/snapshot_saver.h"
#include "tests/comm/ranks.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/flip_bit.h"
#include "tests/engine/temporary_folder.h"
#include "tests/parallel/snapshot_rank.h"

namespace recollect::test::snapshot_test {
namespace {

namespace fs = std::filesystem;

// Saves steps in turn, each with its number as content.
void save(const Layout& layout, const std::string& folder, const std::vector<int64_t>& steps,
          bool asynchronous = true, int64_t keep = 9) {
  expect_fine(run_as_threads(layout.ranks, [&](Communicator& world) {
    const Rank rank(world, layout.tensor, 0, layout.divided);
    SnapshotSaver saver({.path = folder,
                         .keep = keep,
                         .asynchronous = asynchronous,
                         .configuration = "task: causal_lm\n",
                         .versions = {{"recollect", "test"}}},
                        rank.state(), rank.mesh());
    for (const int64_t step : steps) {
      rank.fill(static_cast<double>(step));
      saver.begin(progress_at(step));
      if (asynchronous) rank.fill(-1);  // training goes on
      const SnapshotOutcome outcome = saver.finish();
      EXPECT_FALSE(outcome.failed) << outcome.failed->what();
      EXPECT_EQ(outcome.step, step);
    }
  }));
}

std::string folder_of(const std::string& path, int64_t step) { return SnapshotFolder(path).of_step(step); }

class SnapshotLayouts : public testing::TestWithParam<std::tuple<Layout, bool>> {};

TEST_P(SnapshotLayouts, AreLoadedByEveryOtherOne) {
  const auto& [saved, asynchronous] = GetParam();
  const TemporaryFolder folder;
  save(saved, folder.path(), {5}, asynchronous);
  for (const Layout& layout : {Layout{1, 1}, Layout{2, 1}, Layout{2, 2}, Layout{4, 4}, Layout{4, 2},
                               Layout{3, 1, true}, Layout{4, 2, true}})
    expect_fine(run_as_threads(layout.ranks, [&, saved = saved](Communicator& world) {
      const Rank rank(world, layout.tensor, -7, layout.divided);
      SnapshotReader reader(folder_of(folder.path(), 5));
      EXPECT_EQ(reader.manifest().progress, progress_at(5));
      EXPECT_EQ(reader.manifest().ranks.at("tensor"), saved.tensor);
      EXPECT_EQ(reader.manifest().configuration, "task: causal_lm\n");
      reader.load(rank.state());
      rank.expect_filled(5);
    }));
}

INSTANTIATE_TEST_SUITE_P(All, SnapshotLayouts,
                         testing::Combine(testing::Values(Layout{1, 1}, Layout{4, 2}, Layout{4, 4},
                                                          Layout{3, 1}, Layout{3, 1, true},
                                                          Layout{4, 2, true}),
                                          testing::Bool()),
                         [](const auto& info) {
                           const Layout layout = std::get<0>(info.param);
                           return std::to_string(layout.ranks) + "Ranks" + std::to_string(layout.tensor) +
                                  "Tensor" + (layout.divided ? "Divided" : "") +
                                  (std::get<1>(info.param) ? "Copied" : "InPlace");
                         });

TEST(Snapshots, AreSavedOnceAndEvenly) {
  for (const bool divided : {false, true})
    expect_fine(run_as_threads(4, [&](Communicator& world) {
      const Rank rank(world, 2, 0, divided);
      uint64_t all = 0, whole = 0, most = 0;
      for (int r = 0; r < 4; ++r) {
        uint64_t bytes = 0;
        for (const TrainingState::Part& part : rank.state().saved_by(r)) bytes += part.bytes;
        all += bytes;
        most = std::max(most, bytes);
      }
      for (const StateTensor& tensor : rank.state().tensors()) whole += tensor.bytes();
      EXPECT_EQ(all, whole);
      EXPECT_LE(most, whole / 2);  // two halves of the vocabulary are of two moments and the master
    }));
}

TEST(Snapshots, TheOldestGo) {
  const TemporaryFolder folder;
  save({2, 2}, folder.path(), {1, 2, 3, 4}, true, 2);
  EXPECT_EQ(SnapshotFolder(folder.path()).steps(), (std::vector<int64_t>{4, 3}));
  save({1, 1}, folder.path(), {4}, true, 2);  // again, by another run
  EXPECT_EQ(SnapshotFolder(folder.path()).steps(), (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(SnapshotReader(folder_of(folder.path(), 4)).manifest().files.size(), 1u);
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.path())) ++entries;
  EXPECT_EQ(entries, 2u) << "and nothing else is left";
}

// A run that begins anew beside another one's, or that has passed over what was damaged: nobody goes on from those later.
TEST(Snapshots, ThoseOfLaterStepsGo) {
  const TemporaryFolder folder;
  save({1, 1}, folder.path(), {7, 8, 9});
  save({1, 1}, folder.path(), {2}, true, 2);
  EXPECT_EQ(SnapshotFolder(folder.path()).steps(), (std::vector<int64_t>{2}));
}

// Any bit of any file: nothing is loaded that is not what was saved.
TEST(Snapshots, DamageIsFound) {
  const TemporaryFolder folder;
  save({2, 2}, folder.path(), {5}, true);
  const std::string snapshot = folder_of(folder.path(), 5);
  const auto load = [&] {
    SnapshotReader reader(snapshot);
    reader.verify();
  };
  load();
  for (const char* name : {"manifest.json", "rank-00000.safetensors", "rank-00001.safetensors"}) {
    const std::string path = snapshot + "/" + name;
    const uint64_t bytes = fs::file_size(path);
    for (uint64_t at = 0; at < bytes; at += 1 + bytes / 61) {
      if (path.ends_with("json") && at + 1 >= bytes) continue;  // the last line's end means nothing
      flip_bit(path, at);
      expect_error(ExitCode::kInput, {}, load);
      flip_bit(path, at);
    }
    load();
    for (const uint64_t left : {bytes - 1, bytes / 2, uint64_t{9}, uint64_t{0}}) {
      const std::string kept = folder.file("kept");
      fs::copy_file(path, kept);
      fs::resize_file(path, left);
      if (!(path.ends_with("json") && left + 1 == bytes)) expect_error(ExitCode::kInput, {}, load);
      fs::rename(kept, path);
    }
    fs::rename(path, path + ".away");
    expect_error(ExitCode::kInput, {}, load);
    fs::rename(path + ".away", path);
  }
  load();
}

Manifest small_manifest() {
  const StateTensor whole{.name = "w", .dtype = DType::kF32, .rows = 4, .columns = 2, .vector = false};
  return {
      .progress = progress_at(3),
      .ranks = {{"tensor", 2}},
      .versions = {},
      .configuration = "",
      .files = {{"rank-00000.safetensors", 10, {1}}, {"rank-00001.safetensors", kSummedBytes + 1, {1, 2}}},
      .tensors = {{whole, {{0, "w@0,0", {0, 3, 0, 2}}, {1, "w@3,0", {3, 1, 0, 2}}}}}};
}

// With a good check sum, so that the content is what is looked at.
std::string edited(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  const std::string mark = ",\n\"crc32c\": \"";
  text.resize(text.rfind(mark));
  char sum[9];
  std::snprintf(sum, sizeof(sum), "%08x", crc32c(text));
  return text + mark + sum + "\"}\n";
}

TEST(SnapshotManifests, SayWhatTheyWereMadeOf) {
  const std::string text = to_json(small_manifest());
  EXPECT_EQ(to_json(parse_manifest(text, "m")), text);
  EXPECT_EQ(parse_manifest(text, "m").progress, progress_at(3));
}

TEST(SnapshotManifests, KnowTheBestEvaluation) {
  Manifest manifest = small_manifest();
  EXPECT_EQ(to_json(manifest).find("best"), std::string::npos) << "as before there was one";
  manifest.progress.best = {"loss", 2, 0.1 + 0.2, 1};
  const std::string text = to_json(manifest);
  EXPECT_EQ(parse_manifest(text, "m").progress, manifest.progress) << "to the last bit";
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"\"step\":2", "\"step\":4"},
                                 {"\"not_better\":1", "\"not_better\":-1"},
                                 {"\"metric\":\"loss\"", "\"metric\":3"}}) {
    const std::string wrong = edited(text, from, to);
    expect_error(ExitCode::kInput, {"m: "}, [&] { parse_manifest(wrong, "m"); });
  }
}

TEST(SnapshotManifests, AreRefusedWhereTheyMakeNoSense) {
  const std::string text = to_json(small_manifest());
  const std::pair<std::string, std::string> edits[] = {
      {"\"version\": 1", "\"version\": 2"},
      {"recollect snapshot", "another thing"},
      {"rank-00000.safetensors", "../evil"},
      {"rank-00000.safetensors", ".hidden"},
      {"rank-00001.safetensors", "rank-00000.safetensors"},
      {"[\"00000001\"]", "[]"},
      {"\"00000001\"]", "\"0000001\"]"},
      {"[0,3,0,2]", "[0,2,0,2]"},
      {"[0,3,0,2]", "[0,3,0,1]"},
      {"[0,3,0,2]", "[1,2,0,2]"},
      {"[0,3,0,2]", "[0,4,0,2]"},
      {"[0,3,0,2]", "[-1,4,0,2]"},
      {"[0,3,0,2]", "[0,9223372036854775807,0,2]"},
      {"[4,2]", "[9223372036854775807,4]"},
      {"\"file\":1", "\"file\":2"},
      {"\"F32\"", "\"F33\""},
      {"\"step\":3", "\"step\":1"},
      {"\"step\":3", "\"step\":25"},
      {"\"tensor\":2}", "\"tensor\":0}"},
      {"\"tensor\":2}", "\"tensor\":1}"},
      {"\"tensor\":2}", "\"tensor\":4294967297}"},
      {"\"tensor\":2}", "\"data\":2,\"tensor\":2}"},
      {"24,\"step\":3", "9223372036854775807,\"step\":9223372036854775807"},
      {"\"step\":3", "\"step\":3.5"},
      {"\"loss_scale\":1024.0", "\"loss_scale\":-1"}};
  for (const auto& [from, to] : edits) {
    SCOPED_TRACE(from + " -> " + to);
    expect_error(ExitCode::kInput, {"m: "},
                 [&, &from = from, &to = to] { parse_manifest(edited(text, from, to), "m"); });
  }
  for (std::size_t end = 0; end + 1 < text.size(); end += 3)
    expect_error(ExitCode::kInput, {}, [&] { parse_manifest(text.substr(0, end), "m"); });
}

TEST(Snapshots, OfAnotherModelAreRefused) {
  const TemporaryFolder folder;
  save({1, 1}, folder.path(), {5});
  const std::string path = folder_of(folder.path(), 5) + "/manifest.json";
  std::string text = [&] {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  text = edited(text, "\"name\":\"norm.bias\"", "\"name\":\"other.bias\"");
  std::ofstream(path) << text;
  const auto self = make_self_communicator();
  const Rank rank(*self, 1, 0);
  SnapshotReader reader(folder_of(folder.path(), 5));
  expect_error(ExitCode::kInput, {"missing: norm.bias", "unknown: \"other.bias\""},
               [&] { reader.load(rank.state()); });
}

// A file where the folder was: the save fails on every rank, and the next one is good again.
TEST(Snapshots, AFailedSaveLeavesTheLastOne) {
  const TemporaryFolder folder;
  const std::string path = folder.file("snapshots"), away = folder.file("away");
  save({2, 1}, path, {1});
  expect_fine(run_as_threads(2, [&](Communicator& world) {
    const Rank rank(world, 1, 2);
    SnapshotSaver saver({.path = path, .keep = 2, .asynchronous = true, .configuration = {}, .versions = {}},
                        rank.state(), rank.mesh());
    if (world.rank() == 0) {
      fs::rename(path, away);
      std::ofstream(path) << "in the way";
    }
    saver.begin(progress_at(2));
    const SnapshotOutcome outcome = saver.finish();
    ASSERT_TRUE(outcome.failed);
    EXPECT_EQ(outcome.failed->code(), ExitCode::kStorage);
    EXPECT_EQ(std::string(outcome.failed->what()).find("rank 0: cannot make the folder " + path), 0u)
        << outcome.failed->what();
    EXPECT_FALSE(saver.busy());
    world.barrier();
    if (world.rank() == 0) {
      fs::remove(path);
      fs::rename(away, path);
    }
    saver.begin(progress_at(3));
    EXPECT_FALSE(saver.finish().failed);
  }));
  EXPECT_EQ(SnapshotFolder(path).steps(), (std::vector<int64_t>{3, 1}));
  for (const int64_t step : {1, 3}) SnapshotReader(folder_of(path, step)).verify();
}

TEST(Crc32c, IsTheSameInPieces) {
  const std::string text = "123456789";
  EXPECT_EQ(crc32c(text), 0xe3069283u);  // the published check value
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(crc32c(text.substr(cut), crc32c(text.substr(0, cut))), 0xe3069283u);
}

// One byte after the other, without what makes many bytes quick.
uint32_t slow_crc32c(std::string_view bytes, uint32_t before) {
  for (std::size_t i = 0; i < bytes.size(); ++i) before = crc32c(bytes.substr(i, 1), before);
  return before;
}

TEST(Crc32c, OfManyBytesIsThatOfEachByte) {
  std::string text(70000, '\0');
  std::mt19937 random(3);
  for (char& c : text) c = static_cast<char>(random());
  for (const std::size_t bytes : {0, 7, 4096, 16383, 16384, 16385, 32768, 65543, 70000}) {
    const std::string_view some = std::string_view(text).substr(text.size() - bytes);
    for (const uint32_t before : {0u, 0x12345678u})
      EXPECT_EQ(crc32c(some, before), slow_crc32c(some, before)) << bytes;
  }
}

}  // namespace
}  // namespace recollect::test::snapshot_test
