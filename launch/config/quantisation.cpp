#include "launch/config/quantisation.h"

#include <fmt/format.h>

#include "engine/core/printable.h"
#include "engine/io/file_text.h"
#include "launch/config/hf_config.h"

namespace recollect {

namespace {

constexpr const char* kKey = "quantization_config";

bool is_true(const nlohmann::json& described, const char* key) {
  return described.contains(key) && described[key] == nlohmann::json(true);
}

std::string text_of(const nlohmann::json& described, const char* key, const char* otherwise) {
  const auto found = described.find(key);
  return found != described.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

WeightFormat format_of(const nlohmann::json& described) {
  if (is_true(described, "load_in_8bit")) return WeightFormat::kInt8;
  return text_of(described, "bnb_4bit_quant_type", "fp4") == "nf4" ? WeightFormat::kNF4 : WeightFormat::kFP4;
}

std::vector<std::string> skipped_in(const nlohmann::json& described) {
  std::vector<std::string> modules;
  const auto found = described.find("llm_int8_skip_modules");
  if (found == described.end() || !found->is_array()) return modules;
  for (const nlohmann::json& module : *found)
    if (module.is_string()) modules.push_back(module.get<std::string>());
  return modules;
}

nlohmann::json description_in(const Config::Model& model) {
  if (model.pretrained.empty() && model.config.empty()) return nullptr;
  std::string text;
  if (!read_file_text(hf_config_path(model.config, model.pretrained), kMaxDocumentBytes, text).empty())
    return nullptr;
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains(kKey)) return nullptr;
  return document[kKey];
}

}  // namespace

std::string unsupported_quantisation(const nlohmann::json& described) {
  if (!described.is_object()) return "expected an object";
  const std::string method = text_of(described, "quant_method", "bitsandbytes");
  if (method != "bitsandbytes")
    return fmt::format("quant_method {} is not supported, only bitsandbytes", printable(method));
  if (!is_true(described, "load_in_4bit") && !is_true(described, "load_in_8bit"))
    return "neither load_in_4bit nor load_in_8bit is true";
  const std::string type = text_of(described, "bnb_4bit_quant_type", "fp4");
  if (is_true(described, "load_in_4bit") && type != "nf4" && type != "fp4")
    return fmt::format("bnb_4bit_quant_type {} is not supported, only nf4 and fp4", printable(type));
  if (is_true(described, "llm_int8_has_fp16_weight"))
    return "llm_int8_has_fp16_weight is not supported: weights of 8 bits are stored as such";
  return "";
}

void complete_quantisation(Config& config, Config& otherwise, std::vector<Finding>& found) {
  const nlohmann::json described = description_in(config.model);
  if (described.is_null() || !unsupported_quantisation(described).empty()) return;
  const WeightFormat format = format_of(described);
  const std::string path = printable(hf_config_path(config.model.config, config.model.pretrained));
  if (config.lora.rank == 0) {
    found.push_back({{"model.pretrained", "lora.rank"},
                     fmt::format("{} says that the weights are quantised to {}, and such weights are not "
                                 "trained: write lora.rank, which trains adapters beside them",
                                 path, name_of(format))});
    return;
  }
  const bool twice = format != WeightFormat::kInt8 && is_true(described, "bnb_4bit_use_double_quant");
  const auto derive = [&]<typename T>(const char* key, T Config::Lora::*member, const T& made,
                                      const std::string& is) {
    otherwise.lora.*member = made;
    if (!config.origins.contains(key)) {
      config.lora.*member = made;
      config.derived[key] = "model.pretrained";
    } else if (config.lora.*member != made) {
      found.push_back(
          {{key, "model.pretrained"},
           fmt::format("{} is not {}, as {} says of the weights beside it; leave it out", key, is, path)});
    }
  };
  derive("lora.base", &Config::Lora::base, format, std::string(name_of(format)));
  derive("lora.double_quant", &Config::Lora::double_quant, twice, twice ? "true" : "false");
  derive("lora.base_skip_modules", &Config::Lora::base_skip_modules, skipped_in(described),
         "llm_int8_skip_modules");
}

nlohmann::ordered_json quantisation_json(const Config::Lora& lora) {
  const bool int8 = lora.base == WeightFormat::kInt8;
  nlohmann::ordered_json described = {
      {"quant_method", "bitsandbytes"}, {"load_in_4bit", !int8}, {"load_in_8bit", int8}};
  if (!int8) {
    described["bnb_4bit_quant_type"] = name_of(lora.base);
    described["bnb_4bit_use_double_quant"] = lora.double_quant;
    described["bnb_4bit_compute_dtype"] = "float32";
    described["bnb_4bit_quant_storage"] = "uint8";
  }
  if (!lora.base_skip_modules.empty()) described["llm_int8_skip_modules"] = lora.base_skip_modules;
  return described;
}

}  // namespace recollect
