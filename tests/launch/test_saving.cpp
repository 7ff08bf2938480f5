// A trained model is not lost: not to a slow disk, a full one, or a folder that goes; and only a good one is
// saved.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "launch/config/read.h"
#include "launch/ranks/world.h"
#include "tests/launch/run_support.h"
#include "tests/launch/training_harness.h"
#include "tests/launch/without_threads.h"

namespace recollect::test::saving_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

const Words kSave = {"checkpoint.save_model=true"};

// Matrices of several tiles, and a vocabulary that two and four ranks pad.
const char* const kTilesYaml = R"(
model: {vocab_size: 1001, n_positions: 12, n_embd: 192, n_layer: 1, n_head: 4, initializer_range: 0.2}
device: {backend: reference}
training: {precision: fp64, micro_batch_size: 1, global_batch_size: 4, max_steps: 1, seed: 7}
data: {format: random, sequence_length: 8}
checkpoint: {save_model: true}
)";

// Calls `body` with the session of every rank.
void with_sessions(const char* yaml, const Words& words, const std::function<void(Session&)>& body) {
  on_ranks(read_config_text("test.yaml", yaml, words),
           [&](const Config&, Session& session) { body(session); });
}

Words ranks(int data, int tensor) {
  return {"parallelism.data_parallel_size=" + std::to_string(data),
          "parallelism.tensor_parallel_size=" + std::to_string(tensor),
          "parallelism.ranks_per_process=" + std::to_string(data * tensor)};
}

void declare_parameters(SafetensorsWriter& file, const Session& session) {
  const Model& model = session.training_program().model;
  for (const Parameter& p : model.parameters)
    for (const Parameter::FileTensor& tensor : p.file_tensors())
      file.declare(model.files.in_file(tensor.name), session.executor().tensor(p.master).dtype,
                   p.file_shape(tensor));
}

TEST(Saving, EveryLayoutWritesTheSameFile) {
  const TemporaryFolder folder;
  with_sessions(kTilesYaml, {}, [&](Session& session) {
    ASSERT_FALSE(session.weights().save(session.weights().begin_file(folder.file("one")).get()));
    const Tensors saved = read_tensors(folder.file("one"), "");
    for (const Parameter& p : session.training_program().model.parameters) {
      const auto* held = session.executor().tensor(p.master).as<double>();
      const std::vector<double>& file = saved.at(session.training_program().model.files.in_file(p.name));
      ASSERT_EQ(file.size(), static_cast<std::size_t>(p.rows * p.columns));
      int64_t wrong = 0;
      for (int64_t r = 0; r < p.rows; ++r)
        for (int64_t c = 0; c < p.columns; ++c)
          wrong += file[p.transposed_in_file ? c * p.rows + r : r * p.columns + c] != held[r * p.columns + c];
      EXPECT_EQ(wrong, 0) << p.name;
    }
  });
  const std::string one = TemporaryFolder::read(folder.file("one"));
  for (const auto& [data, tensor] : {std::pair(1, 2), std::pair(2, 2), std::pair(1, 4)}) {
    const std::string path = folder.file(std::to_string(data) + "x" + std::to_string(tensor));
    with_sessions(kTilesYaml, ranks(data, tensor), [&](Session& session) {
      std::unique_ptr<SafetensorsWriter> file;
      if (session.mesh().world().rank() == 0) file = session.weights().begin_file(path);
      EXPECT_FALSE(session.weights().save(file.get()));
    });
    EXPECT_TRUE(TemporaryFolder::read(path) == one) << data << " x " << tensor;
  }
}

// A disk that sleeps in the middle of a file, and at its end.
class SlowFile final : public SafetensorsWriter {
 public:
  SlowFile(const std::string& path, std::chrono::milliseconds time) : SafetensorsWriter(path), time_(time) {}
  void write_at(std::size_t index, uint64_t offset, std::span<const std::byte> bytes) override {
    if (index == 3 && offset == 0) std::this_thread::sleep_for(time_);
    SafetensorsWriter::write_at(index, offset, bytes);
  }
  void finish() override {
    std::this_thread::sleep_for(time_);
    SafetensorsWriter::finish();
  }

