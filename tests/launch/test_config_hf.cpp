// Hugging Face config.json: read strictly where it matters, merged below the YAML, written so that it reads
// back.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "engine/io/json.h"
#include "launch/config/hf_config.h"
#include "tests/engine/temporary_folder.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/hf_config_folder.h"

namespace recollect::test::config_hf_test {
namespace {

using HFConfig = HFConfigFolder;

constexpr const char* kTransformers = R"({
  "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.0, "bos_token_id": 50256,
  "embd_pdrop": 0.25, "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
  "model_type": "gpt2", "n_ctx": 32, "n_embd": 48, "n_head": 4, "n_inner": null, "n_layer": 2, "n_positions": 32,
  "reorder_and_upcast_attn": false, "resid_pdrop": 0.1, "scale_attn_by_inverse_layer_idx": false,
  "scale_attn_weights": true, "summary_activation": null, "summary_proj_to_labels": true, "summary_type": "cls_index",
  "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "torch_dtype": "float32",
  "transformers_version": "4.40.0", "use_cache": true, "vocab_size": 101})";

// The aliases of model.pretrained are names of TrainingArguments, not of a model's file.
TEST_F(HFConfig, NamesNoOtherModel) {
  write(R"({"model_type": "gpt2", "model_name_or_path": "a", "base_model": "b", "pretrained": "c"})");
  EXPECT_EQ(read_hf_config(path_).pretrained, "");
}

TEST_F(HFConfig, ReadsWhatTransformersWrites) {
  write(kTransformers);
  const Config::Model m = read_hf_config(path_);
  EXPECT_EQ(m.values.integer("vocab_size"), 101);
  EXPECT_EQ(m.values.integer("n_positions"), 32);
  EXPECT_EQ(m.values.integer("n_embd"), 48);
  EXPECT_EQ(m.values.integer("n_layer"), 2);
  EXPECT_EQ(m.values.integer("n_head"), 4);
  EXPECT_EQ(m.values.integer("n_inner"), 192);
  EXPECT_EQ(m.values.real("embd_pdrop"), 0.25);
  EXPECT_EQ(m.values.real("attn_pdrop"), 0);
  EXPECT_EQ(m.values.real("layer_norm_epsilon"), 1e-5);
}

TEST_F(HFConfig, YamlOverridesIt) {
  write(kTransformers);
  for (const std::string& source : {"config: " + path_, "pretrained: " + folder_.string()}) {
    const Config c = accepted(kLeast + "model:\n  attn_pdrop: 0.5\n  hidden_size: 96\n  " + source,
                              {"model.num_hidden_layers=3"});
    EXPECT_EQ(c.model.values.real("attn_pdrop"), 0.5);
    EXPECT_EQ(c.model.values.integer("n_embd"), 96);
    EXPECT_EQ(c.model.values.integer("n_inner"), 384);
    EXPECT_EQ(c.model.values.integer("n_layer"), 3);
    EXPECT_EQ(c.model.values.real("embd_pdrop"), 0.25);
    EXPECT_EQ(c.data.sequence_length, 32);
    EXPECT_EQ(flatten(read_config_text("dump", dump_resolved(c))), flatten(c));
  }
}

TEST_F(HFConfig, RefusesTheFileOfAnotherType) {
  for (const char* type : {"mistral", "albert"}) {
    write(std::string(R"({"num_attention_heads": 4, "model_type": ")") + type + "\"}");
    const std::string problems = refusal(kLeast + "model:\n  type: llama\n  config: " + path_, {});
    EXPECT_EQ(problems, path_ + ": model_type is " + type + ", and model.type is llama");
  }
}

