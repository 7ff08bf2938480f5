// The output folder belongs to one run at a time, and what lies there is replaced only by who may.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>

#include "launch/config/read.h"
#include "launch/ranks/world.h"
#include "launch/train/planned_files.h"
#include "tests/launch/run_support.h"

namespace recollect::test::output_folder_test {
namespace {

namespace fs = std::filesystem;

const Words kKeep = {"overwrite=false"};

std::string content(const Workplace& place, const std::string& name) {
  return TemporaryFolder::read(place.file(name));
}

// What somebody does all day: the configuration is edited, and the run started again.
TEST(OutputFolder, OfTheRunBeforeMovesAway) {
  const Workplace place;
  const Words all = kKeep + Words{"checkpoint.save_model=true", "checkpoint.save_best_model=true",
                                  "evaluation.every_steps=1", "evaluation.batches=1",
                                  "logging.report_to=[jsonl,tensorboard]"};
  ASSERT_EQ(place.train(all + Words{"snapshot.every_steps=1"}).status, 0);
  place.folder().write("out/notes.txt", "mine");
  std::map<std::string, std::string> before;
  for (const auto& entry : fs::recursive_directory_iterator(place.file("out")))
    if (const std::string name = entry.path().lexically_relative(place.file("out"));
        entry.is_regular_file() && name != "notes.txt")
      before[name] = TemporaryFolder::read(entry.path());
  const auto expect_whole = [&](const std::string& folder) {
    std::size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(place.file(folder)))
      files += entry.is_regular_file() ? 1 : 0;
    EXPECT_EQ(files, before.size());
    for (const auto& [name, text] : before) EXPECT_TRUE(content(place, folder + "/" + name) == text) << name;
  };
  const Finished second = place.train(all + Words{"training.seed=8"});  // which saves no snapshots
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_NE(second.out.find("out/earlier/1 holds the files of the run that was in out before\n"),
            std::string::npos)
      << second.out;
  expect_whole("out/earlier/1");
  EXPECT_EQ(content(place, "out/notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(place.file("out/snapshots")));
  const Words anew = kKeep + Words{"snapshot.every_steps=1", "resume=never"};
  EXPECT_EQ(place.train(anew + Words{"training.seed=9"}).status, 0);
  EXPECT_TRUE(fs::exists(place.file("out/earlier/2/model.safetensors")));
  EXPECT_FALSE(fs::exists(place.file("out/model.safetensors")));
  const Finished fourth = place.train(anew + Words{"training.max_steps=3"});
  EXPECT_EQ(fourth.status, 0) << fourth.err;
  EXPECT_EQ(fourth.err.find("replaces"), std::string::npos) << fourth.err;
  EXPECT_TRUE(fs::exists(place.file("out/earlier/3/snapshots/step-00000002/manifest.json")));
  EXPECT_EQ(place.metrics().size(), 3u);
  EXPECT_EQ(place.metrics("out/earlier/3").size(), 2u);
  expect_whole("out/earlier/1");
}

// What the next run reads, or cannot be told from the user's own files, stays where it is.
TEST(OutputFolder, ThatARunReadsFromIsRefused) {
  const Workplace place;
  const Words saves =
      kKeep + Words{"checkpoint.save_model=true", "snapshot.every_steps=1", "snapshot.path=elsewhere"};
  ASSERT_EQ(place.train(saves).status, 0);
  const std::string model = content(place, "out/model.safetensors");
  const auto expect_refused = [&](const Words& words, const std::string& said) {
    const Finished refused = place.train(kKeep + words);
    EXPECT_EQ(refused.status, 6) << refused.err;
    for (const std::string& part :
         {std::string("config.json"), said,
          std::string("name another output_dir, or let them be replaced: overwrite: true, or --overwrite")})
      EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
    EXPECT_EQ(content(place, "out/model.safetensors"), model);
    EXPECT_FALSE(fs::exists(place.file("out/earlier")));
  };
  expect_refused({"model.pretrained=out"}, "; and this one reads out/config.json");
  expect_refused({"activation_checkpointing.plan=./out/plan.yaml"}, "; and this one reads ./out/plan.yaml");
  expect_refused(saves + Words{"resume=never"}, "; and snapshot.path elsewhere holds snapshots already");
  fs::remove(place.file("out/config.resolved.yaml"));
  expect_refused({}, "out holds files that a run would replace: ");
}

TEST(OutputFolder, OfARefusedRunHasItsFilesAgain) {
  const Workplace place;
  ASSERT_EQ(place.train(kKeep + Words{"snapshot.every_steps=1"}).status, 0);
  const Finished refused =
      place.train(kKeep + Words{"snapshot.every_steps=1", "resume=never", "snapshot.keep=65536",
                                "model.n_embd=256", "model.n_layer=4"});
  EXPECT_EQ(refused.status, 6) << refused.err;
  EXPECT_NE(refused.err.find("snapshots need "), std::string::npos) << refused.err;
  for (const char* name : {"config.resolved.yaml", "metrics.jsonl", "snapshots/step-00000002/manifest.json"})
    EXPECT_TRUE(fs::exists(place.file(std::string("out/") + name))) << name;
  EXPECT_FALSE(fs::exists(place.file("out/earlier")));
}

// A run died while it moved the files of the one before.
TEST(OutputFolder, GoesOnWithAMoveThatWasCutOff) {
  const Workplace place;
  ASSERT_EQ(place.train(kKeep).status, 0);
  fs::create_directories(place.file("out/earlier/1"));
  fs::rename(place.file("out/metrics.jsonl"), place.file("out/earlier/1/metrics.jsonl"));
  ASSERT_EQ(place.train(kKeep + Words{"training.seed=8"}).status, 0);
  EXPECT_EQ(place.metrics("out/earlier/1").size(), 2u);
  EXPECT_TRUE(fs::exists(place.file("out/earlier/1/config.resolved.yaml")));
  EXPECT_FALSE(fs::exists(place.file("out/earlier/2")));
}

TEST(OutputFolder, IsReplacedWhereThatIsSaid) {
  const Workplace place;
  ASSERT_EQ(place.train(kKeep).status, 0);
  const std::string metrics = content(place, "out/metrics.jsonl");
  std::string text = content(place, "c.yaml");
  text.resize(text.find("overwrite:"));
  place.folder().write("c.yaml", text);
  const Finished third = place.train({"training.seed=8", "--overwrite"});
  EXPECT_EQ(third.status, 0) << third.err;
  EXPECT_NE(content(place, "out/metrics.jsonl"), metrics);
  EXPECT_FALSE(fs::exists(place.file("out/earlier")));
}

// Nor does it go on from snapshots that it may replace, unless that is said.
TEST(OutputFolder, ThatIsReplacedBeginsAnew) {
  const Workplace place;
  std::string text = content(place, "c.yaml");
  text.resize(text.find("overwrite:"));
  place.folder().write("c.yaml", text);
  const Words saves = {"snapshot.every_steps=1", "snapshot.keep=9"};
  ASSERT_EQ(place.train(saves).status, 0);
  const Finished anew = place.train(saves + Words{"--overwrite", "training.max_steps=1", "training.seed=8"});
  EXPECT_EQ(anew.status, 0) << anew.err;
  EXPECT_NE(anew.out.find("trained 1 step"), std::string::npos) << anew.out;
  EXPECT_NE(
      anew.err.find("out/snapshots has snapshots of later steps, which the first one of this run replaces"),
      std::string::npos)
      << anew.err;
  EXPECT_FALSE(fs::exists(place.file("out/snapshots/step-00000002")));
  const Finished on = place.train(saves + Words{"--overwrite", "training.seed=8", "resume=auto"});
  EXPECT_EQ(on.status, 0) << on.err;
  EXPECT_NE(on.out.find("resumed from out/snapshots/step-00000001 after step 1"), std::string::npos)
      << on.out;
}

TEST(OutputFolder, WithoutFilesOfARunIsFree) {
  const Workplace place;
  fs::create_directory(place.file("out"));
  place.folder().write("out/notes.txt", "mine");
  const Finished run = place.train(kKeep);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(content(place, "out/notes.txt"), "mine");
}

TEST(OutputFolder, IsTouchedOnlyWhenTheRunIsAccepted) {
  const Workplace place;
  ASSERT_EQ(place.train({}).status, 0);
  const std::string before = content(place, "out/config.resolved.yaml");
  EXPECT_EQ(place.train({"device.memory_limit=1KiB"}).status, 4);
  EXPECT_EQ(place.train({"data.format=jsonl", "data.path=nothing.jsonl"}).status, 3);
  EXPECT_EQ(content(place, "out/config.resolved.yaml"), before);
  EXPECT_EQ(place.train({"device.memory_limit=1KiB", "output_dir=new"}).status, 4);
  EXPECT_EQ(place.train({"data.format=jsonl", "data.path=nothing.jsonl", "output_dir=new"}).status, 3);
  EXPECT_FALSE(fs::exists(place.file("new")));
}

// What is refused when all else is accepted leaves nothing that would refuse the next try.
TEST(OutputFolder, OfARefusedRunIsFree) {
  const Workplace place;
  for (const Words& refused : {Words{"snapshot.path=/proc/none"},
                               Words{"snapshot.keep=65536", "model.n_embd=256", "model.n_layer=4"}}) {
    const Finished first = place.train(kKeep + Words{"snapshot.every_steps=1"} + refused);
    EXPECT_EQ(first.status, 6) << first.err;
    EXPECT_FALSE(fs::exists(place.file("out/config.resolved.yaml")));
    EXPECT_FALSE(fs::exists(place.file("out/.recollect.lock")));
  }
  const Finished second = place.train(kKeep + Words{"snapshot.every_steps=1"});
  EXPECT_EQ(second.status, 0) << second.err;
}

TEST(OutputFolder, OfAFailedFirstWriteIsFree) {
  const Workplace place;
  fs::create_directories(place.file("out/plan.yaml/in the way"));
  EXPECT_EQ(place.train({}).status, 6);
  fs::remove_all(place.file("out/plan.yaml"));
  const Finished second = place.train(kKeep);
  EXPECT_EQ(second.status, 0) << second.err;
}

// A run whose folder was renamed writes nothing to the one that the next run has made under the old name.
TEST(OutputFolder, ThatIsRenamedKeepsItsRun) {
  const Workplace place;
  const Words saves = {"snapshot.every_steps=1000000", "logging.steps=1000"};
  Process first(Words{recollect_binary(), "train", "c.yaml", "training.max_steps=2000000"} + saves,
                place.folder().path());
  ASSERT_TRUE(wait_until([&] { return times_in(content(place, "out/metrics.jsonl"), "\n") > 2; }));
  fs::rename(place.file("out"), place.file("moved"));
  const Workplace elsewhere;
  const Finished second = Process(Words{recollect_binary(), "train", place.file("c.yaml"), "overwrite=false",
                                        "output_dir=" + place.file("out")} +
                                      saves,
                                  elsewhere.folder().path())
                              .wait(Workplace::kBound);
  ASSERT_EQ(second.status, 0) << second.err;
  ::kill(first.pid(), SIGUSR1);
  const Finished finished = first.wait(Workplace::kBound);
  EXPECT_EQ(finished.status, 6) << finished.err;
  EXPECT_NE(finished.err.find("out/snapshots is another folder than the one that this run began to save in"),
            std::string::npos)
      << finished.err;
  const auto entries = [&](const char* folder) {
    return std::distance(fs::directory_iterator(place.file(folder)), fs::directory_iterator());
  };
  EXPECT_EQ(entries("out/snapshots"), 1);
  EXPECT_TRUE(fs::exists(place.file("out/snapshots/step-00000002/manifest.json")));
  EXPECT_EQ(entries("moved/snapshots"), 0);
}

TEST(OutputFolder, HasOneRunAtATime) {
  const Workplace place;
  Process first({recollect_binary(), "train", "c.yaml", "training.max_steps=2000000", "logging.steps=1000"},
                place.folder().path());
  const auto lines = [&] { return times_in(content(place, "out/metrics.jsonl"), "\n"); };
  ASSERT_TRUE(wait_until([&] { return lines() > 2; }));
  const Workplace elsewhere;  // the second process's own standard streams
  const Finished second = Process({recollect_binary(), "train", place.file("c.yaml"), "--overwrite",
                                   "output_dir=" + place.file("out")},
                                  elsewhere.folder().path())
                              .wait(Workplace::kBound);
  EXPECT_EQ(second.status, 6) << second.err;
  EXPECT_NE(second.err.find("another run is writing to "), std::string::npos) << second.err;
  EXPECT_NE(second.err.find("process " + std::to_string(first.pid()) + " on "), std::string::npos)
      << second.err;
  const int before = lines();
  ASSERT_TRUE(wait_until([&] { return lines() > before; })) << "the first run was disturbed";
  ::kill(first.pid(), SIGKILL);
  first.wait(Workplace::kBound);
  EXPECT_EQ(place.train({}).status, 0) << "a dead run has no lock";
  EXPECT_EQ(place.metrics().size(), 2u);
}

TEST(OutputFolder, SnapshotsOfTwoRunsDoNotMix) {
  const Workplace place;
  const Words saves = {"snapshot.every_steps=1", "snapshot.path=shared", "logging.steps=1000"};
  Process first(Words{recollect_binary(), "train", "c.yaml", "training.max_steps=2000000"} + saves,
                place.folder().path());
  ASSERT_TRUE(wait_until([&] { return times_in(content(place, "out/metrics.jsonl"), "\n") > 2; }));
  const Workplace elsewhere;
  ASSERT_EQ(elsewhere.train({}).status, 0);
  const std::string before = content(elsewhere, "out/config.resolved.yaml");
  const Words second{"snapshot.every_steps=1", "resume=never", "snapshot.path=" + place.file("shared")};
  const Finished refused = elsewhere.train(second);
  EXPECT_EQ(refused.status, 6) << refused.err;
  EXPECT_NE(refused.err.find("another run saves its snapshots in " + place.file("shared")), std::string::npos)
      << refused.err;
  EXPECT_EQ(content(elsewhere, "out/config.resolved.yaml"), before) << "it has replaced what was there";
  ::kill(first.pid(), SIGKILL);
  first.wait(Workplace::kBound);
  EXPECT_EQ(elsewhere.train(second).status, 0);
}

// The second attempt of one launch, but not another launch, may go on where the first has left its files.
TEST(OutputFolder, IsTheLaunchsOwnAfterARestart) {
  const std::string failing =
      recollect_binary() +
      " train c.yaml overwrite=false device.backend=cpu training.precision=fp32 $( [ "
      "$TORCHELASTIC_RESTART_COUNT = 0 ] && echo optimizer.learning_rate=1e30 optimizer.max_grad_norm=0 )";
  Launch launch(Words{"--max-restarts=1", "--no-python"} + shell(failing));
  const Finished finished = launch.finish();
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.err.find("restart 1 of 1"), std::string::npos) << finished.err;
  EXPECT_EQ(launch.place().metrics().size(), 2u);
  Workplace place;
  ASSERT_EQ(place.train(Words{"optimizer.learning_rate=1e300", "optimizer.max_grad_norm=0"}).status, 7);
  const Finished other = place.train(kKeep, {{"TORCHELASTIC_RESTART_COUNT", "1"}, {"RECOLLECT_LAUNCH", "x"}});
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_TRUE(fs::exists(place.file("out/earlier/1/config.resolved.yaml")));
}

TEST(OutputFolder, OfAFailedRunHoldsNoLock) {
  const Workplace place;
  ASSERT_EQ(place.train(Words{"optimizer.learning_rate=1e300", "optimizer.max_grad_norm=0"}).status, 7);
  EXPECT_TRUE(fs::exists(place.file("out/config.resolved.yaml")));
  EXPECT_FALSE(fs::exists(place.file("out/.recollect.lock")));
}

TEST(OutputFolder, ASnapshotByHardLinksKeepsTheOldRun) {
  const Workplace place;
  ASSERT_EQ(place.train({}).status, 0);
  const std::string before = content(place, "out/metrics.jsonl");
  fs::create_hard_link(place.file("out/metrics.jsonl"), place.file("snapshot.jsonl"));
  ASSERT_EQ(place.train({"training.seed=8"}).status, 0);
  EXPECT_EQ(content(place, "snapshot.jsonl"), before);
  EXPECT_NE(content(place, "out/metrics.jsonl"), before);
}

TEST(OutputFolder, IsWrittenThroughNoLink) {
  const Workplace place;
  for (const char* name : {"config.resolved.yaml", "plan.yaml", "report.html", "config.json"}) {
    place.folder().write(std::string("elsewhere/") + name, "kept");
    fs::create_directories(place.file("out"));
    fs::create_symlink(place.file(std::string("elsewhere/") + name), place.file(std::string("out/") + name));
  }
  place.folder().write("out/.model.safetensors.0.recollect.tmp", "a dead run's");
  place.folder().write("out/.memory.rank7.json.0.recollect.tmp", "a dead run's");
  const Finished run = place.train({"checkpoint.save_model=true"});
  ASSERT_EQ(run.status, 0) << run.err;
  for (const auto& entry : fs::directory_iterator(place.file("elsewhere")))
    EXPECT_EQ(TemporaryFolder::read(entry.path()), "kept") << entry.path();
  for (const auto& entry : fs::directory_iterator(place.file("out")))
    EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path();
  fs::remove(place.file("out/metrics.jsonl"));
  const std::string log = place.folder().write("elsewhere/metrics.jsonl", "kept");
  fs::create_symlink(log, place.file("out/metrics.jsonl"));
  EXPECT_EQ(place.train({}).status, 6);
  EXPECT_EQ(TemporaryFolder::read(log), "kept");
}

// What is checked against the free space of the disk is no less than what is written.
TEST(OutputFolder, HasRoomForAllThatWillBeWritten) {
  for (const Words& words :
       {Words{"checkpoint.save_model=true", "training.max_steps=40", "evaluation.every_steps=1",
              "evaluation.batches=1", "logging.report_to=[jsonl,tensorboard,mlflow]"},
        Words{"model.n_layer=12", "parallelism.ranks_per_process=4", "parallelism.tensor_parallel_size=2",
              "activation_checkpointing.mode=full", "activation_checkpointing.cpu_checkpointing=true"}}) {
    const Workplace place;
    const Finished run = place.train(words);
    ASSERT_EQ(run.status, 0) << run.err;
    Config config = read_config(place.file("out/config.resolved.yaml"));
    std::unique_ptr<MpiEnvironment> mpi;
    std::vector<PlannedFile> planned;
    run_ranks(config, mpi, [&](Communicator& world) {
      const Session session(config, world);
      if (world.rank() == 0) planned = planned_files(config, session, content(place, "out/plan.yaml").size());
    });
    uint64_t room = 0, written = 0;
    for (const PlannedFile& file : planned) room += file.bytes;
    for (const auto& entry : fs::recursive_directory_iterator(place.file("out")))
      if (entry.is_regular_file()) written += entry.file_size();
    EXPECT_LE(written, room);
    EXPECT_GE(40 * written, room) << "a bound that refuses what would fit";
  }
}

}  // namespace
}  // namespace recollect::test::output_folder_test