 private:
  const std::chrono::milliseconds time_;
};

TEST(Saving, MayTakeLongerThanTheTimeout) {
  const TemporaryFolder folder;
  const Words words = ranks(2, 2) + Words{"parallelism.timeout_seconds=1"};
  with_sessions(kTilesYaml, words, [&](Session& session) {
    std::unique_ptr<SafetensorsWriter> file;
    if (session.mesh().world().rank() == 0) {
      file = std::make_unique<SlowFile>(folder.file("slow"), 1500ms);
      declare_parameters(*file, session);
    }
    EXPECT_FALSE(session.weights().save(file.get()));
  });
  with_sessions(kTilesYaml, {}, [&](Session& session) {
    EXPECT_FALSE(session.weights().save(session.weights().begin_file(folder.file("one")).get()));
  });
  EXPECT_TRUE(TemporaryFolder::read(folder.file("slow")) == TemporaryFolder::read(folder.file("one")));
}

TEST(Saving, NeedsNoThread) {
  const TemporaryFolder folder;
  with_sessions(kTilesYaml, {}, [&](Session& session) {
    ASSERT_FALSE(session.weights().save(session.weights().begin_file(folder.file("with")).get()));
  });
  bool forbidden = true;
  std::thread([&] {  // and what becomes of a disk that fails then
    with_sessions(kTilesYaml, {}, [&](Session& session) {
      forbidden = forbid_threads();
      if (!forbidden) return;
      EXPECT_FALSE(session.weights().save(session.weights().begin_file(folder.file("without")).get()));
      const auto gone = session.weights().begin_file(folder.file("gone"));
      fs::remove(folder.file(".gone.0.recollect.tmp"));
      const std::optional<Error> failed = session.weights().save(gone.get());
      ASSERT_TRUE(failed);
      EXPECT_EQ(failed->code(), ExitCode::kStorage);
    });
  })
      .join();
  if (!forbidden) GTEST_SKIP() << "the kernel cannot refuse threads here";
  with_sessions(kTilesYaml, ranks(2, 2), [&](Session& session) {
    std::unique_ptr<SafetensorsWriter> file;
    if (session.mesh().world().rank() == 0) {
      EXPECT_TRUE(forbid_threads());
      file = session.weights().begin_file(folder.file("of four"));
    }
    EXPECT_FALSE(session.weights().save(file.get()));
  });
  const std::string with = TemporaryFolder::read(folder.file("with"));
  EXPECT_TRUE(TemporaryFolder::read(folder.file("without")) == with);
  EXPECT_TRUE(TemporaryFolder::read(folder.file("of four")) == with);
}

TEST(Saving, ARankThatIsLostMeanwhileIsFound) {
  const TemporaryFolder folder;
  const auto start = std::chrono::steady_clock::now();
  std::atomic<int> heard = 0;
  try {
    with_sessions(kTilesYaml, ranks(2, 2), [&](Session& session) {
      const int rank = session.mesh().world().rank();
      if (rank == 3) {
        std::this_thread::sleep_for(200ms);
        throw Error(ExitCode::kInput, "this rank is lost");
      }
      std::unique_ptr<SafetensorsWriter> file;
      if (rank == 0) {
        file = std::make_unique<SlowFile>(folder.file("slow"), 1000ms);
        declare_parameters(*file, session);
      }
      try {
        session.weights().save(file.get());
      } catch (const Error& error) {
        heard += error.code() == ExitCode::kPeerLost;
        throw;
      }
    });
    ADD_FAILURE() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInput) << error.what();
  }
  EXPECT_EQ(heard, 3);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s) << "long before the timeout";
  EXPECT_EQ(folder.count(), 0u);
}

