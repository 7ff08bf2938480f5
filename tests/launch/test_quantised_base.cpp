// Adapters beside weights of 4 and 8 bits: loss and gradients are those beside the numbers that bitsandbytes makes of them, from
// files that it has quantised and from whole ones (tests/golden/make_quantised_goldens.py); every mode, layout and snapshot keeps
// bits as ever; nothing is held beside what is stored; and what cannot be is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "engine/io/json.h"
#include "engine/io/safetensors.h"
#include "launch/config/lora_keys.h"
#include "launch/program/estimate.h"
#include "launch/train/save_model.h"
#include "parallel/snapshot/snapshot_folder.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/modes.h"
#include "tests/launch/run_support.h"
#include "tests/launch/training_harness.h"
#include "tests/launch/training_rounding.h"

namespace recollect::test::quantised_base_test {
namespace {

const char* const kYaml = R"(
device: {backend: reference}
training: {precision: fp64, global_batch_size: 2, micro_batch_size: 2, max_steps: 1}
data: {format: jsonl, shuffle: false, sequence_length: 8}
)";

std::string folder_of(const std::string& name) {
  return std::string(RECOLLECT_SOURCE_DIR) + "/tests/golden/quantised/" + name;
}

Words words_of(const std::string& name, const std::string& model, const Words& more = {}) {
  return Words{"model.pretrained=" + folder_of(name) + "/" + model,
               "lora.path=" + folder_of(name) + "/adapters",
               "data.path=" + folder_of(name) + "/batch.jsonl"} +
         more;
}

Words quantised(const std::string& name) {
  return name == "gpt2_int8" ? Words{"lora.base=int8"} : Words{"lora.base=nf4", "lora.double_quant=true"};
}

Tensors golden(const std::string& name, const std::string& prefix) {
  return read_tensors(folder_of(name) + "/golden.safetensors", prefix);
}

void expect_golden(const std::string& name, const Trained& trained, const Bounds& bounds) {
  expect_within(golden(name, "loss").at(""), losses_of(trained), bounds.losses, "loss");
  expect_within(golden(name, "grad/"), trained.gradients, bounds.gradients);
  EXPECT_EQ(trained.predicted, trained.measured);
}

class QuantisedGoldens : public testing::TestWithParam<const char*> {};

TEST_P(QuantisedGoldens, LossAndGradientsOfStoredAndOfWholeFiles) {
  const std::string name = GetParam();
  const Words stored = words_of(name, "stored"), whole = words_of(name, "whole", quantised(name));
  const Trained of_stored = train(kYaml, stored);
  expect_golden(name, of_stored, rounding_bounds(kYaml, stored, DType::kF64));
  expect_same_bits(of_stored, train(kYaml, whole), "quantised when it is loaded");
  const Bounds bounds = rounding_bounds(kYaml, stored, DType::kF32);
  for (const std::string& isa : isas_here()) {
    SCOPED_TRACE(isa);
    expect_golden(name, train(kYaml, on_cpu(stored, isa)), bounds);
  }
}

// Saves as the program does.
void save(const std::string& folder, const Words& words) {
  std::filesystem::create_directory(folder);
  on_ranks(read_config_text("test.yaml", kYaml,
                            words + Words{"optimizer.learning_rate=0", "checkpoint.save_model=true",
                                          "output_dir=" + folder}),
           [&](const Config& config, Session& session) {
             ModelSave model(config, session);
             session.step();
             model.save();
             if (session.mesh().world().rank() != 0) return;
             model.merge();
             model.save_base();
           });
}

std::vector<std::byte> bytes_of(const SafetensorsSet& set, const std::string& name) {
  std::vector<std::byte> bytes(set.find(name)->bytes);
  set.read_bytes(name, bytes);
  return bytes;
}

// Codes and sizes are those of Transformers' file, which a base of whole weights becomes too, and so is what it is called.
TEST_P(QuantisedGoldens, TheBaseIsSavedAsTransformersSavesIt) {
  const TemporaryFolder folder;
  const std::string name = GetParam(), saved = folder.file("run");
  save(saved, words_of(name, "whole", quantised(name) + Words{"lora.save_base=true"}));
  const SafetensorsSet theirs(folder_of(name) + "/stored"), ours(saved + "/quantised_base");
  EXPECT_EQ(ours.names(), theirs.names());
  for (const std::string& tensor : theirs.names()) {
    ASSERT_TRUE(ours.find(tensor)) << tensor;
    EXPECT_EQ(ours.find(tensor)->dtype_name, theirs.find(tensor)->dtype_name) << tensor;
    if (tensor.find("quant_state") != tensor.npos) continue;  // says what dtype the numbers once had
    EXPECT_EQ(ours.find(tensor)->shape, theirs.find(tensor)->shape) << tensor;
    EXPECT_EQ(bytes_of(ours, tensor), bytes_of(theirs, tensor)) << tensor;
  }
  const auto described = nlohmann::json::parse(TemporaryFolder::read(saved + "/quantised_base/config.json"));
  EXPECT_EQ(described.value("torch_dtype", ""), "bfloat16") << "that of what is not quantised";
  Words again = words_of(name, "stored");
  again[0] = "model.pretrained=" + saved + "/quantised_base";
  expect_same_bits(train(kYaml, words_of(name, "stored")), train(kYaml, again), "of the saved base");
}

TEST_P(QuantisedGoldens, AreMergedIntoTheNumbersThatTheyWereTrainedBeside) {
  const TemporaryFolder folder;
  const std::string name = GetParam(), saved = folder.file("run");
  save(saved, words_of(name, "stored", {"lora.merge=true"}));
  Words alone = words_of(name, "stored");
  alone.erase(alone.begin() + 1);
  alone[0] = "model.pretrained=" + saved + "/merged";
  const double loss = golden(name, "loss").at("")[0];
  EXPECT_NEAR(train(kYaml, alone).steps[0].loss, loss, 1e-6 * loss);
}

INSTANTIATE_TEST_SUITE_P(All, QuantisedGoldens, testing::Values("llama_nf4", "gpt2_int8"),
                         [](const auto& info) { return info.param; });

const char* const kDrawn = R"(
model: {type: llama, vocab_size: 61, hidden_size: 128, intermediate_size: 256, num_hidden_layers: 4,
        num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 12, initializer_range: 0.1}
lora: {rank: 2, alpha: 4, dropout: 0.2, targets: [q_proj, down_proj], base: nf4, double_quant: true}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, gradient_accumulation_steps: 2, max_steps: 2, seed: 7}
optimizer: {learning_rate: 1e-2, max_grad_norm: 0}
data: {format: random, sequence_length: 8}
)";