// models--OWNER--NAME, whose snapshots hold links to blobs.
TEST_F(HFConfig, IsFoundInTheHubsCache) {
  namespace fs = std::filesystem;
  const test::TemporaryFolder cache;
  const std::string model = cache.file("models--owner--name");
  for (const char* commit : {"c1", "c2"}) fs::create_directories(model + "/snapshots/" + commit);
  fs::create_directories(model + "/blobs");
  fs::create_directories(model + "/refs");
  cache.write("models--owner--name/blobs/b", R"({"model_type": "gpt2", "n_layer": 3})");
  for (const char* commit : {"c1", "c2"})
    fs::create_symlink("../../blobs/b", model + "/snapshots/" + commit + "/config.json");
  const auto read = [&](const std::string& path) {
    return accepted(kLeast + "model: {pretrained: " + path + "}\n");
  };
  EXPECT_EQ(refusal(kLeast + "model: {pretrained: " + model + "}\n"),
            "c.yaml:2:21: model.pretrained: " + model +
                " has several snapshots, and refs/main names none of them; write one: " + model +
                "/snapshots/c1");
  cache.write("models--owner--name/refs/main", "c2\n");
  EXPECT_EQ(read(model).model.pretrained, model + "/snapshots/c2");
  EXPECT_EQ(read(model).model.values.integer("n_layer"), 3);
  EXPECT_EQ(read(model + "/snapshots/c1").model.pretrained, model + "/snapshots/c1");
  fs::remove_all(model + "/snapshots/c2");
  EXPECT_EQ(read(model).model.pretrained, model + "/snapshots/c1");
}

TEST_F(HFConfig, RefusesWhatItCannotBe) {
  EXPECT_EQ(said("{"),
            "J: not JSON: [json.exception.parse_error.101] parse error at line 1, column 2: syntax error "
            "while parsing object key - unexpected end of input; expected string literal");
  EXPECT_EQ(said("[]"), "J: not a JSON object");
  const std::string types =
      "gpt2, bert, llama, mistral, qwen2, qwen3, phi3, gpt_neox, gemma2, gemma3_text, roberta, xlm-roberta, "
      "distilbert, modernbert";
  EXPECT_EQ(said("{}"), "J: model_type is missing; expected one of " + types);
  EXPECT_EQ(said(R"({"model_type": "rwkv"})"),
            "J: model_type: expected one of " + types + ", found the text \"rwkv\"");
  EXPECT_EQ(
      said(R"({"model_type": "olmo2", "hidden_size": 64, "rms_norm_eps": 1e-6, "rope_theta": 5, "odd": 1})"),
      "J: model_type: expected one of " + types +
          ", found the text \"olmo2\"; by its keys it is nearest to llama, which knows 3 of 4");
  EXPECT_EQ(said(R"({"model_type": "xlnet", "n_layer": 2, "layer_norm_epsilon": 1e-6, "n_inner": 5})"),
            "J: model_type: expected one of " + types +
                ", found the text \"xlnet\"; by its keys it is nearest to gpt2, which knows 3 of 3");
  EXPECT_EQ(said(R"({"model_type": "gpt2", "n_embd": "48", "n_layer": 0, "attn_pdrop": 1.5, "n_head": 2.0})"),
            "J: attn_pdrop: 1.5 is out of range; must be in [0, 1)\n"
            "J: n_embd: expected an integer, found the text \"48\"\n"
            "J: n_head: expected an integer, found '2.0'\n"
            "J: n_layer: 0 is out of range; must be in [1, 1024]");
  EXPECT_EQ(said(R"({"model_type": "gpt2", "n_embd": 1, "n_embd": 2})"), "J: duplicate key 'n_embd'");
  EXPECT_EQ(said(R"({"model_type": "gpt2", "n_embd": 1, "hidden_size": 2})"),
            "J: hidden_size and n_embd are the same key");
  EXPECT_EQ(said(R"({"model_type": "gpt2", "n_embd": [1]})"), "J: n_embd: expected an integer, found a list");
}

TEST_F(HFConfig, RefusesOtherMathematics) {
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"scale_attn_by_inverse_layer_idx", "true"},
                                                        {"reorder_and_upcast_attn", "true"},
                                                        {"add_cross_attention", "true"},
                                                        {"is_encoder_decoder", "true"},
                                                        {"scale_attn_weights", "false"},
                                                        {"tie_word_embeddings", "false"}}) {
    const std::string other = value == "true" ? "false" : "true";
    EXPECT_EQ(said("{\"model_type\": \"gpt2\", \"" + key + "\": " + value + "}"),
              "J: " + key + ": " + value + " is not supported, only " + other);
    EXPECT_EQ(said("{\"model_type\": \"gpt2\", \"" + key + "\": " + other + "}"), "accepted");
  }
  EXPECT_EQ(said(R"({"model_type": "gpt2", "quantization_config": {"bits": 4}})"),
            "J: quantization_config: neither load_in_4bit nor load_in_8bit is true");
  EXPECT_EQ(said(R"({"model_type": "gpt2", "quantization_config": {"quant_method": "gptq", "bits": 4}})"),
            "J: quantization_config: quant_method gptq is not supported, only bitsandbytes");
  EXPECT_EQ(said(R"({"model_type": "gpt2", "scale_attn_weights": )" + std::string(100000, '[') +
                 std::string(100000, ']') + "}"),
            "J: scale_attn_weights: array is not supported, only true");
  EXPECT_EQ(said(R"({"model_type": "gemma3", "text_config": {"attention_bias": )" + std::string(100000, '[') +
                 std::string(100000, ']') + "}}"),
            "J: attention_bias: array is not supported, only false");
}

