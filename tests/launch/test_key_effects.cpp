// What each key says that it can change (ConfigKey::decides): a run that goes on from a snapshot with another value of a
// key that can change nothing has the same bits, and nobody is warned; with another value of one that can, somebody is.
#include <gtest/gtest.h>

#include <set>

#include "launch/config/keys.h"
#include "tests/launch/process.h"

namespace recollect::test::key_effects_test {
namespace {

// Two tensor ranks, lines of several lengths; four steps, the state of the second saved.
const Words kBase = {"device.backend=cpu",
                     "training.precision=fp32",
                     "optimizer.name=adamw",
                     "optimizer.momentum=0",
                     "data.format=jsonl",
                     "data.path=lines.jsonl",
                     "parallelism.tensor_parallel_size=2",
                     "parallelism.ranks_per_process=2",
                     "training.max_steps=4",
                     "training.micro_batch_size=2",
                     "snapshot.every_steps=2",
                     "snapshot.keep=9",
                     "checkpoint.save_model=true",
                     "memory_report.at=[]",
                     "profiling.step=0"};

// Tried together: of a group each key has another value than in the base.
const Words kWithoutEffect[] = {
    {"data.prefetch=9",
     "device.threads=2",
     "parallelism.timeout_seconds=99",
     "parallelism.collective_pieces=2",
     "parallelism.communicator=local",
     "logging.steps=1",
     "logging.progress=off",
     "logging.verbose=true",
     "logging.report_to=[jsonl,tensorboard,mlflow]",
     "logging.tensorboard_dir=tb",
     "logging.mlflow_dir=ml",
     "logging.hook=cat",
     "memory_report.at=[end]",
     "memory_report.formats=[json]",
     "profiling.step=1",
     "model.initializer_range=0.5",
     "numerics.on_non_finite=skip",
     "numerics.max_non_finite=3",
     "numerics.spike_z_score=3",
     "numerics.verify_every=2",
     "snapshot.keep=3",
     "snapshot.asynchronous=false",
     "snapshot.path=other",
     "snapshot.every_minutes=9",
     "debug.dump_gradients=g",
     "debug.dump_step=3",
     "overwrite=false"},
    {"activation_checkpointing.mode=full", "activation_checkpointing.partition_activations=true",
     "activation_checkpointing.cpu_checkpointing=true",
     "activation_checkpointing.contiguous_checkpointing=false", "activation_checkpointing.keep_last=0",
     "activation_checkpointing.prefetch=1", "activation_checkpointing.verify=true",
     "activation_checkpointing.number_checkpoints=2"},
    {"activation_checkpointing.mode=every_k", "activation_checkpointing.k=1", "snapshot.every_steps=0",
     "snapshot.every_epochs=0.2", "snapshot.every_minutes=9", "logging.every_epochs=0.2"},
    {"activation_checkpointing.mode=selective", "activation_checkpointing.recompute=[norm]",
     "activation_checkpointing.disk_checkpointing.path=.",
     "activation_checkpointing.disk_checkpointing.limit=1GiB", "optimizer.offload=disk",
     "optimizer.offload_path=.", "optimizer.offload_ratio=0.5"},
    {"activation_checkpointing.mode=auto", "activation_checkpointing.memory_budget=64MiB",
     "activation_checkpointing.host_memory_budget=1MiB", "device.memory_limit=1GiB", "device.model=h100"},
    {"evaluation.every_steps=1", "evaluation.path=lines.jsonl", "evaluation.format=jsonl",
     "evaluation.batches=1", "evaluation.metrics=[perplexity]", "evaluation.metric_for_best_model=perplexity",
     "checkpoint.save_best_model=true"},
    {"evaluation.every_epochs=0.2", "evaluation.path=lines.jsonl", "model.pretrained=out",
     "numerics.on_non_finite=rollback"},
};

// Why a key that changes nothing is not tried here.
const std::pair<const char*, const char*> kNotTried[] = {
    {"output_dir", "where this looks for results"},
    {"resume", "how this goes on"},
    {"checkpoint.save_model", "what this compares"},
    {"checkpoint.max_shard_size", "of the files of that alone: test_saving.cpp"},
    {"model.config", "a file of keys, each of which is compared"},
    {"lora.path", "of adapters, which the snapshot has"},
    {"training.initial_loss_scale", "of fp16, whose scale the snapshot has"},
    {"parallelism.ranks_per_process", "test_nodes.cpp: threads against processes"},
    {"parallelism.gradient_bucket_mb", "tests/parallel/test_gradient_reduction.cpp"},
    {"activation_checkpointing.budget_policy", "of lengths that change: test_lengths.cpp"},
    {"device.cuda_graph", "of CUDA: tests/gpu/fake_cuda"},
    {"device.pinned", "of CUDA: tests/gpu/fake_cuda"},
    {"training.fp8_weight_cache", "test_fp8.cpp"},
    {"training.compile", "of lengths that change: test_lengths.cpp"},
    {"lora.merge", "of what is saved: test_adapters.cpp"},
    {"lora.save_base", "of what is saved: test_quantised_base.cpp"},
    {"activation_checkpointing.plan", "test_plan_file.cpp"},
    {"activation_checkpointing.recompute_layers", "test_layer_choices.cpp"},
    {"activation_checkpointing.replan_after", "test_replan.cpp"},
    {"evaluation.n_best", "of question_answering"},
    {"evaluation.max_answer_length", "of question_answering"},
    {"evaluation.null_threshold", "of question_answering"},
};

// Of the base each has another value; what no other of its group would make useless.
const Words kWithEffect[] = {
    {"optimizer.learning_rate=0.02",
     "optimizer.beta1=0.8",
     "optimizer.beta2=0.9",
     "optimizer.epsilon=1e-6",
     "optimizer.weight_decay=0.3",
     "optimizer.decay_all=true",
     "optimizer.max_grad_norm=0.5",
     "optimizer.layer_decay=0.9",
     "scheduler.name=polynomial",
     "scheduler.warmup_steps=1",
     "scheduler.power=2",
     "scheduler.min_lr=1e-4",
     "data.seed=9",
     "training.seed=8",
     "data.sequence_length=6",
     "data.padding=longest",
     "data.pad_to_multiple_of=2",
     "training.precision=bf16",
     "activation_checkpointing.storage_dtype=e4m3",
     "activation_checkpointing.mode=full"},
    {"data.shuffle=false", "scheduler.name=linear", "training.max_steps=5"},
};

std::string key_of(const std::string& word) { return word.substr(0, word.find('=')); }

class KeyEffects : public ::testing::Test {
 protected:
  KeyEffects() {
    std::string lines;
    for (int i = 0; i < 9; ++i)
      lines += "{\"input_ids\": [" + std::to_string(i) + ", 5, 7, 11, 3" + (i % 2 ? ", 2" : "") + "]}\n";
    place_.folder().write("lines.jsonl", lines);
    const Finished base = place_.train(kBase);
    EXPECT_EQ(base.status, 0) << base.err;
  }
  Finished resume(const Words& words, const std::string& output) const {
    return place_.train(kBase + Words{"resume=out/snapshots/step-00000002", "output_dir=" + output} + words);
  }
  std::vector<nlohmann::json> steps(const std::string& output) const {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& line : place_.metrics(output))
      if (line.contains("loss") && line.at("step") > 2)
        found.push_back({line.at("loss"), line.at("grad_norm"), line.at("learning_rate")});
    return found;
  }
  std::string model(const std::string& output) const {
    return TemporaryFolder::read(place_.file(output + "/model.safetensors"));
  }