TEST(QuantisedBase, TrainsToTheSameBitsInEveryMode) {
  const Words no_dropout = {"lora.dropout=0"};
  const Trained whole = train(kDrawn), undropped = train(kDrawn, no_dropout);
  EXPECT_EQ(whole.predicted, whole.measured);
  for (const std::string_view mode : kModes) {
    if (mode == "none") continue;
    const bool selective = mode == "selective";
    expect_same_bits(selective ? undropped : whole,
                     train(kDrawn, mode_words(mode) + (selective ? no_dropout : Words{})), std::string(mode));
  }
  expect_same_bits(whole,
                   train(kDrawn, mode_words("full") + Words{ac("cpu_checkpointing=true"), ac("verify=true")}),
                   "full in host memory");
}

Words ranks(int tensor, int data, const Words& more = {}) {
  return Words{fmt::format("parallelism.tensor_parallel_size={}", tensor),
               fmt::format("parallelism.data_parallel_size={}", data),
               fmt::format("parallelism.ranks_per_process={}", tensor * data)} +
         more;
}

// A's is zero before the first step, since B is.
Tensors gradients_of_b(const Trained& trained) {
  Tensors of_b = trained.gradients;
  std::erase_if(of_b, [](const auto& one) { return !one.first.ends_with("lora_B.weight"); });
  return of_b;
}

// Whatever part of a weight a rank has, its numbers are those of the whole.
TEST(QuantisedBase, AnyLayoutOfRanksGivesTheSameNumbers) {
  for (const char* base : {"nf4", "fp4", "int8"}) {
    const bool nested = base == std::string("nf4");
    const Words steps = {"device.backend=reference",
                         "model.num_hidden_layers=2",
                         "training.precision=fp64",
                         "training.micro_batch_size=1",
                         "training.global_batch_size=2",
                         "optimizer.name=sgd",
                         "optimizer.learning_rate=1e-3",
                         std::string("lora.base=") + base,
                         fmt::format("lora.double_quant={}", nested)};
    const Trained alone = train(kDrawn, steps);
    const Bounds bounds = rounding_bounds(kDrawn, steps, DType::kF64);
    Words layouts[] = {ranks(2, 1), ranks(2, 1, {"parallelism.sequence_parallel=true"}),
                       ranks(1, 2, {"parallelism.zero_stage=2", "training.gradient_accumulation_steps=1"}),
                       ranks(2, 2, {"parallelism.zero_stage=3", "training.gradient_accumulation_steps=1"})};
    for (const Words& layout : layouts) {
      const Trained many = train(kDrawn, steps + layout);
      SCOPED_TRACE(fmt::format("{} {} {}", base, layout.front(), layout.back()));
      expect_within(losses_of(alone), losses_of(many), bounds.losses, "loss");
      expect_within(gradients_of_b(alone), gradients_of_b(many), bounds.gradients);
      expect_within(alone.parameters, many.parameters, bounds.parameters);
      EXPECT_EQ(many.predicted, many.measured);
    }
  }
}

