// A program that is started again where another one stopped: what it says, what it refuses, and the files that it goes
// on with.
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/core/error.h"
#include "launch/train/metrics.h"
#include "launch/train/tensorboard.h"
#include "tests/launch/process.h"
#include "tests/launch/python.h"

namespace recollect::test::resumed_runs_test {
namespace {

namespace fs = std::filesystem;

// Saves after each two steps, the newest two.
const Words kSaves = {"snapshot.every_steps=2", "memory_report.at=[]", "profiling.step=0"};
const char* const kNewest = "out/snapshots/step-00000004";

Words steps(int count) { return kSaves + Words{"training.max_steps=" + std::to_string(count)}; }

class ResumedRuns : public ::testing::Test {
 protected:
  // Four steps are done and saved.
  void SetUp() override {
    const Finished finished = place_.train(steps(4));
    ASSERT_EQ(finished.status, 0) << finished.err;
  }
  std::string read(const std::string& name) const { return TemporaryFolder::read(place_.file(name)); }
  void damage(const std::string& folder) const {
    const std::string path = place_.file(folder + "/rank-00000.safetensors");
    std::string bytes = TemporaryFolder::read(path);
    bytes[bytes.size() - 3] ^= 1;
    place_.folder().write(folder + "/rank-00000.safetensors", bytes);
  }

  const Workplace place_;
};

void expect_steps(const std::vector<nlohmann::json>& metrics, int count) {
  ASSERT_EQ(metrics.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) EXPECT_EQ(metrics[i]["step"], i + 1);
}

TEST_F(ResumedRuns, GoOnWithTheLosses) {
  const Workplace whole;
  ASSERT_EQ(whole.train(steps(7)).status, 0);
  // As a run that was killed behind step 5 would have left it.
  const std::string lines = read("out/metrics.jsonl");
  place_.folder().write("out/metrics.jsonl", lines + "{\"step\": 5, \"loss\": 1}\n{\"step\": 6, \"lo");
  const Finished finished = place_.train(steps(7));
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.out.find("resumed from out/snapshots/step-00000004 after step 4"), std::string::npos)
      << finished.out;
  const auto snapshots = nlohmann::json::parse(read("out/train_results.json")).at("snapshots");
  EXPECT_EQ(snapshots.at("saved"), 2);  // of steps 6 and 7
  EXPECT_GT(snapshots.at("bytes"), 0);
  const auto metrics = place_.metrics(), expected = whole.metrics();
  expect_steps(metrics, 7);
  for (int i = 0; i < 7; ++i)
    for (const char* key : {"loss", "grad_norm", "learning_rate", "tokens"})
      EXPECT_EQ(metrics[i][key], expected[i][key]) << i << key;
  EXPECT_TRUE(fs::exists(place_.file("out/snapshots/step-00000007")));   // the last step, though it is odd
  EXPECT_FALSE(fs::exists(place_.file("out/snapshots/step-00000002")));  // two are kept
}

TEST_F(ResumedRuns, TakeTheOneBeforeADamagedOne) {
  damage(kNewest);
  const Finished finished = place_.train(steps(5));
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.err.find("a newer snapshot is passed over"), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("step-00000004/rank-00000.safetensors"), std::string::npos) << finished.err;
  EXPECT_NE(finished.out.find("after step 2"), std::string::npos) << finished.out;
  expect_steps(place_.metrics(), 5);
}

TEST_F(ResumedRuns, TakeAFolderWithASlashAndIgnoreWhatTheManifestDoesNotName) {
  place_.folder().write("out/snapshots/step-00000002/rank-00009.safetensors", "none of it");
  for (const char* path : {"out/snapshots/step-00000002/", "./out//snapshots/step-00000002/.",
                           "out/snapshots/step-00000002/manifest.json"}) {
    const Finished finished = place_.train(steps(3) + Words{std::string("resume=") + path, "output_dir=new"});
    ASSERT_EQ(finished.status, 0) << finished.err;
    EXPECT_NE(finished.out.find("out/snapshots/step-00000002 after step 2"), std::string::npos)
        << finished.out;
    EXPECT_EQ(times_in(finished.err,
                       "out/snapshots/step-00000002 has files that its manifest does not name; they are "
                       "ignored: rank-00009.safetensors"),
              1)
        << finished.err;
  }
  const Finished newest = place_.train(steps(5) + Words{"resume=out/snapshots/", "output_dir=newer"});
  EXPECT_NE(newest.out.find("after step 4"), std::string::npos) << newest.out << newest.err;
  EXPECT_EQ(newest.err.find("does not name"), std::string::npos) << newest.err;
}

