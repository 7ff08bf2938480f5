// A run that stops behind a snapshot and goes on from it trains as one that never stopped: the same losses, and the same
// bits of all that a snapshot holds, for every optimizer, mode, switch, precision and kind of data.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "checkpointing/settings.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/ranks/world.h"
#include "launch/train/snapshots.h"
#include "parallel/snapshot/snapshot_reader.h"
#include "tests/engine/temporary_folder.h"
#include "tests/launch/modes.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::resume_test {
namespace {

using Words = std::vector<std::string>;

constexpr int64_t kSteps = 5, kStop = 2;

const char* const kYaml = R"(
model: {type: gpt2, vocab_size: 61, n_positions: 12, n_embd: 24, n_layer: 4, n_head: 4, resid_pdrop: 0.1}
device: {threads: 1}
training: {micro_batch_size: 1, gradient_accumulation_steps: 2, max_steps: 5}
optimizer: {learning_rate: 1e-2, weight_decay: 0.1, max_grad_norm: 0.5}
scheduler: {name: cosine, warmup_steps: 1}
data: {format: random}
snapshot: {every_steps: 1000}
numerics: {verify_every: 2}
)";
const char* const kBert = R"(
task: token_classification
model: {type: bert, vocab_size: 41, hidden_size: 20, num_hidden_layers: 2, num_attention_heads: 4,
        intermediate_size: 28, max_position_embeddings: 24, num_labels: 3, initializer_range: 0.2}
device: {threads: 1}
training: {micro_batch_size: 2, gradient_accumulation_steps: 2, max_steps: 5}
data: {format: jsonl, sequence_length: 24}
snapshot: {every_steps: 1000}
numerics: {verify_every: 2}
)";

const char* const kSmallBert = R"(
model: {type: bert, vocab_size: 16, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 8,
        max_position_embeddings: 40}
device: {threads: 1}
training: {micro_batch_size: 2, gradient_accumulation_steps: 2, max_steps: 5}
snapshot: {every_steps: 1000}
numerics: {verify_every: 2}
)";

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

struct Part {
  std::vector<StepResult> steps;
  std::vector<double> evaluated;
};

// From the newest snapshot, if there is one, until `until` steps are done and saved.
Part run(const Config& config, int64_t until) {
  Part part;
  std::unique_ptr<MpiEnvironment> mpi;
  run_ranks(config, mpi, [&](Communicator& world) {
    Config mine = config;
    try {
      resolve_world(mine, world.size());
      const Session::Restore restore = [&](const TrainingState& state) {
        const Resumed resumed = resume_training(mine, state, world);
        return resumed.folder.empty() ? std::nullopt : std::optional(resumed.progress);
      };
      Session session(mine, world, {}, restore);
      Snapshots snapshots(mine, session, {});
      while (session.progress().step < until) {
        const StepResult step = session.step();
        if (world.rank() == 0) part.steps.push_back(step);
        if (evaluation_due(mine, step.so_far))
          if (const EvaluationResult result = session.evaluate(); world.rank() == 0)
            part.evaluated.push_back(result.loss);
        snapshots.after_step();
      }
      snapshots.finish();
      world.barrier();
    } catch (const std::exception& error) {
      world.abort(error.what());
      throw;
    }
  });
  return part;
}

// Every byte of a step's snapshot, but for its versions and the configuration.
std::map<std::string, std::string> state_at(const std::string& folder, int64_t step) {
  std::map<std::string, std::string> state;
  const std::string path = SnapshotFolder(folder).of_step(step);
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.path().extension() == ".safetensors")
      state[entry.path().filename()] = TemporaryFolder::read(entry.path());
  const TrainingProgress p = SnapshotReader(path).manifest().progress;
  state["progress"] =
      fmt::format("{} {} {} {} {}", p.step, p.updates, p.samples, p.loss_scale, p.updates_at_scale);
  return state;
}