// What newer and older files say in other words than the keys.
TEST_F(HFConfig, FamiliesKnowTheirOtherWords) {
  write(
      R"({"model_type": "llama", "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
            "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 512}})");
  const Config::Model newer = read_hf_config(path_);
  EXPECT_EQ(newer.values.real("rope_theta"), 500000);
  EXPECT_EQ(newer.values.text("rope_scaling.rope_type"), "llama3");
  EXPECT_EQ(newer.values.integer("rope_scaling.original_max_position_embeddings"), 512);
  write(R"({"model_type": "llama", "rope_theta": 100.0, "rope_scaling": {"type": "linear", "factor": 2.0}})");
  const Config::Model older = read_hf_config(path_);
  EXPECT_EQ(older.values.real("rope_theta"), 100);
  EXPECT_EQ(older.values.text("rope_scaling.rope_type"), "linear");
  EXPECT_EQ(older.values.real("rope_scaling.factor"), 2);
  write(R"({"model_type": "mistral", "sliding_window": null, "rope_scaling": null})");
  EXPECT_EQ(read_hf_config(path_).values.integer("sliding_window"), 0);
  write(R"({"model_type": "mistral", "max_position_embeddings": 8192})");
  EXPECT_EQ(read_hf_config(path_).facts().longest.key, "max_position_embeddings");
  write(
      R"({"model_type": "gemma2", "attn_logit_softcapping": null, "final_logit_softcapping": 20, "sliding_window": null,
            "layer_types": null, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}})");
  const Config::Model gemma = read_hf_config(path_);
  EXPECT_EQ(gemma.values.real("attn_logit_softcapping"), 0);
  EXPECT_EQ(gemma.values.real("final_logit_softcapping"), 20);
  EXPECT_EQ(gemma.values.integer("sliding_window"), 0);
  EXPECT_EQ(gemma.values.real("rope_theta"), 500);
  // Transformers 5 has an object for each kind of layers; a model of text and images has its text model in another.
  for (
      const char* text :
      {R"({"model_type": "gemma3_text", "rope_theta": 500.0, "rope_local_base_freq": 7.0, "eos_token_id": 9,
            "sliding_window_pattern": 3, "num_hidden_layers": 4, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}})",
       R"({"model_type": "gemma3_text", "rope_theta": 1.0, "layer_types": ["sliding_attention", "sliding_attention",
            "full_attention", "sliding_attention"], "num_hidden_layers": 4, "rope_local_base_freq": 7.0, "eos_token_id": 9,
            "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500.0},
                                "sliding_attention": {"rope_type": "default"}}})",
       R"({"model_type": "gemma3", "eos_token_id": 9, "image_token_index": 5, "vision_config": {"hidden_size": 3},
            "text_config": {"model_type": "gemma3_text", "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                            "rope_parameters": {"full_attention": {"rope_type": "llama3", "rope_theta": 500.0},
                                                "sliding_attention": {"rope_theta": 7.0}},
                            "sliding_window_pattern": 3, "num_hidden_layers": 4}})"}) {
    SCOPED_TRACE(text);
    write(text);
    Config::Model third = read_hf_config(path_);
    EXPECT_EQ(third.type, "gemma3_text");
    EXPECT_EQ(third.values.real("rope_theta"), 500);
    EXPECT_EQ(third.values.real("rope_local_base_freq"), 7);
    EXPECT_EQ(third.values.text("rope_scaling.rope_type"), "linear");
    EXPECT_EQ(third.values.real("rope_scaling.factor"), 8);
    EXPECT_EQ(third.values.text("local_rope_scaling.rope_type"), "default");
    third.config = path_;
    const auto written = nlohmann::json::parse(hf_config_text(third, Task::kCausalLm));
    EXPECT_EQ(written["model_type"], "gemma3_text");
    EXPECT_EQ(written["eos_token_id"], 9);
    EXPECT_EQ(written["query_pre_attn_scalar"].dump(), "256");
    EXPECT_FALSE(written.contains("rope_parameters"));
  }
  EXPECT_EQ(said(R"({"model_type": "gemma3_text", "attn_logit_softcapping": 50.0})"),
            "J: attn_logit_softcapping: 50.0 is not supported, only 0.0");
  write(R"({"model_type": "bert", "id2label": {"0": "a", "1": "b", "2": "c"}})");
  EXPECT_EQ(read_hf_config(path_).values.integer("num_labels"), 3);
}