uint64_t weights_of(const Words& words) {
  Config config = read_config_text("c.yaml", kDrawn, words);
  resolve_planned_world(config);
  const PlannedTraining planned = plan_training(config, 0, 0);
  uint64_t bytes = 0;
  for (const Parameter& p : planned.training.model.parameters)
    if (p.is_stored()) bytes += planned.training.program.graph.value(p.value).bytes();
  return bytes;
}

// Four layers of q and o [128, 128], k and v [64, 128], gate and up [256, 128] and down [128, 256].
TEST(QuantisedBase, TakesWhatIsStoredAndNothingBeside) {
  constexpr uint64_t kOf128 = 4 * (128 + 128 + 2 * 64 + 2 * 256), kOf256 = 4 * 128;
  EXPECT_EQ(weights_of({}), kOf128 * 80 + kOf256 * 160);  // 64 + 2 + 4 + 8 + 1, and 128 + 4 + 13, to sixteen
  EXPECT_EQ(weights_of({"lora.double_quant=false"}), kOf128 * 80 + kOf256 * 144);
  EXPECT_EQ(weights_of({"lora.base=int8", "lora.double_quant=false"}), kOf128 * 144 + kOf256 * 272);
  EXPECT_EQ(weights_of({"lora.base_skip_modules=[down_proj]"}), kOf128 * 80);
  EXPECT_EQ(weights_of({"lora.base_skip_modules=[model.layers.1]"}) * 4, (kOf128 * 80 + kOf256 * 160) * 3);
  for (const char* precision : {"fp32", "bf16"}) {
    const Trained trained = train(kDrawn, {std::string("training.precision=") + precision});
    EXPECT_EQ(trained.predicted, trained.measured) << precision;
  }
}

// Its table and head are bf16.
TEST(QuantisedBase, OfLlama8BTakesFiveAndAThirdGiB) {
  Config config = read_config_text("c.yaml", R"(
model: {type: llama, vocab_size: 128256, hidden_size: 4096, intermediate_size: 14336, num_hidden_layers: 32,
        num_attention_heads: 32, num_key_value_heads: 8, max_position_embeddings: 64}
lora: {rank: 16, targets: all-linear, base: nf4, double_quant: true}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 1, max_steps: 1, precision: bf16}
data: {format: random, sequence_length: 64}
)");
  resolve_planned_world(config);
  const PlannedTraining planned = plan_training(config, 0, 0);
  uint64_t base = 0;
  for (const Parameter& p : planned.training.model.parameters)
    if (!p.adapter) base += planned.training.program.graph.value(p.value).bytes();
  constexpr uint64_t kStored =
                         32 * (uint64_t{4096 + 4096 + 2 * 1024 + 2 * 14336} * 2128 + uint64_t{4096} * 7408),
                     kTableAndHead = uint64_t{2} * 128256 * 4096 * 2, kNorms = 65 * 4096 * 4;
  EXPECT_EQ(base, kStored + kTableAndHead + kNorms);
  EXPECT_LE(static_cast<double>(base), 5.5 * (1 << 30));
}

TEST(QuantisedBase, SnapshotsGoOnWithoutHoldingIt) {
  const Workplace place;
  place.folder().write("c.yaml", kDrawn);
  const Words quiet = {"profiling.step=0", "memory_report.at=[]", "training.max_steps=4"};
  ASSERT_EQ(place.train(quiet + Words{"output_dir=whole", "snapshot.every_steps=4"}).status, 0);
  ASSERT_EQ(place.train(quiet + Words{"output_dir=parts", "snapshot.every_steps=2"}).status, 0);
  std::filesystem::remove_all(SnapshotFolder(place.file("parts/snapshots")).of_step(4));
  const Finished again =
      place.train(quiet + Words{"output_dir=parts", "snapshot.every_steps=2", "resume=auto"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.out.find("resumed"), std::string::npos) << again.out;
  const auto last_loss = [&](const char* run) { return place.metrics(run).back().at("loss").get<double>(); };
  EXPECT_EQ(last_loss("parts"), last_loss("whole"));
  uint64_t held = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(
           SnapshotFolder(place.file("whole/snapshots")).of_step(4)))
    if (file.is_regular_file()) held += file.file_size();
  EXPECT_LT(held, weights_of({}));
}