void expect_same_when_resumed(const char* yaml, const Words& words, const std::string& what) {
  const TemporaryFolder whole, halves;
  const auto config = [&](const TemporaryFolder& folder) {
    return read_config_text("test.yaml", yaml, words + Words{"snapshot.path=" + folder.path()});
  };
  const Part all = run(config(whole), kSteps);
  ASSERT_EQ(all.steps.size(), static_cast<std::size_t>(kSteps));
  const Part first = run(config(halves), kStop), second = run(config(halves), kSteps);
  std::vector<StepResult> steps = first.steps;
  steps.insert(steps.end(), second.steps.begin(), second.steps.end());
  ASSERT_EQ(second.steps.size(), static_cast<std::size_t>(kSteps - kStop)) << what;
  for (std::size_t i = 0; i < all.steps.size(); ++i) {
    EXPECT_EQ(all.steps[i].step, steps[i].step) << what;
    EXPECT_EQ(all.steps[i].loss, steps[i].loss) << what << ", step " << i + 1;
    EXPECT_EQ(all.steps[i].grad_norm, steps[i].grad_norm) << what << ", step " << i + 1;
    EXPECT_EQ(all.steps[i].learning_rate, steps[i].learning_rate) << what;
    EXPECT_EQ(all.steps[i].loss_scale, steps[i].loss_scale) << what;
    EXPECT_EQ(all.steps[i].tokens, steps[i].tokens) << what;
  }
  std::vector<double> evaluated = first.evaluated;
  evaluated.insert(evaluated.end(), second.evaluated.begin(), second.evaluated.end());
  EXPECT_EQ(all.evaluated, evaluated) << what;
  EXPECT_TRUE(state_at(whole.path(), kSteps) == state_at(halves.path(), kSteps)) << what;
}

TEST(Resume, EveryOptimizer) {
  for (const OptimizerEntry& rule : optimizer_rules())
    if (!rule.name.ends_with("8bit"))
      expect_same_when_resumed(kYaml, {"optimizer.name=" + std::string(rule.name)}, std::string(rule.name));
  for (const char* rule : {"adamw8bit", "lion8bit"})  // which want larger matrices
    for (const char* precision : {"fp32", "bf16"})
      expect_same_when_resumed(kYaml,
                               {fmt::format("optimizer.name={}", rule), "model.n_embd=64",
                                fmt::format("training.precision={}", precision)},
                               rule);
  expect_same_when_resumed(kYaml, {"training.precision=bf16", "training.master_dtype=bf16"}, "bf16 masters");
  expect_same_when_resumed(kYaml, {"training.precision=bf16", "training.fp8=true"}, "codes of weights");
  expect_same_when_resumed(kYaml, {"training.precision=bf16", "training.fp8=true", "lora.rank=2"},
                           "codes of frozen weights");
  expect_same_when_resumed(kYaml, {"optimizer.name=sgd", "optimizer.momentum=0.9"}, "momentum");
  for (const char* precision : {"training.precision=fp32", "training.precision=bf16"})
    expect_same_when_resumed(
        kYaml, {precision, "optimizer.groups=[{match: [wte.weight, h.0.*], frozen: true}]"}, "frozen");
}

TEST(Resume, EveryModeAndSwitch) {
  const TemporaryFolder disk;
  const Words tensor{"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"};
  for (const std::string_view mode : kModes)
    expect_same_when_resumed(kYaml, mode_words(mode), std::string(mode));
  const Words full{ac("mode=full")};
  expect_same_when_resumed(kYaml, full + tensor + Words{ac("partition_activations=true")}, "partitioned");
  expect_same_when_resumed(kYaml, full + Words{ac("cpu_checkpointing=true")}, "on the host");
  expect_same_when_resumed(kYaml, full + Words{ac("disk_checkpointing.path=" + disk.path())}, "on disk");
  expect_same_when_resumed(
      kYaml, full + tensor + Words{ac("partition_activations=true"), ac("cpu_checkpointing=true")}, "both");
  expect_same_when_resumed(kYaml, full + Words{ac("contiguous_checkpointing=false")}, "a pool");
  expect_same_when_resumed(kYaml, full + Words{ac("storage_dtype=bf16")}, "halves");
  const Config none = [] {
    Config config = read_config_text("test.yaml", kYaml, {});
    resolve_world(config, 1);
    return config;
  }();
  const uint64_t budget = estimate(none).memory.arena_bytes() * 95 / 100;
  for (const char* mode : {"mode=auto", "mode=dtr"})
    expect_same_when_resumed(kYaml, {ac(mode), ac(fmt::format("memory_budget={}", budget))}, mode);
}

// A snapshot does not know where states were kept, nor how ranks divided them.
TEST(Resume, StatesThatAreKeptElsewhere) {
  const TemporaryFolder disk;
  const Words away{"optimizer.offload=disk", "optimizer.offload_path=" + disk.path()};
  expect_same_when_resumed(kYaml, away, "on the disk");
  const Words halves{"training.precision=bf16", "optimizer.offload_ratio=0.5", "snapshot.asynchronous=false"};
  expect_same_when_resumed(kYaml, away + halves, "some on the disk");

  const Words two{"parallelism.data_parallel_size=2", "parallelism.ranks_per_process=2",
                  "parallelism.zero_stage=3", "training.precision=bf16"},
      one{"training.gradient_accumulation_steps=4", "training.precision=bf16"};
  const auto final_state = [&](const Words& before, const Words& behind) {
    const TemporaryFolder folder;
    const Words path{"snapshot.path=" + folder.path()};
    run(read_config_text("test.yaml", kYaml, before + path), kStop);
    run(read_config_text("test.yaml", kYaml, behind + path), kSteps);
    return state_at(folder.path(), kSteps);
  };
  const auto home = final_state(two, one);
  EXPECT_FALSE(home.empty());
  EXPECT_TRUE(home == final_state(two + away, one)) << "from the disk of two ranks to one";
  EXPECT_TRUE(home == final_state(two, one + away)) << "from two ranks to the disk of one";
}