TEST_F(HFConfig, TheUnlearntTokenIsThatOfTransformers) {
  const auto token = [&](const char* type, const char* value) {
    write(fmt::format(R"({{"model_type": "{}", "vocab_size": 50{}}})", type, value));
    const Config::Model model = read_hf_config(path_);
    const auto saved =
        nlohmann::json::parse(hf_config_text(model, model.family().tasks.front()))["pad_token_id"];
    EXPECT_EQ(saved.is_null() ? -1 : saved.get<int64_t>(), model.values.integer("pad_token_id"));
    return model.values.integer("pad_token_id");
  };
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3", "bert"}) {
    EXPECT_EQ(token(type, R"(, "pad_token_id": 3)"), 3) << type;
    EXPECT_EQ(token(type, R"(, "pad_token_id": null)"), -1) << type;
    EXPECT_EQ(token(type, R"(, "pad_token_id": -1)"), 49) << type;
    EXPECT_EQ(token(type, ""), std::string(type) == "bert" ? 0 : -1) << type;
  }
}

TEST_F(HFConfig, FamiliesRefuseWhatTheyCannotCompute) {
  for (const auto& [type, flag] : {std::pair("llama", "false"), {"gpt2", "false"}, {"bert", "true"}})
    EXPECT_NE(said(fmt::format(R"({{"model_type": "{}", "is_causal": {}}})", type, flag))
                  .find(fmt::format("is_causal: {} is not supported", flag)),
              std::string::npos);
  EXPECT_EQ(said(R"({"model_type": "llama", "rope_scaling": {"rope_type": "axial", "factor": 2.0}})"),
            "J: rope_type: expected one of default, linear, dynamic, yarn, longrope, llama3, found the text "
            "\"axial\"");
  EXPECT_EQ(said(R"({"model_type": "phi3", "rope_scaling": {"rope_type": "linear", "factor": 2.0}})"),
            "J: rope_type: expected one of default, longrope, found the text \"linear\"");
  EXPECT_EQ(said(R"({"model_type": "llama", "rope_scaling": "linear"})"),
            "J: rope_scaling: expected an object, found string");
  EXPECT_EQ(said(R"({"model_type": "llama", "hidden_act": "gelu"})"),
            "J: hidden_act: gelu is not supported, only \"silu\"");
  EXPECT_EQ(
      said(
          R"({"model_type": "llama", "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})"),
      "J: partial_rotary_factor: 0.5 is not supported, only 1.0");
  EXPECT_EQ(said(R"({"model_type": "bert", "position_embedding_type": "relative_key"})"),
            "J: position_embedding_type: relative_key is not supported, only \"absolute\"");
  EXPECT_EQ(said(R"({"model_type": "bert", "hidden_act": "relu"})"),
            "J: hidden_act: expected one of gelu, gelu_new, gelu_pytorch_tanh, found the text \"relu\"; did "
            "you mean 'gelu'?");
}