  const Workplace place_;
};

TEST_F(KeyEffects, OfKeysThatCanChangeNothingAreNone) {
  const std::vector<nlohmann::json> expected = steps("out");
  ASSERT_EQ(expected.size(), 2u);
  int group = 0;
  for (const Words& words : kWithoutEffect) {
    const std::string output = "group" + std::to_string(group++);
    const Finished again = resume(words, output);
    ASSERT_EQ(again.status, 0) << words.front() << "\n" << again.err;
    EXPECT_EQ(again.err.find("results will be others"), std::string::npos) << words.front() << "\n"
                                                                           << again.err;
    EXPECT_EQ(steps(output), expected) << words.front();
    EXPECT_EQ(model(output), model("out")) << words.front();
  }
}

TEST_F(KeyEffects, OfKeysThatCanAreWarnedOf) {
  int group = 0;
  for (const Words& words : kWithEffect) {
    const Finished again = resume(words, "changed" + std::to_string(group++));
    ASSERT_EQ(again.status, 0) << words.front() << "\n" << again.err;
    const std::size_t begin = again.err.find("results will be others: ");
    ASSERT_NE(begin, std::string::npos) << again.err;
    const std::string said = again.err.substr(begin, again.err.find('\n', begin) - begin);
    for (const std::string& word : words)
      EXPECT_NE(said.find(" " + key_of(word) + " "), std::string::npos) << word << "\n" << said;
  }
}

TEST(KeyTables, EveryKeyWithoutEffectIsTried) {
  std::set<std::string> tried;
  for (const Words& words : kWithoutEffect)
    for (const std::string& word : words) tried.insert(key_of(word));
  for (const auto& [key, why] : kNotTried) EXPECT_TRUE(tried.insert(key).second) << key;
  const KeyTable table;
  for (const ConfigKey& key : table.keys()) {
    const bool can_change = key.decides == Decides::kResults || key.decides == Decides::kLength;
    EXPECT_EQ(tried.contains(key.path()), !can_change) << key.path();
  }
  for (const Words& words : kWithEffect)
    for (const std::string& word : words)
      if (key_of(word) != "activation_checkpointing.mode" && key_of(word) != "training.max_steps") {
        EXPECT_FALSE(tried.contains(key_of(word))) << word;
      }
}

}  // namespace
}  // namespace recollect::test::key_effects_test