TEST(Resume, EveryPrecisionAndScale) {
  for (const char* precision : {"fp32", "bf16"})
    expect_same_when_resumed(kYaml, {std::string("training.precision=") + precision}, precision);
  expect_same_when_resumed(kYaml, {"training.precision=fp64", "device.backend=reference", "device.threads=0"},
                           "fp64");
  // Overflows in the first steps, and doubles again behind the stop.
  expect_same_when_resumed(
      kYaml, {"training.loss_scale=0", "training.initial_loss_scale=1e39", "training.loss_scale_window=2"},
      "an overflow");
}

TEST(Resume, EveryLayout) {
  for (const auto& [tensor, data] : {std::pair{2, 1}, std::pair{1, 2}, std::pair{2, 2}})
    for (const char* sequence : {"false", "true"}) {
      if (tensor == 1 && *sequence == 't') continue;
      expect_same_when_resumed(kYaml,
                               {fmt::format("parallelism.tensor_parallel_size={}", tensor),
                                fmt::format("parallelism.data_parallel_size={}", data),
                                fmt::format("parallelism.ranks_per_process={}", tensor * data),
                                fmt::format("parallelism.sequence_parallel={}", sequence)},
                               fmt::format("tensor {} data {} {}", tensor, data, sequence));
    }
  for (const auto& [stage, tensor, precision] : {std::tuple{1, 1, "fp32"}, std::tuple{2, 1, "bf16"},
                                                 std::tuple{1, 2, "bf16"}, std::tuple{3, 1, "bf16"}})
    expect_same_when_resumed(
        kYaml,
        {fmt::format("parallelism.zero_stage={}", stage), "parallelism.data_parallel_size=2",
         fmt::format("parallelism.tensor_parallel_size={}", tensor),
         fmt::format("parallelism.ranks_per_process={}", 2 * tensor),
         fmt::format("training.precision={}", precision)},
        fmt::format("stage {} tensor {} {}", stage, tensor, precision));
  expect_same_when_resumed(
      kYaml,
      {"parallelism.zero_stage=3", "parallelism.data_parallel_size=2", "parallelism.ranks_per_process=2",
       "optimizer.groups=[{match: [wte.weight, h.0.*], frozen: true}]"},
      "stage 3, frozen");
}

TEST(Resume, EveryKindOfData) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 37; ++i) {  // more than an epoch goes by
    std::string ids, labels;
    for (int j = 0; j < 3 + i * 7 % 19; ++j) {
      ids += fmt::format("{}{}", j ? ", " : "", (i * 5 + j * 3) % 41);
      labels += fmt::format("{}{}", j ? ", " : "", (i + j) % 3);
    }
    lines += fmt::format("{{\"input_ids\": [{}], \"labels\": [{}]}}\n", ids, labels);
  }
  const std::string path = folder.write("lines.jsonl", lines);
  std::string tokens;
  for (int i = 0; i < 400; ++i) tokens += std::string{static_cast<char>(i * 11 % 61), '\0'};
  const std::string file = folder.write("tokens.bin", tokens);
  expect_same_when_resumed(kYaml, {"data.format=tokens", "data.dtype=uint16", "data.path=" + file},
                           "tokens, with evaluation");
  const Words evaluated{"data.format=tokens", "data.dtype=uint16",       "data.path=" + file,
                        "data.shuffle=false", "evaluation.path=" + file, "evaluation.every_steps=2"};
  expect_same_when_resumed(kYaml, evaluated, "tokens in order, evaluated");
  for (const Words& lengths :
       {Words{}, Words{"data.padding=longest", "data.pad_to_multiple_of=4"},
        Words{"data.padding=bucket", "data.pad_to_multiple_of=8", "data.group_by_length=true"}})
    expect_same_when_resumed(kBert, Words{"data.path=" + path} + lengths,
                             lengths.empty() ? "jsonl" : lengths.front());
}

// Of n lines or entries, what `of` makes of each number.
std::string joined(int n, const char* between, const std::function<std::string(int)>& of) {
  std::string text;
  for (int i = 0; i < n; ++i) text += (i ? between : "") + of(i);
  return text;
}