// What a config.json of an encoder says, in the words of the keys; or why it is refused.
TEST_F(HFConfig, EncodersReadTheirKeysAsTransformersDoes) {
  const auto read = [&](const std::string& type, const std::string& more) {
    write(fmt::format(R"({{"model_type": "{}", "vocab_size": 50{}}})", type, more));
    return read_hf_config(path_).values;
  };
  ModelValues m =
      read("distilbert", R"(, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2)");
  EXPECT_EQ(m.integer("dim"), 24);
  EXPECT_EQ(m.integer("n_layers"), 3);
  EXPECT_EQ(m.integer("n_heads"), 2);
  EXPECT_EQ(m.real("seq_classif_dropout"), 0.2);
  m = read("roberta", R"(, "max_position_embeddings": 514, "pad_token_id": 1)");
  EXPECT_EQ(model_family("roberta").facts(m).longest.value, 512);
  m = read("modernbert", R"(, "pad_token_id": 3, "global_rope_theta": 8e4, "local_rope_theta": 9e3)");
  EXPECT_EQ(m.real("global_rope_theta"), 8e4);
  EXPECT_EQ(m.real("local_rope_theta"), 9e3);
  // An object of Transformers 5 counts before the keys of old; null is their default.
  m = read("modernbert", R"(, "pad_token_id": 3, "global_rope_theta": 8e4, "initializer_cutoff_factor": null,
      "rope_parameters": {"full_attention": {"rope_theta": 7e4, "rope_type": "default"}, "sliding_attention": null},
      "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"])");
  EXPECT_EQ(m.real("global_rope_theta"), 7e4);
  EXPECT_EQ(m.real("local_rope_theta"), 1e4);
  EXPECT_EQ(m.real("initializer_cutoff_factor"), 3);
  EXPECT_EQ(m.text("layer_types"), "sliding_attention,full_attention");

  const auto expect_refused = [&](const char* keys, const std::string& why) {
    const std::string problems = said(fmt::format("{{{}}}", keys));
    EXPECT_NE(problems.find(why), std::string::npos) << problems;
  };
  expect_refused(R"("model_type": "roberta", "pad_token_id": null)", "pad_token_id: expected");
  expect_refused(R"("model_type": "xlm-roberta", "is_decoder": true)", "is_decoder: true is not supported");
  expect_refused(R"("model_type": "distilbert", "activation": "relu")", "activation: expected one of gelu");
  expect_refused(R"("model_type": "distilbert", "tie_word_embeddings": false)", "tie_word_embeddings: false");
  expect_refused(R"("model_type": "distilbert", "dim": 24, "hidden_size": 24)", "are the same key");
  expect_refused(
      R"("model_type": "modernbert", "rope_parameters": {"full_attention": {"rope_type": "yarn"}})",
      "rope_type: yarn is not supported");
  expect_refused(R"("model_type": "modernbert", "rope_scaling": {"type": "linear", "factor": 2})",
                 "rope_type: linear is not supported");
  expect_refused(R"("model_type": "modernbert", "classifier_pooling": "max")",
                 "classifier_pooling: expected one of");
  for (const auto& [model, why] :
       {std::pair("type: roberta, max_position_embeddings: 8, pad_token_id: 7", "leaves no position behind"),
        std::pair("type: modernbert, hidden_size: 36", "heads of 3 elements are odd"),
        std::pair("type: modernbert, layer_types: full_attention", "names 1 layers"),
        std::pair("type: distilbert, type_vocab_size: 2", "unknown key 'type_vocab_size'")}) {
    const std::string problems = refusal(kLeast + "task: masked_lm\nmodel: {" + model + "}\n", {});
    EXPECT_NE(problems.find(why), std::string::npos) << problems;
  }
}

TEST_F(HFConfig, ABrokenOneIsReportedWithTheRest) {
  write(R"({"model_type": "gpt2", "n_embd": 0})");
  EXPECT_EQ(refusal("model: {n_head: 7, config: " + path_ + "}\ndata: {format: randm}\n"),
            "c.yaml:2:16: data.format: expected one of random, jsonl, tokens, text, csv, tsv, cola, sst2, "
            "mrpc, qqp, stsb, mnli, qnli, rte, swag, squad, conll, found 'randm'; did you mean "
            "'random'?\n" +
                path_ + ": n_embd: 0 is out of range; must be in [1, 16777216]");
  EXPECT_EQ(refusal(kLeast + "model: {config: nowhere.json}"),
            "nowhere.json: cannot be read: No such file or directory");
  EXPECT_EQ(refusal("task: sequence_classification\ndata: {format: sst2, path: x}\nmodel: {pretrained: "
                    "bert-base-uncased}"),
            "c.yaml:3:21: model.pretrained: there is no folder bert-base-uncased; nothing is downloaded: "
            "Transformers' save_pretrained(FOLDER) makes one");
  EXPECT_EQ(refusal(kLeast + "model: {config: " + path_ + ", n_embd: 12, pretrained: x}"),
            "c.yaml:2:" + std::to_string(17) +
                ": model.config and model.pretrained are both given; "
                "model.pretrained brings its own config.json");
}