// The most memory that `recollect train c.yaml WORDS` was resident in, in bytes.
int64_t most_resident(const Workplace& place, const Words& words) {
  Words command = Words{recollect_binary(), "train", "c.yaml"} + words;
  std::vector<char*> pointers;
  for (std::string& word : command) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const std::string folder = place.folder().path();
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::chdir(folder.c_str()) == 0 && std::freopen("stdout.txt", "w", stdout))
      ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  int status = 0;
  rusage use{};
  EXPECT_EQ(::wait4(pid, &status, 0, &use), pid);
  EXPECT_EQ(status, 0) << TemporaryFolder::read(place.file("stdout.txt"));
  return int64_t{use.ru_maxrss} << 10;
}

TEST(Saving, TakesTheMemoryThatWasPredicted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is in the way";
#endif
  const Workplace place;
  const Words words = {"model.n_embd=512",     "model.n_layer=3",         "model.vocab_size=4000",
                       "device.backend=cpu",   "training.precision=fp32", "training.global_batch_size=1",
                       "training.max_steps=1", "memory_report.at=[]",     "profiling.step=0"};
  const int64_t without = most_resident(place, words), with = most_resident(place, words + kSave);
  EXPECT_GT(fs::file_size(place.file("out/model.safetensors")), 40u << 20);
  EXPECT_LT(with - without, int64_t{Weights::kSaveBytes} + (4 << 20));
  for (const Words& saves : {Words{}, kSave}) {
    const Finished estimate = place.recollect(Words{"estimate", "c.yaml", "--json"} + words + saves);
    ASSERT_EQ(estimate.status, 0) << estimate.err;
    EXPECT_EQ(nlohmann::json::parse(estimate.out).at("save_buffer"), saves.empty() ? 0 : Weights::kSaveBytes);
  }
}

TEST(Saving, HasItsSpaceBeforeTheFirstStep) {
  const Workplace place;
  const Finished run = Process(shell("ulimit -f 64; exec " + recollect_binary() +
                                     " train c.yaml checkpoint.save_model=true memory_report.at=[] "
                                     "profiling.step=0"),
                               place.folder().path())
                           .wait(Workplace::kBound);
  EXPECT_EQ(run.status, 6) << run.err;
  EXPECT_NE(run.err.find(" KiB) for out/model.safetensors: File too large"), std::string::npos) << run.err;
  EXPECT_EQ(run.out.find("step 1/"), std::string::npos) << run.out;
}

// Runs a script in which the folder `out` is a disk of a few MiB.
Finished on_small_disk(const Workplace& place, const std::string& size, const std::string& script) {
  fs::create_directories(place.file("out"));
  return Process({"unshare", "-m", "sh", "-c",
                  "mount -t tmpfs -o size=" + size + " none out || exit 99\nrecollect=" + recollect_binary() +
                      "\n" + script},
                 place.folder().path())
      .wait(Workplace::kBound);
}

bool disks_can_be_made() {
  const Workplace place;
  return on_small_disk(place, "1m", "true").status == 0;
}

TEST(Saving, TheDiskIsAskedForRoomBeforeTheFirstStep) {
  if (!disks_can_be_made()) GTEST_SKIP() << "no disk can be mounted here";
  const Workplace place;
  const Finished run = on_small_disk(
      place, "8m",
      "exec $recollect train c.yaml checkpoint.save_model=true model.n_embd=512 model.n_layer=1");
  EXPECT_EQ(run.status, 6) << run.err;
  for (const char* part : {"the run will write up to ", " to out (configuration ", "model ", "metrics ",
                           "reports ", "its disk has 8388608 bytes (8.00 MiB) free"})
    EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
  EXPECT_EQ(run.out.find("step 1/"), std::string::npos) << run.out;
}

