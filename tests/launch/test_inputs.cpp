// Ranks that each read files of their own: they train together where those are the same, and name what
// differs where they are not. Nor need they share a folder for what they write.
#include <gtest/gtest.h>
#include <link.h>

#include <bit>
#include <cstring>
#include <filesystem>

#include "engine/io/node.h"
#include "engine/ops/ops.h"
#include "launch/ranks/program_identity.h"
#include "launch/train/inputs.h"
#include "tests/engine/expect_error.h"
#include "tests/launch/ranks_by_hand.h"
#include "tests/launch/run_support.h"

namespace recollect::test::inputs_test {
namespace {

class OwnFiles : public ::testing::Test {
 protected:
  // Two ranks, each in a folder of its own; relative paths are of that folder.
  std::vector<Finished> train(const Words& words) {
    const uint16_t port = free_port();
    for (int rank = 0; rank < 2; ++rank)
      ranks_.start(torchrun_variables(rank, 2, 2, "127.0.0.1", port),
                   words + Words{"parallelism.communicator=tcp"});
    return ranks_.wait();
  }
  void write(int rank, const std::string& name, const std::string& content) {
    place_.folder().write("process" + std::to_string(rank) + "/" + name, content);
  }
  std::string of_rank(int rank, const std::string& name) const {
    return place_.file("process" + std::to_string(rank) + "/" + name);
  }
  void expect_disagreement(const std::vector<Finished>& finished, const std::vector<std::string>& parts) {
    for (const Finished& rank : finished) EXPECT_EQ(rank.status, 8) << rank.err;
    for (const std::string& part : parts) {
      EXPECT_NE(finished[0].err.find(part), std::string::npos) << part << " is missing from\n"
                                                               << finished[0].err;
      EXPECT_EQ(finished[1].err.find(part), std::string::npos) << "told twice: " << finished[1].err;
    }
  }

