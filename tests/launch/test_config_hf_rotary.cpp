// The rotary positions of config.json: read as Transformers reads them, and written so that they read back.
#include <fmt/format.h>

#include "engine/io/json.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/hf_config_folder.h"

namespace recollect::test::config_hf_rotary_test {
namespace {

using HFRotary = HFConfigFolder;

// As Transformers 5 reads a file that says things twice.
TEST_F(HFRotary, RotaryPositionsAreReadAsTransformersDoes) {
  write(R"({"model_type": "llama", "rope_theta": 77.0, "original_max_position_embeddings": 16,
            "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5.0},
            "rope_scaling": {"rope_type": "llama3", "type": "linear", "factor": 4.0, "rope_theta": 100.0,
                             "original_max_position_embeddings": 32}})");
  const Config::Model both = read_hf_config(path_);
  EXPECT_EQ(both.values.text("rope_scaling.rope_type"), "llama3");
  EXPECT_EQ(both.values.real("rope_scaling.factor"), 4);
  EXPECT_EQ(both.values.real("rope_theta"), 100);
  EXPECT_EQ(both.values.integer("rope_scaling.original_max_position_embeddings"), 16);
  write(
      R"({"model_type": "llama", "rope_theta": 77.0, "rope_scaling": {}, "rope_parameters": {"rope_type": "linear", "factor": 2.0}})");
  const Config::Model newer = read_hf_config(path_);
  EXPECT_EQ(newer.values.text("rope_scaling.rope_type"), "linear");
  EXPECT_EQ(newer.values.real("rope_theta"), 77);
  write(R"({"model_type": "qwen2", "num_attention_heads": 4, "num_key_value_heads": null})");
  EXPECT_EQ(read_hf_config(path_).values.integer("num_key_value_heads"), 4);
}

// The keys that each type reads and ignores; where each family keeps the base and the rotated part of a head.
TEST_F(HFRotary, EveryTypeOfRotaryPositionsIsReadAndWritten) {
  struct Case {
    const char *file, *written;
  };
  for (
      const auto& [file, written] :
      {Case{
           R"("model_type": "llama", "rope_parameters": {"rope_type": "yarn", "rope_theta": 5.0, "factor": 4.0,
                "original_max_position_embeddings": 64, "beta_fast": null, "truncate": false, "low_freq_factor": 1})",
           R"({"rope_theta": 5.0, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0,
                 "beta_slow": 1.0, "original_max_position_embeddings": 64, "truncate": false}})"},
       Case{R"("model_type": "mistral", "max_position_embeddings": 64, "original_max_position_embeddings": 16,
                "rope_scaling": {"type": "yarn", "factor": null, "mscale": 0.5, "mscale_all_dim": 0.75,
                                 "attention_factor": 1.5})",
            R"({"rope_theta": 10000.0, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0,
                 "attention_factor": 1.5, "beta_slow": 1.0, "mscale": 0.5, "mscale_all_dim": 0.75,
                 "original_max_position_embeddings": 16, "truncate": true}})"},
       Case{R"("model_type": "qwen2", "rope_scaling": {"type": "dynamic", "factor": 2.0,
                "original_max_position_embeddings": 7})",
            R"({"rope_theta": 10000.0, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}})"},
       Case{R"("model_type": "qwen3", "rope_parameters": {"rope_type": "longrope", "rope_theta": 7.5,
                "short_factor": [1, 1.25], "long_factor": [2.5, 3e1], "original_max_position_embeddings": 8})",
            R"({"rope_theta": 7.5, "rope_scaling": {"rope_type": "longrope", "short_factor": [1.0, 1.25],
                 "long_factor": [2.5, 30.0], "original_max_position_embeddings": 8}})"},
       Case{
           R"("model_type": "llama", "rope_parameters": {"rope_type": "default", "rope_theta": 5.0, "factor": 4.0})",
           R"({"rope_theta": 5.0, "rope_scaling": null})"},
       Case{R"("model_type": "phi3", "partial_rotary_factor": 0.5, "rope_theta": 9.0,
                "rope_scaling": {"type": "su", "short_factor": [1.5], "long_factor": [2.5],
                                 "original_max_position_embeddings": 7})",
            R"({"rope_theta": 9.0, "partial_rotary_factor": 0.5, "original_max_position_embeddings": 4096,
                 "rope_scaling": {"type": "longrope", "short_factor": [1.5], "long_factor": [2.5]}})"},
       Case{R"("model_type": "phi3", "original_max_position_embeddings": 32, "partial_rotary_factor": 0.5,
                "rope_parameters": {"rope_type": "default", "rope_theta": 9.0, "partial_rotary_factor": 0.75})",
            R"({"rope_theta": 9.0, "partial_rotary_factor": 0.75, "original_max_position_embeddings": 32,
                 "rope_scaling": null})"},
       Case{R"("model_type": "gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 77)",
            R"({"rotary_emb_base": 77.0, "rotary_pct": 0.5, "rope_scaling": null})"},
       Case{R"("model_type": "gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 77, "rope_parameters":
                {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.75})",
            R"({"rotary_emb_base": 77.0, "rotary_pct": 0.75,
                 "rope_scaling": {"rope_type": "linear", "factor": 2.0}})"}}) {
    write("{" + std::string(file) + "}");
    const Config::Model model = read_hf_config(path_);
    const auto saved = nlohmann::json::parse(hf_config_text(model, Task::kCausalLm));
    const auto expected = nlohmann::json::parse(written);
    for (const auto& [key, value] : expected.items()) EXPECT_EQ(saved.at(key), value) << file;
    write(saved.dump());
    EXPECT_EQ(hf_config_text(read_hf_config(path_), Task::kCausalLm), hf_config_text(model, Task::kCausalLm));
  }
}