TEST_F(ResumedRuns, RefuseADamagedOneThatIsNamed) {
  damage(kNewest);
  const Finished finished = place_.train(steps(5) + Words{std::string("resume=") + kNewest});
  EXPECT_EQ(finished.status, 3) << finished.err;
  EXPECT_NE(finished.err.find("rank-00000.safetensors"), std::string::npos) << finished.err;
  damage("out/snapshots/step-00000002");
  const Finished none = place_.train(steps(5));
  EXPECT_EQ(none.status, 3) << none.err;
  EXPECT_NE(none.err.find("no snapshot in out/snapshots can be resumed"), std::string::npos) << none.err;
  EXPECT_EQ(place_.train(steps(3) + Words{"resume=never"}).status, 0);
  expect_steps(place_.metrics(), 3);
}

// What is called after a step and is no snapshot of that step is named, passed over, and makes room for what is saved.
TEST_F(ResumedRuns, TakeNothingThatOnlyHasTheName) {
  const std::string all = place_.file("out/snapshots/");
  place_.folder().write("out/snapshots/step-00000005", "a file");
  fs::create_directory_symlink(place_.file(kNewest), all + "step-00000006");
  fs::copy(place_.file(kNewest), all + "step-00000007");
  const Finished finished = place_.train(steps(5));
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.out.find("resumed from out/snapshots/step-00000004"), std::string::npos) << finished.out;
  for (const char* said : {"cannot open out/snapshots/step-00000005/manifest.json: Not a directory",
                           "out/snapshots/step-00000006 is a symbolic link",
                           "out/snapshots/step-00000007 is called after another step than its manifest's, 4"})
    EXPECT_EQ(times_in(finished.err, said), 1) << said << finished.err;
  EXPECT_EQ(place_.recollect({"snapshot", "verify", "out/snapshots"}).status, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(all), fs::directory_iterator()), 2);  // steps 4 and 5
}

// A run of no step has nothing to go on with, and must not pass fresh weights off as the snapshot's.
TEST_F(ResumedRuns, OfNoStepAreRefused) {
  const Words evaluates = {"training.max_steps=0", "evaluation.every_steps=1", "evaluation.batches=1",
                           "memory_report.at=[]"};
  for (const Words& resumes : {Words{std::string("resume=") + kNewest}, Words{"snapshot.every_steps=2"}}) {
    const Finished finished = place_.train(evaluates + resumes);
    EXPECT_EQ(finished.status, 2) << finished.err;
    EXPECT_NE(finished.err.find("recollect snapshot convert out/snapshots/step-00000004 MODEL --to hf"),
              std::string::npos)
        << finished.err;
  }
  EXPECT_EQ(place_.train(evaluates + Words{"output_dir=new"}).status, 0);
}

TEST_F(ResumedRuns, RefuseWhatDoesNotFit) {
  const auto refused = [&](const Words& words, const char* part) {
    const Finished finished = place_.train(kSaves + words);
    EXPECT_EQ(finished.status, 3) << finished.err;
    EXPECT_NE(finished.err.find(part), std::string::npos) << finished.err;
  };
  refused({"training.max_steps=6", "model.n_embd=32"}, "24");
  refused({"training.max_steps=6", "training.precision=fp32"}, "f64 [61, 24] there, f32 [61, 24] here");
  std::string text = read("c.yaml");
  const std::string sgd = "name: sgd, momentum: 0.9";
  text.replace(text.find(sgd), sgd.size(), "name: adamw");
  place_.folder().write("adamw.yaml", text);
  const Finished other = place_.recollect(Words{"train", "adamw.yaml"} + steps(6));
  EXPECT_EQ(other.status, 3) << other.err;
  EXPECT_NE(other.err.find("/exp_avg"), std::string::npos) << other.err;
  refused({"training.max_steps=3"}, "training.max_steps is 3");
  refused({"training.max_steps=6", "training.global_batch_size=3"},
          "training.global_batch_size 3 does not divide");
  refused({"training.max_steps=6", "resume=elsewhere"}, "there is no snapshot in elsewhere");
  refused({"training.max_steps=6", "resume=c.yaml"}, "there is no snapshot in c.yaml");
  expect_steps(place_.metrics(), 4);  // nothing was replaced
}

TEST_F(ResumedRuns, NameTheKeysThatChangeResults) {
  const Finished same = place_.train(steps(5) + Words{"logging.steps=3"});
  ASSERT_EQ(same.status, 0) << same.err;
  EXPECT_EQ(same.err.find("changed since"), std::string::npos) << same.err;
  const Finished other = place_.train(steps(6) + Words{"optimizer.learning_rate=0.5"});
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_NE(other.err.find("optimizer.learning_rate 0.01 -> 0.5"), std::string::npos) << other.err;
}