TEST(Saving, ADiskThatFillsUpCostsReportsAndNothingElse) {
  if (!disks_can_be_made()) GTEST_SKIP() << "no disk can be mounted here";
  const Workplace place;
  const Finished run = on_small_disk(place, "16m",
                                     "$recollect train c.yaml checkpoint.save_model=true "
                                     "training.max_steps=2000 logging.steps=1000 & run=$!\n"
                                     "until [ -s out/metrics.jsonl ]; do sleep 0.02; done\n"
                                     "cat /dev/zero >out/full 2>/dev/null\n"
                                     "kill -USR2 $run\n"
                                     "wait $run; status=$?\n"
                                     "cp out/model.safetensors out/metrics.jsonl . ; exit $status");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("rank 0 after step "), std::string::npos) << run.out;
  EXPECT_EQ(times_in(run.err, "metrics.jsonl cannot be written: No space left on device"), 1) << run.err;
  EXPECT_EQ(times_in(run.err, "a report is missing: cannot reserve "), 1) << run.err;
  EXPECT_EQ(read_tensors(place.file("model.safetensors"), "transformer.").size(), 2 + 2 * 12 + 2u);
  const std::string metrics = TemporaryFolder::read(place.file("metrics.jsonl"));
  EXPECT_TRUE(metrics.ends_with("}\n")) << "half a line";
}

TEST(Saving, AFolderThatGoesDoesNotTakeTheModelAlong) {
  const Words words = kSave + Words{"training.max_steps=500", "parallelism.tensor_parallel_size=2",
                                    "parallelism.ranks_per_process=2"};
  const Workplace place;
  for (const std::string rescued : {"out.rescued", "out.rescued.2", "out.rescued.3"}) {
    // The last step's snapshot makes a folder of the old name, which is not the one that the run began in.
    const Words more = rescued.ends_with("3") ? Words{"snapshot.every_steps=1000000"} : Words{};
    Process run(Words{recollect_binary(), "train", "c.yaml"} + words + more, place.folder().path());
    ASSERT_TRUE(wait_until([&] { return !TemporaryFolder::read(place.file("out/metrics.jsonl")).empty(); }));
    fs::rename(place.file("out"), place.file("gone"));
    fs::remove_all(place.file("gone"));
    const Finished finished = run.wait(Workplace::kBound);
    EXPECT_EQ(finished.status, 6) << finished.err;
    EXPECT_NE(finished.err.find("the model is not in out: "), std::string::npos) << finished.err;
    EXPECT_NE(finished.err.find("It is in " + fs::canonical(place.file(rescued)).string() + "\n"),
              std::string::npos)
        << finished.err;
  }
  ASSERT_EQ(place.train(words).status, 0);
  for (const char* name : {"model.safetensors", "config.json"})
    EXPECT_TRUE(TemporaryFolder::read(place.file(std::string("out.rescued/") + name)) ==
                TemporaryFolder::read(place.file(std::string("out/") + name)))
        << name;
}

// What others do in the output folder while the run trains, and whether the model ends there all the same.
TEST(Saving, WhatOthersDoInTheFolderDoesNotSpoilTheModel) {
  const std::string temporary = "out/.model.safetensors.0.recollect.tmp", model = "out/model.safetensors";
  const Words words = {"training.max_steps=500", "overwrite=false"};
  struct Case {
    const char* what;
    std::function<void(const Workplace&)> act;
    bool rescued;
    std::string left;  // of the output folder's model, where the run's is elsewhere
  };
  const Case cases[] = {
      {"another file in its place",
       [&](const Workplace& place) {
         fs::remove(place.file(temporary));
         place.folder().write(temporary, "zz");
       },
       true, ""},
      {"shortened", [&](const Workplace& place) { place.folder().write(temporary, "zz"); }, false, ""},
      {"the description shortened",
       [](const Workplace& place) { place.folder().write("out/.config.json.0.recollect.tmp", "{}"); }, true,
       ""},
      {"a file of its name", [&](const Workplace& place) { place.folder().write(model, "mine"); }, true,
       "mine"},
  };
  const Workplace undisturbed;
  ASSERT_EQ(undisturbed.train(words + kSave).status, 0);
  const std::string whole = TemporaryFolder::read(undisturbed.file(model));
  for (const Case& c : cases) {
    const Workplace place;
    Process run(Words{recollect_binary(), "train", "c.yaml"} + words + kSave, place.folder().path());
    ASSERT_TRUE(wait_until([&] { return !TemporaryFolder::read(place.file("out/metrics.jsonl")).empty(); }));
    c.act(place);
    const Finished finished = run.wait(Workplace::kBound);
    EXPECT_EQ(finished.status, c.rescued ? 6 : 0) << c.what << ": " << finished.err;
    EXPECT_TRUE(TemporaryFolder::read(place.file(c.rescued ? "out.rescued/model.safetensors" : model)) ==
                whole)
        << c.what;
    if (c.rescued) {
      EXPECT_TRUE(TemporaryFolder::read(place.file(model)) == c.left) << c.what;
    }
  }
}

