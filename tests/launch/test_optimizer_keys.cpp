// Every key of the section optimizer, with every optimizer: it changes what is trained, or it is refused.
#include "launch/config/keys.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::optimizer_keys_test {
namespace {

// Weight decay, or nothing would be decayed in another way.
const char* const kYaml = R"(
model: {type: gpt2, vocab_size: 31, n_positions: 8, n_embd: 8, n_layer: 1, n_head: 2, initializer_range: 0.3}
device: {backend: reference}
training: {precision: fp64, micro_batch_size: 2, max_steps: 3, seed: 7}
optimizer: {weight_decay: 0.1}
data: {format: random}
)";

// No key's default.
std::string other_value(const ConfigKey& key) {
  if (key.type == "boolean") return key.print(Config{}) == "true" ? "false" : "true";
  if (key.type == "integer") return "3";
  if (key.type == "choice") return key.choices.back();
  return key.range.high <= 0 ? "-0.25" : "0.25";
}

class OptimizerKeys : public testing::TestWithParam<std::string> {};

TEST_P(OptimizerKeys, ChangeWhatIsTrainedOrAreRefused) {
  const std::string name = "optimizer.name=" + GetParam();
  // A width at which matrices are large enough for states of 8 bits.
  const Words model = GetParam().ends_with("8bit") ? Words{"model.n_embd=64"} : Words{};
  const Tensors as_it_is = train(kYaml, model + Words{name}).parameters;
  std::vector<std::string> refused;
  for (const ConfigKey& key : KeyTable::of(model_families().front()).keys()) {
    if (key.section != "optimizer" || key.name == "name" || key.name == "groups") continue;
    if (key.name.starts_with("offload")) continue;  // where states lie, which changes no number
    if (GetParam().starts_with("lion") && key.name == "max_grad_norm")
      continue;  // signs alone count in so few steps
    const std::string other = key.path() + "=" + other_value(key);
    const std::string said = refusal(kYaml, {name, other});
    if (said == "accepted") {
      EXPECT_NE(train(kYaml, model + Words{name, other}).parameters, as_it_is) << other;
      continue;
    }
    const std::string why = key.path() + " has no effect with optimizer.name " + GetParam() + ": ";
    EXPECT_NE(said.find(why), std::string::npos) << said;
    refused.push_back(key.name);
    // Where only the command line says it, its default means as little; a file's value may be taken back.
    std::string otherwise = key.path() + "=" + key.print(Config{});
    std::erase(otherwise, '"');  // a word of the command line is no YAML
    EXPECT_NE(refusal(kYaml, {name, otherwise}).find(why), std::string::npos) << otherwise;
    EXPECT_EQ(
        refusal(kLeast + "optimizer: {" + key.name + ": " + other_value(key) + "}\n", {name, otherwise}),
        "accepted");
  }
  std::vector<std::string> declared;
  for (const auto& [setting, why] : optimizer_entry(GetParam()).unused) declared.emplace_back(setting);
  EXPECT_EQ(refused, declared);
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const OptimizerEntry& entry : optimizer_rules()) names.emplace_back(entry.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerKeys, testing::ValuesIn(all_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace recollect::test::optimizer_keys_test