// Transformers computes without it: the key is then rope_type alone.
TEST_F(HFRotary, AnOlderNameThatIsNotReadIsRefused) {
  const std::string said =
      this->said(R"({"model_type": "gemma3_text", "rope_scaling": {"type": "linear", "factor": 8}})");
  EXPECT_NE(said.find("rope_scaling.type is not read by Transformers"), std::string::npos) << said;
  EXPECT_EQ(
      this->said(R"({"model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8}})"),
      "accepted");
}

TEST_F(HFRotary, WhatIsNoObjectIsRefused) {
  for (const char* type : {"llama", "gemma3_text"}) {
    const std::string said = this->said(fmt::format(R"({{"model_type": "{}", "rope_parameters": 0}})", type));
    EXPECT_NE(said.find("rope_parameters is 0, and no object"), std::string::npos) << said;
  }
}

TEST_F(HFRotary, RotaryPositionsThatContradictAreRefused) {
  for (const auto& [keys, wrong] : std::initializer_list<std::pair<const char*, const char*>>{
           {"type: llama, rope_scaling: {rope_type: dynamic}",
            "rope_type dynamic needs model.rope_scaling.factor"},
           {"type: llama, rope_scaling: {rope_type: yarn, factor: 2, beta_fast: 1}",
            "beta_slow 1 is not below beta_fast 1"},
           {"type: phi3, rope_scaling: {rope_type: longrope}",
            "model.rope_scaling.short_factor is needed: 48 positive numbers"},
           {"type: phi3, hidden_size: 256, rope_scaling: {rope_type: longrope, short_factor: '1, 2', "
            "long_factor: '1, 2, 3, 4'}",
            "model.rope_scaling.short_factor has 2 numbers, and 4 pairs of a head turn"},
           {"type: gpt_neox, rotary_pct: 0.1", "model.rotary_pct 0.1 of heads of 96 is 9 elements"},
           {"type: gemma3_text, local_rope_scaling: {rope_type: linear}",
            "model.local_rope_scaling.rope_type linear needs model.local_rope_scaling.factor"},
           {"type: gemma3_text, local_rope_scaling: {rope_type: yarn, factor: 2, truncate: false}",
            "model.local_rope_scaling.truncate false is not read by Transformers"},
           {"type: gemma3_text, num_hidden_layers: 5, rope_theta: 7",
            "model.rope_theta has no effect with model.num_hidden_layers 5: every layer has a window"}})
    EXPECT_NE(refusal(kLeast + "model: {" + keys + "}\n").find(wrong), std::string::npos)
        << refusal(kLeast + "model: {" + keys + "}\n");
}

}  // namespace
}  // namespace recollect::test::config_hf_rotary_test