TEST(ResumedInputs, NameWhatMakesOtherResults) {
  const Workplace place;
  place.folder().write("text", std::string(400, 'a'));
  const auto train = [&](int count, const Words& words) {
    return place
        .train(steps(count) + Words{"data.format=text", "data.path=text", "model.vocab_size=256"} + words)
        .err;
  };
  const auto says = [](const std::string& err, const std::string& what) {
    EXPECT_NE(err.find("so that results will be others: " + what), std::string::npos) << err;
  };
  EXPECT_EQ(train(4, {}), "");
  EXPECT_EQ(train(5, {}), "");  // the learning rate does not depend on it
  says(train(6, {"scheduler.name=cosine"}), "training.max_steps 5 -> 6, scheduler.name constant -> cosine");
  place.folder().write("text", std::string(400, 'b'));
  says(train(7, {"scheduler.name=cosine"}), "training.max_steps 6 -> 7, what is in data.path");
  EXPECT_EQ(train(7, {"scheduler.name=cosine"}), "");
  place.folder().write("moved", std::string(400, 'b'));
  EXPECT_EQ(train(8, {"data.path=moved", "scheduler.name=cosine"}).find("data.path"), std::string::npos);
}

// What adapters were trained with is in the snapshot, and what they are merged into is not.
TEST(ResumedInputs, TrainNoAdaptersOfAnotherModel) {
  const Workplace place;
  const auto begin = place.train({"output_dir=base", "checkpoint.save_model=true", "training.max_steps=1"});
  ASSERT_EQ(begin.status, 0) << begin.err;
  place.folder().write("tuned.yaml", R"(
model: {pretrained: base}
lora: {rank: 2, merge: true}
device: {backend: reference}
training: {precision: fp64, micro_batch_size: 1}
data: {format: random, sequence_length: 8}
checkpoint: {save_model: true}
logging: {progress: off}
output_dir: out
overwrite: true
resume: auto
)");
  const auto tune = [&](int count, const Words& words) {
    return place.recollect(Words{"train", "tuned.yaml"} + steps(count) + words);
  };
  const Finished first = tune(2, {});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.out.find("merged them into out/merged"), std::string::npos) << first.out;
  std::string weights = TemporaryFolder::read(place.file("base/model.safetensors"));
  weights[weights.size() - 3] ^= 1;
  place.folder().write("base/model.safetensors", weights);
  const Finished refused = tune(3, {});
  EXPECT_EQ(refused.status, 3) << refused.err;
  EXPECT_NE(refused.err.find("model.pretrained base is not the model that the adapters of "
                             "out/snapshots/step-00000002 are of"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(tune(3, {"lora.merge=false"}).status, 3);  // its snapshots would be of neither
}

// A run that died behind its last step's snapshot, before it saved its model.
TEST_F(ResumedRuns, SaveTheModelOfARunThatIsDone) {
  const Workplace whole;
  const Words saves = Words{"checkpoint.save_model=true"} + steps(4);
  ASSERT_EQ(whole.train(saves).status, 0);
  const std::string report = read("out/memory.rank0.json");
  const Finished finished = place_.train(saves);
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.out.find("step 4 of 4 is done: nothing is left to train\n"), std::string::npos);
  EXPECT_EQ(finished.out.find("difference, bytes"), std::string::npos) << finished.out;
  EXPECT_EQ(read("out/memory.rank0.json"), report);
  EXPECT_TRUE(read("out/model.safetensors") == TemporaryFolder::read(whole.file("out/model.safetensors")));
  expect_steps(place_.metrics(), 4);
}

// Found by tests/long/kill_loop.py: there is nothing to go on from, and nothing to lose.
TEST_F(ResumedRuns, BeginAgainWhereTheSameRunDiedBeforeItsFirstSnapshot) {
  const Words same = steps(4) + Words{"overwrite=false"};
  fs::remove_all(place_.file("out"));
  ASSERT_EQ(place_.train(same).status, 0);
  fs::remove_all(place_.file("out/snapshots"));
  place_.folder().write("out/.recollect.lock", "run \nprocess 1 on nowhere\n");
  const Finished finished = place_.train(same);
  EXPECT_EQ(finished.status, 0) << finished.err;
  expect_steps(place_.metrics(), 4);
  EXPECT_FALSE(fs::exists(place_.file("out/earlier")));
  fs::remove_all(place_.file("out/snapshots"));
  place_.folder().write("out/.recollect.lock", "run \nprocess 1 on nowhere\n");
  const Finished other = place_.train(steps(5) + Words{"overwrite=false"});
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_EQ(place_.metrics("out/earlier/1").size(), 4u);
}