// Files as people have them, of which more than an epoch goes by; windows, samples and lengths change from step to step.
TEST(Resume, EveryFormat) {
  const TemporaryFolder folder;
  const auto words = [](int i) {
    return joined(3 + i * 7 % 11, " ", [&](int j) { return fmt::format("w{}", (i * 5 + j * 3) % 10); });
  };
  const std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n" +
                                 joined(10, "\n", [](int i) { return fmt::format("w{}", i); }) + "\n";
  const auto lines = [](const std::string& head, const std::function<std::string(int)>& of) {
    return head + joined(11, "", [&](int i) { return of(i) + "\n"; });
  };
  const std::string ids = lines("", [](int i) {
    return fmt::format("{{\"input_ids\": [{}]}}",
                       joined(3 + i * 7 % 11, ", ", [&](int j) { return fmt::format("{}", (i + j) % 16); }));
  });
  struct Format {
    const char* format;
    const char* task;
    std::string file;
    Words more = {};
  };
  const Format formats[] = {
      {"csv",
       "sequence_classification",
       lines("text,label\n", [&](int i) { return words(i) + (i % 3 ? ",yes" : ",no"); }),
       {"data.columns.text=text", "data.columns.label=label"}},
      {"mrpc", "sequence_classification",
       lines("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n",
             [&](int i) { return fmt::format("{}\t1\t2\t{}\t{}", i % 2, words(i), words(i + 1)); })},
      {"swag", "multiple_choice",
       lines(",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n",
             [&](int i) {
               return fmt::format("{},v,f,p,{},w1,gold,{},{},{},w4,{}", i, words(i), words(i + 1),
                                  words(i + 2), words(i + 3), i % 4);
             })},
      {"squad",
       "question_answering",
       "{\"version\": \"1.1\", \"data\": [{\"title\": \"t\", \"paragraphs\": [" +
           joined(11, ",",
                  [&](int i) {
                    return fmt::format(
                        "{{\"context\": \"w0 {} w1 {}\", \"qas\": [{{\"id\": \"q{}\", \"question\": "
                        "\"w2 w3\", \"answers\": [{{\"text\": \"w0\", \"answer_start\": 0}}]}}]}}",
                        words(i), words(i + 1), i);
                  }) +
           "]}]}",
       {"data.stride=8"}},
      {"conll", "token_classification",
       lines("",
             [](int i) {
               return joined(2 + i % 5, "", [&](int j) {
                 return fmt::format("w{} N B-NP {}\n", (i + j) % 10, j % 2 ? "O" : "B-PER");
               });
             })},
      {"jsonl", "masked_lm", ids, {"data.mask_token=4", "data.packing=within", "data.sequence_length=24"}},
  };
  const std::string tokenizer = "data.tokenizer=" + folder.write("vocab.txt", vocabulary);
  for (const Format& f : formats) {
    const bool text = std::string(f.format) != "jsonl";
    expect_same_when_resumed(
        kSmallBert,
        f.more +
            Words{fmt::format("data.format={}", f.format), fmt::format("task={}", f.task),
                  "data.path=" + folder.write(std::string(f.format), f.file)} +
            (text ? Words{tokenizer, "data.padding=longest"} : Words{}),
        f.format);
  }
  const std::string prose = folder.write("prose.txt", joined(40, " ", words));
  expect_same_when_resumed(kYaml, {"model.vocab_size=256", "data.format=text", "data.path=" + prose}, "text");
}

TEST(Resume, WithoutACopyAndWithOneForEveryStep) {
  expect_same_when_resumed(kYaml, {"snapshot.asynchronous=false"}, "no copy");
  expect_same_when_resumed(kYaml, {"snapshot.every_steps=1"}, "every step");
}

// A planned buffer is what the saver reserves, on every rank.
TEST(Resume, TheBufferIsPredicted) {
  for (const char* asynchronous : {"true", "false"}) {
    Config config = read_config_text(
        "test.yaml", kYaml,
        {"parallelism.tensor_parallel_size=2", "parallelism.data_parallel_size=2",
         "parallelism.ranks_per_process=4", fmt::format("snapshot.asynchronous={}", asynchronous)});
    const TemporaryFolder folder;
    config.snapshot.path = folder.path();
    Config planned = config;
    resolve_world(planned, 4);
    const uint64_t predicted = estimate(planned).snapshot_buffer;
    std::vector<uint64_t> reserved(4);
    on_ranks(config, [&](const Config& mine, Session& session) {
      reserved[session.mesh().world().rank()] = SnapshotSaver::buffer_bytes(
          session.state().layout(), session.mesh().world().rank(), mine.snapshot.asynchronous);
    });
    EXPECT_EQ(*std::max_element(reserved.begin(), reserved.end()), predicted);
    EXPECT_GT(predicted, 0u);
  }
}

}  // namespace
}  // namespace recollect::test::resume_test