std::string said_of(const Words& words, const std::string& yaml = kDrawn) {
  try {
    Config config = read_config_text("c.yaml", yaml, words);
    resolve_planned_world(config);
    plan_training(config, 0, 0);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    return std::string(error.what()) + " | " + error.hint();
  }
  return "accepted";
}

TEST(QuantisedBase, MistakesAreNamed) {
  struct Mistake {
    Words words;
    const char* said;
  };
  const Mistake mistakes[] = {
      {{"training.fp8=true", "training.precision=bf16"}, "training.fp8 multiplies codes of 8 bits"},
      {{"model.hidden_size=96"}, "has 96 numbers, which are no whole blocks of 64"},
      {{"parallelism.tensor_parallel_size=4", "model.num_key_value_heads=4"},
       "has 32 numbers on each of 4 tensor ranks, which are no whole blocks of 64 | take fewer tensor ranks"},
      {{"lora.base_skip_modules=[q_proj]"}, "lora.base_skip_modules names a part of"},
      {{"lora.base_skip_modules=[.*proj]"}, "is a regular expression, and names are meant"},
      {{"lora.base_skip_modules=[q_prj]"}, "the model has no module 'q_prj'; did you mean 'q_proj'?"},
      {{"checkpoint.save_model=true", "lora.save_base=true"},
       "lora.save_base quantises the files in model.pretrained"},
  };
  for (const auto& [words, said] : mistakes)
    EXPECT_NE(said_of(words).find(said), std::string::npos) << words.front() << ": " << said_of(words);
  for (const auto& [lora, said] :
       {std::pair("{base: nf4}", "lora.base has no effect with lora.rank 0: there are no adapters"),
        {"{rank: 2, double_quant: true}", "lora.double_quant has no effect with lora.base whole"},
        {"{rank: 2, base_skip_modules: [c_fc]}", "lora.base_skip_modules has no effect with lora.base whole"},
        {"{rank: 2, base: nf4, save_base: true}",
         "lora.save_base has no effect with checkpoint.save_model false"},
        {"{rank: 2, base: int8, double_quant: true}",
         "lora.double_quant has no effect with lora.base int8: a row of int8 has one size"}})
    EXPECT_NE(refusal(fmt::format("{}lora: {}\n", kLeast, lora)).find(said), std::string::npos)
        << lora << ": " << refusal(fmt::format("{}lora: {}\n", kLeast, lora));
  EXPECT_EQ(said_of({"parallelism.tensor_parallel_size=4", "model.num_key_value_heads=4", "lora.base=int8",
                     "lora.double_quant=false"}),
            "accepted");
}

TEST(QuantisedBase, OthersNamesAreUnderstood) {
  const Config config = accepted(kLeast +
                                 "lora: {r: 2, bnb_4bit_quant_type: nf4, bnb_4bit_use_double_quant: true, "
                                 "llm_int8_skip_modules: [c_fc]}\n");
  EXPECT_EQ(config.lora.base, WeightFormat::kNF4);
  EXPECT_TRUE(config.lora.double_quant);
  EXPECT_EQ(config.lora.base_skip_modules, Words{"c_fc"});
  for (const auto& [line, said] : {std::pair("load_in_4bit: true\n", "base: nf4 (or fp4) in section 'lora'"),
                                   {"load_in_8bit: true\n", "base: int8 in section 'lora'"},
                                   {"bnb_4bit_compute_dtype: bfloat16\n", "precision: bf16"},
                                   {"bnb_4bit_quant_storage: uint8\n", "leave it out"},
                                   {"llm_int8_threshold: 6.0\n", "leave it out"}})
    EXPECT_NE(refusal(line + kLeast).find(said), std::string::npos) << line << refusal(line + kLeast);
}

// A folder of quantised weights says what it is; who says otherwise is told.
TEST(QuantisedBase, IsThatOfTheFolder) {
  const auto said = [](const Words& words) {
    try {
      const Config config = read_config_text("c.yaml", kYaml, words_of("llama_nf4", "stored", words));
      return fmt::format("{} {}", name_of(config.lora.base), config.lora.double_quant);
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(said({}), "nf4 true");
  EXPECT_EQ(said({"lora.base=nf4"}), "nf4 true");
  EXPECT_NE(said({"lora.base=int8"}).find("lora.base is not nf4, as"), std::string::npos)
      << said({"lora.base=int8"});
  EXPECT_NE(said({"lora.base=whole"}).find("lora.base is not nf4, as"), std::string::npos);
  EXPECT_NE(said({"lora.path=", "lora.rank=0"}).find("write lora.rank"), std::string::npos)
      << said({"lora.path=", "lora.rank=0"});
}

}  // namespace
}  // namespace recollect::test::quantised_base_test
