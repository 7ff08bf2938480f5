// The configurations for several GPUs in configs/ train, made small: on two ranks with a fake CUDA each, with the bits of the
// same layout without checkpointing, and in the memory that was predicted.
#include <fstream>
#include <sstream>

#include "tests/gpu/fake_cuda/ranks.h"

namespace recollect::fake_cuda {
namespace {

std::string text_of(const std::string& name) {
  std::ifstream file(RECOLLECT_SOURCE_DIR "/configs/" + name + ".yaml");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

const Words kSmall = {"model.vocab_size=37",
                      "model.hidden_size=16",
                      "model.intermediate_size=32",
                      "model.num_hidden_layers=3",
                      "model.num_attention_heads=4",
                      "model.num_key_value_heads=2",
                      "model.max_position_embeddings=8",
                      "data.sequence_length=8",
                      "training.max_steps=2"};

TEST_F(FakeRanks, TheConfigurationsForSeveralGpusTrain) {
  const std::pair<std::string, Words> files[] = {
      {"llama-8b-tensor8", {"parallelism.tensor_parallel_size=2"}},
      {"llama-8b-zero3", {"parallelism.data_parallel_size=2", "training.global_batch_size=4"}}};
  expect_fine(test::run_as_processes(2, [&](Communicator& world) {
    for (const auto& [name, layout] : files) {
      const Words words = with(kSmall, layout);
      Words none = with(words, {"activation_checkpointing.mode=none"});
      if (name == "llama-8b-tensor8")
        none = with(none, {"activation_checkpointing.partition_activations=false",
                           "activation_checkpointing.cpu_checkpointing=false"});
      const Settings settings{.devices = 2};
      require(numbers(world, text_of(name), words, settings, true) ==
                  numbers(world, text_of(name), none, settings, true),
              name + ": checkpointing changes no bit");
    }
  }));
}

}  // namespace
}  // namespace recollect::fake_cuda