TEST_F(ResumedRuns, OtherFilesThereAreStillSafe) {
  // No snapshot, but another run's files: nothing is replaced.
  const std::string metrics = TemporaryFolder::read(place_.file("out/metrics.jsonl"));
  fs::remove_all(place_.file("out/snapshots"));
  const Finished finished = place_.train(steps(5) + Words{"overwrite=false"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(TemporaryFolder::read(place_.file("out/earlier/1/metrics.jsonl")), metrics);
}

// What the classes are called only the data says; a class that is another one now would be taken for the old one.
TEST(ResumedClasses, AreTheSameInTheSameOrder) {
  const Workplace place;
  place.folder().write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
  place.folder().write("empty.yaml", "{}\n");
  const auto train = [&](const char* other, const Words& more) {
    place.folder().write("train.csv", std::string("text,label\na b,yes\nb b,") + other + "\na a,yes\n");
    return place.recollect(Words{"train",
                                 "empty.yaml",
                                 "output_dir=out",
                                 "overwrite=true",
                                 "resume=auto",
                                 "task=sequence_classification",
                                 "model.type=bert",
                                 "model.vocab_size=8",
                                 "model.hidden_size=8",
                                 "model.num_hidden_layers=1",
                                 "model.num_attention_heads=2",
                                 "model.intermediate_size=8",
                                 "model.max_position_embeddings=8",
                                 "model.num_labels=2",
                                 "data.format=csv",
                                 "data.path=train.csv",
                                 "data.tokenizer=vocab.txt",
                                 "data.columns.text=text",
                                 "data.columns.label=label",
                                 "training.micro_batch_size=1",
                                 "logging.progress=off",
                                 "snapshot.every_steps=1",
                                 "device.threads=1"} +
                           more);
  };
  const Finished first = train("no", {"training.max_steps=2"});
  ASSERT_EQ(first.status, 0) << first.err;
  const Finished same = train("no", {"training.max_steps=3"});
  ASSERT_EQ(same.status, 0) << same.err;
  EXPECT_NE(same.out.find("after step 2"), std::string::npos) << same.out;
  EXPECT_EQ(same.err.find("changed since"), std::string::npos) << same.err;
  const Finished other = train("zero", {"training.max_steps=4"});
  EXPECT_EQ(other.status, 3) << other.err;
  EXPECT_NE(
      other.err.find("the data has the classes [\"yes\", zero]; out/snapshots/step-00000003 was trained on "
                     "[\"no\", \"yes\"]"),
      std::string::npos)
      << other.err;
  const Finished turned = train("no", {"training.max_steps=4", "data.labels=[yes, no]"});
  EXPECT_EQ(turned.status, 3) << turned.err;
  const Finished converted = place.recollect({"snapshot", "convert", "out/snapshots", "model", "--to", "hf"});
  ASSERT_EQ(converted.status, 0) << converted.err;
  const auto described = nlohmann::json::parse(TemporaryFolder::read(place.file("model/config.json")));
  EXPECT_EQ(described.at("id2label"), nlohmann::json::parse("{\"0\": \"no\", \"1\": \"yes\"}"));
}

TEST(ResumedTensorBoard, DropsStepsThatAreMadeAgain) {
  const std::string python = python_with("tensorboard.backend.event_processing.event_accumulator");
  if (python.empty()) GTEST_SKIP() << "no python3 here has tensorboard";
  const TemporaryFolder folder;
  for (const int64_t done : {0, 2}) {
    EventFile file(folder.file("events"), done);
    for (int64_t step = done + 1; step < 5; ++step) {
      const Scalar scalar{"loss", static_cast<double>(10 * done + step)};
      ASSERT_TRUE(file.write(step, {&scalar, 1}));
    }
  }
  const Finished read =
      Process({python, RECOLLECT_SOURCE_DIR "/tests/launch/read_events.py", "events"}, folder.path())
          .wait(Workplace::kBound);
  ASSERT_EQ(read.status, 0) << read.err;
  EXPECT_EQ(nlohmann::json::parse(read.out).at("loss"),
            nlohmann::json::parse("[[1, 1.0], [2, 2.0], [3, 23.0], [4, 24.0]]"));
}

// They would be lost: what is written replaces the file.
TEST(ResumedMetrics, OfEarlierStepsThatCannotBeReadEndTheRun) {
  const TemporaryFolder folder;
  fs::create_directory(folder.file("metrics.jsonl"));  // opens, and fails when it is read
  Config config;
  config.output_dir = folder.path();
  try {
    const MetricsLog log(config, 2);
    FAIL() << "the metrics of two steps are gone";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kStorage);
    EXPECT_NE(std::string(error.what()).find("metrics.jsonl cannot be read: "), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace recollect::test::resumed_runs_test