  const Workplace place_;
  RanksByHand ranks_{place_};
  const Words tensor_{"parallelism.tensor_parallel_size=2"};
  const Words text_{"model.vocab_size=256", "data.format=text", "data.path=corpus.txt"};
};

TEST_F(OwnFiles, TheSameTextIsTrainedOnAndFoldersNeedNotBeShared) {
  for (const int rank : {0, 1}) write(rank, "corpus.txt", std::string(400, 'a'));
  for (const Finished& rank : train(tensor_ + text_ + Words{"output_dir=mine"}))
    EXPECT_EQ(rank.status, 0) << rank.err;
  for (const char* file : {"mine/metrics.jsonl", "mine/report.html", "mine/memory.rank0.json"})
    EXPECT_TRUE(std::filesystem::exists(of_rank(0, file))) << file;
  for (const char* file : {"mine/memory.rank1.json", "mine/trace.rank1.json"})
    EXPECT_TRUE(std::filesystem::exists(of_rank(1, file))) << file;
}

TEST_F(OwnFiles, AnotherTextIsNamed) {
  write(0, "corpus.txt", std::string(400, 'a'));
  write(1, "corpus.txt", std::string(399, 'a') + 'b');
  expect_disagreement(train(tensor_ + text_),
                      {"the ranks have different inputs\ndata.path, corpus.txt: 400 bytes, ", " on rank 0",
                       " on rank 1", "copy them"});
}

TEST_F(OwnFiles, AnotherEvaluationSetIsNamed) {
  write(0, "held.txt", std::string(400, 'a'));
  write(1, "held.txt", std::string(401, 'a'));
  expect_disagreement(train(Words{"model.vocab_size=256", "evaluation.format=text",
                                  "evaluation.path=held.txt", "evaluation.every_steps=1"}),
                      {"\nevaluation.path, held.txt: 400 bytes", " on rank 0; 401 bytes"});
}

TEST_F(OwnFiles, OtherWeightsAreNamed) {
  ASSERT_EQ(place_.train({"checkpoint.save_model=true"}).status, 0);
  for (const int rank : {0, 1}) {
    const std::string folder = of_rank(rank, "start");
    std::filesystem::create_directories(folder);
    for (const char* file : {"model.safetensors", "config.json"})
      std::filesystem::copy_file(place_.file("out/") + file, folder + "/" + file);
  }
  std::string weights = TemporaryFolder::read(of_rank(1, "start/model.safetensors"));
  weights.back() ^= 1;
  write(1, "start/model.safetensors", weights);
  expect_disagreement(train(Words{"model.pretrained=start"}),
                      {"\nmodel.pretrained, start/model.safetensors: " + std::to_string(weights.size())});
}

// The same words in another order are other ids.
TEST_F(OwnFiles, OtherTokenizersAreNamed) {
  place_.folder().write("c.yaml", R"(
task: sequence_classification
model: {type: bert, vocab_size: 8, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2,
        intermediate_size: 8, max_position_embeddings: 8, num_labels: 2}
training: {max_steps: 1}
data: {format: csv, path: train.csv, tokenizer: vocab.txt, columns: {text: text, label: label}}
)");
  const std::string special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const int rank : {0, 1}) {
    write(rank, "train.csv", "text,label\na b,yes\nb b,no\n");
    write(rank, "vocab.txt", special + (rank == 0 ? "a\nb\n" : "b\na\n"));
  }
  expect_disagreement(train({}), {"the ranks have different inputs\ndata.tokenizer, vocab.txt: ",
                                  " on rank 0", " on rank 1", "copy them"});
}

// What no sample of a large file has seen is found when it is read.
TEST_F(OwnFiles, AnotherBatchIsFoundWhereVerifyIsOn) {
  constexpr std::size_t kSize = 17 << 20, kBlock = 64 << 10, kBlocks = 256;
  std::string corpus(kSize, 'a');
  write(0, "corpus.txt", corpus);
  const std::size_t spread = (kSize - kBlock) / (kBlocks - 1);
  for (std::size_t at = 0; at + spread < kSize; at += spread)
    corpus.replace(at + kBlock, spread - kBlock, spread - kBlock, 'b');
  corpus.replace(kSize - kBlock, kBlock, kBlock, 'a');
  write(1, "corpus.txt", corpus);
  const Words verify{"activation_checkpointing.mode=full", "activation_checkpointing.verify=true",
                     "training.max_steps=200"};
  expect_disagreement(train(tensor_ + text_ + verify),
                      {"the ranks have different batches in step ", "\nids: ", "\ntargets: "});
}

TEST(ProgramIdentity, NamesWhatComputes) {
  const auto identity = program_identity(CpuIsa::kAuto);
  EXPECT_EQ(identity, program_identity(CpuIsa::kAuto));
  ASSERT_TRUE(identity.contains("program") && identity.contains("instruction set"));
  EXPECT_NE(identity.at("program").find(" bytes of code, "), std::string::npos) << identity.at("program");
  EXPECT_GE(identity.size(), 3u);  // and libm
}

// Changes what the instructions that fill gaps between functions say of an address, which nobody reads: all of them, as the
// identity is made of samples, and where these lie is the linker's choice. How many there are.
int change_filling(std::string& program) {
  const std::string filling("\x66\x2e\x0f\x1f\x84\0\0\0\0\0", 10);  // nopw cs:0(rax, rax)
  ElfW(Ehdr) head;
  std::memcpy(&head, program.data(), sizeof head);
  int changed = 0;
  for (int i = 0; i < head.e_phnum; ++i) {
    ElfW(Phdr) segment;
    std::memcpy(&segment, program.data() + head.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
    const std::size_t end = segment.p_offset + segment.p_filesz;
    for (std::size_t at = segment.p_offset; (at = program.find(filling, at)) < end; ++changed)
      program[(at += filling.size()) - 1] = 1;
  }
  return changed;
}

// The same program but for bytes of code that do nothing.
TEST_F(OwnFiles, AnotherProgramIsNamed) {
  std::string program = TemporaryFolder::read(recollect_binary());
  if (change_filling(program) == 0) GTEST_SKIP() << "nothing that can be changed fills its gaps";
  const std::string other = place_.folder().write("other", program);
  std::filesystem::permissions(other, std::filesystem::perms::owner_all);
  const uint16_t port = free_port();
  for (int rank = 0; rank < 2; ++rank)
    ranks_.start(torchrun_variables(rank, 2, 2, "127.0.0.1", port),
                 tensor_ + Words{"parallelism.communicator=tcp"},
                 rank == 0 ? Words{} : shell("exec " + other + " \"$@\""));
  expect_disagreement(ranks_.wait(), {"the ranks have different inputs\nprogram: ", " bytes of code, ",
                                      " on rank 0", " on rank 1"});
}

// The words of a field are bytes of the model's input, whose shape and type they must have.
TEST(Masks, ThatMaskNothingAreRemarkedOn) {
  const Workplace place;
  const std::string labelled = "{\"input_ids\": [1, 2, 3], \"labels\": [4, -100, 5]}\n",
                    bare = "{\"input_ids\": [1, 2, 3]}\n";
  place.folder().write(
      "c.yaml",
      "task: masked_lm\nmodel: {type: bert, vocab_size: 61, max_position_embeddings: 8, hidden_size: 8, "
      "num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 8}\n"
      "training: {max_steps: 1}\ndata: {format: jsonl, path: l.jsonl, sequence_length: 8, mask_token: 3}\n"
      "logging: {progress: off}\noverwrite: true\n");
  for (const bool all : {true, false}) {
    place.folder().write("l.jsonl", labelled + (all ? labelled : bare));
    const Finished finished = place.train({});
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(times_in(finished.err, "data.mask_token masks nothing of l.jsonl: every line has labels"), all)
        << finished.err;
  }
}

TEST(Inputs, AreOfTheProgramsShapeAndType) {
  OpRegistry registry;
  register_engine_ops(registry);
  Graph graph;
  const auto input = [&](const char* name, const Shape& shape, DType dtype) {
    return graph.add_value(
        {.name = name, .shape = shape, .dtype = dtype, .category = Category::kInput, .persistent = true});
  };
  Model model;
  model.inputs["ids"] = input("input/ids", {2, 3}, DType::kI32);
  const ValueId targets = model.inputs["targets"] = input("input/targets", {2}, DType::kF32);
  graph.add_op({.def = registry.find("add"), .name = "sum", .inputs = {targets, targets}});
  KernelTable kernels;
  reference::register_kernels(kernels, nullptr);
  Program program = compile(graph, kernels);
  const std::unique_ptr<Device> device = make_cpu_device();
  ProgramMemory memory(*device, {&program});
  const Executor executor(std::move(program), memory);

  Fields fields;
  fields["ids"] = {1, 2, 3, 4, 5, 6};
  fields.field("targets").dtype = DType::kF32;
  fields["targets"] = {std::bit_cast<int32_t>(0.25f), std::bit_cast<int32_t>(-3.0f)};
  write_inputs(executor, model, fields);
  std::vector<int32_t> ids(6);
  std::vector<float> numbers(2);
  executor.read(ids.data(), model.input("ids"));
  executor.read(numbers.data(), targets);
  EXPECT_EQ(ids, fields["ids"]);
  EXPECT_EQ(numbers, (std::vector<float>{0.25f, -3.0f}));

  const auto refused = [&](const char* what) {
    expect_error(ExitCode::kInternal, {what}, [&] { write_inputs(executor, model, fields); });
  };
  fields.field("targets").dtype = DType::kI32;
  refused("another type");
  fields.field("targets").dtype = DType::kF32;
  fields["ids"].pop_back();
  refused("another shape");
  fields["ids"].push_back(6);
  fields["lengths"] = {1};
  refused("lengths");
}

}  // namespace
}  // namespace recollect::test::inputs_test