// A model that is trained on keeps its end of text and the names of its classes.
TEST_F(HFConfig, TokensAndLabelsKeepTheirNames) {
  const auto written = [&](const std::string& file, const std::string& more, Task task) {
    write(file);
    const std::string text =
        kLeast + "task: " + std::string(name_of(task)) + "\nmodel: {config: " + path_ + more + "}\n";
    const Config config = accepted(text);
    return nlohmann::json::parse(hf_config_text(config.model, task));
  };
  const std::string bert = R"({"model_type": "bert", "pad_token_id": 3, "eos_token_id": [7, 8],
      "id2label": {"0": "good", "1": "bad"}, "label2id": {"good": 0, "bad": 1}})";
  nlohmann::json saved = written(bert, "", Task::kSequenceClassification);
  EXPECT_EQ(saved["eos_token_id"], (nlohmann::json{7, 8}));
  EXPECT_EQ(saved["pad_token_id"], 3);
  EXPECT_EQ(saved["id2label"]["1"], "bad");
  EXPECT_EQ(saved["label2id"], (nlohmann::json{{"good", 0}, {"bad", 1}}));
  saved = written(bert, ", num_labels: 3, pad_token_id: 4", Task::kTokenClassification);
  EXPECT_EQ(saved["id2label"]["2"], "LABEL_2");
  EXPECT_EQ(saved["label2id"].size(), 3u);
  EXPECT_EQ(saved["pad_token_id"], 4);
  EXPECT_FALSE(written(bert, "", Task::kQuestionAnswering).contains("id2label"));
  saved = written(R"({"model_type": "llama", "bos_token_id": null, "eos_token_id": 128001})", "",
                  Task::kCausalLm);
  EXPECT_EQ(saved["eos_token_id"], 128001);
  EXPECT_TRUE(saved.contains("bos_token_id") && saved["bos_token_id"].is_null());
}

TEST_F(HFConfig, TheLayersOfAWindowAreKept) {
  const std::string layers = R"("layer_types": ["full_attention", "sliding_attention"], )";
  const auto written_for = [&](const char* count, const std::string& more) {
    write(
        R"({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 16, "max_window_layers": 1, )" +
        more + R"("num_hidden_layers": )" + count + "}");
    return kLeast + "model: {config: " + path_ + "}\n";
  };
  for (const bool listed : {true, false}) {
    const auto saved = nlohmann::json::parse(
        hf_config_text(accepted(written_for("2", listed ? layers : "")).model, Task::kCausalLm));
    EXPECT_EQ(saved["max_window_layers"], 1);
    nlohmann::json named;
    if (listed) named = {"full_attention", "sliding_attention"};
    EXPECT_EQ(saved["layer_types"], named);
  }
  EXPECT_EQ(refusal(written_for("3", layers), {}),
            path_ + ": model.layer_types names 2 layers, and model.num_hidden_layers is 3");
  EXPECT_EQ(
      refusal(written_for("1", R"("layer_types": ["chunked_attention"], )"), {}),
      path_ +
          ": model.layer_types names 'chunked_attention'; a layer is sliding_attention or full_attention");
}

TEST_F(HFConfig, WhatIsWrittenReadsBack) {
  Config::Model m;
  m.values.set("vocab_size", int64_t{101});
  m.values.set("n_embd", int64_t{24});
  m.values.set("n_head", int64_t{3});
  m.values.set("n_inner", int64_t{77});
  m.values.set("activation_function", std::string("gelu"));
  m.values.set("resid_pdrop", 1.0 / 3);
  m.values.set("layer_norm_epsilon", 1e-6);
  write_hf_config(path_, m, Task::kCausalLm, "bfloat16");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".part"));
  Config before = accepted(kLeast);
  Config after = before;
  before.model = m;
  after.model = read_hf_config(path_);
  EXPECT_EQ(flatten(after), flatten(before));
  try {
    write_hf_config((folder_ / "missing" / "config.json").string(), m, Task::kCausalLm);
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kStorage);
  }
}

}  // namespace
}  // namespace recollect::test::config_hf_test