TEST(Saving, ALargeModelIsSeveralFilesThatAreReadAgain) {
  const Workplace place;
  const Words words = kSave + Words{"device.backend=cpu", "training.precision=fp32", "training.max_steps=1"};
  ASSERT_EQ(place.train(words + Words{"output_dir=one"}).status, 0);
  const Finished several = place.train(words + Words{"output_dir=several", "checkpoint.max_shard_size=2KiB"});
  ASSERT_EQ(several.status, 0) << several.err;
  EXPECT_NE(several.out.find("saved several/model.safetensors.index.json and"), std::string::npos)
      << several.out;
  EXPECT_FALSE(fs::exists(place.file("several/model.safetensors")));
  const SafetensorsSet parts(place.file("several"));
  for (const auto& [name, values] : read_tensors(place.file("one/model.safetensors"), "")) {
    std::vector<double> read(values.size());
    parts.read_as(name, read.data(), 0, parts.at(name).shape.front());
    EXPECT_EQ(read, values) << name;
  }
  std::vector<std::string> next;
  for (const char* from : {"one", "several"}) {
    const std::string output = std::string("after_") + from;
    ASSERT_EQ(
        place.train(words + Words{"output_dir=" + output, std::string("model.pretrained=") + from}).status,
        0);
    next.push_back(TemporaryFolder::read(place.file(output + "/model.safetensors")));
  }
  EXPECT_TRUE(next[0] == next[1]);
}

TEST(Saving, AModelThatIsNotFiniteReplacesNoGoodOne) {
  const Workplace place;
  const Words words = kSave + Words{"device.backend=cpu", "training.precision=fp32", "training.max_steps=1"};
  ASSERT_EQ(place.train(words).status, 0);
  const std::string good = TemporaryFolder::read(place.file("out/model.safetensors"));
  for (const Words& layout : {Words{}, ranks(2, 2)}) {
    const Finished run =
        place.train(words + layout + Words{"optimizer.learning_rate=1e300", "optimizer.max_grad_norm=0"});
    EXPECT_EQ(run.status, 7) << run.err;
    EXPECT_NE(run.err.find("parameter wte.weight holds "), std::string::npos) << run.err;
    EXPECT_TRUE(TemporaryFolder::read(place.file("out/model.safetensors")) == good);
  }
  // Nor is it the end of a run that saves nothing.
  EXPECT_EQ(place
                .train({"device.backend=cpu", "training.precision=fp32", "training.max_steps=1",
                        "optimizer.learning_rate=1e300", "optimizer.max_grad_norm=0"})
                .status,
            7);
}

TEST(Saving, ARunWhoseEveryStepOverflowedHasFailed) {
  const Workplace place;
  const Words words = {"device.backend=cpu", "training.precision=fp32", "training.loss_scale=0",
                       "training.initial_loss_scale=1e41", "training.max_steps=4"};
  const Finished run = place.train(words + kSave);
  EXPECT_EQ(run.status, 7) << run.err;
  EXPECT_NE(run.err.find("none of 4 steps has updated the model"), std::string::npos) << run.err;
  EXPECT_FALSE(fs::exists(place.file("out/model.safetensors")));
}

}  // namespace
}  // namespace recollect::test::saving_test
