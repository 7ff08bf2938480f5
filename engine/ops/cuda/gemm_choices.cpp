#include "engine/ops/cuda/gemm_choices.h"

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/io/strict_json.h"
#include "engine/nvidia/multiprocessors.h"

namespace recollect::cuda {

namespace {

constexpr const char* kFormat = "recollect gemm choices 1";

[[noreturn]] void refuse(const std::string& source, const std::string& what) {
  throw Error(ExitCode::kInput, source + ": " + what);
}

GemmAlgorithm algorithm_of(const nlohmann::json& words, const std::string& source) {
  GemmAlgorithm algorithm{};
  if (!words.is_array() || words.size() != algorithm.size())
    refuse(source, fmt::format("an algorithm is {} whole numbers", algorithm.size()));
  for (std::size_t i = 0; i < algorithm.size(); ++i) {
    if (!words[i].is_number_unsigned()) refuse(source, "an algorithm is made of whole numbers");
    algorithm[i] = words[i].get<uint64_t>();
  }
  return algorithm;
}

}  // namespace

std::string gemm_key(const GemmContext& context, const GemmShape& s) {
  const bool f32 = s.in == DType::kF32;
  const std::string second = is_float8(s.in) ? fmt::format("x{}", name_of(s.second)) : "";
  const int target = s.beside_collectives ? multiprocessors_beside_collectives(context.multiprocessors) : 0;
  const std::string on = target > 0 ? fmt::format(" on {}", target) : "";
  return fmt::format("{} x{} cublasLt {} {}x{}x{} {}{} {}{}->{} {}{}{}{}", context.device,
                     context.multiprocessors, context.version, s.m, s.n, s.k, s.transpose_a ? "T" : "N",
                     s.transpose_b ? "T" : "N", name_of(s.in), second, name_of(s.out),
                     f32 && context.tf32 ? "tf32" : "f32", s.accumulates ? " accumulates" : "",
                     s.biased ? " bias" : "", on);
}

std::optional<GemmAlgorithm> GemmChoices::find(const std::string& key) const {
  const auto it = choices_.find(key);
  if (it == choices_.end()) return std::nullopt;
  return it->second;
}

void GemmChoices::merge(const GemmChoices& other) {
  for (const auto& [key, algorithm] : other.choices_) choices_[key] = algorithm;
}

std::string GemmChoices::to_json() const {
  nlohmann::json choices = nlohmann::json::object();
  for (const auto& [key, algorithm] : choices_) choices[key] = algorithm;
  return nlohmann::json{{"format", kFormat}, {"choices", std::move(choices)}}.dump(1) + "\n";
}

GemmChoices GemmChoices::from_json(const std::string& text, const std::string& source) {
  const nlohmann::json file = parse_strict_json(text, source, 3);
  if (!file.is_object() || file.size() != 2 || !file.contains("format") || !file.contains("choices") ||
      file["format"] != kFormat || !file["choices"].is_object())
    refuse(source, fmt::format("not a file of '{}'", kFormat));
  GemmChoices result;
  for (const auto& [key, words] : file["choices"].items()) result.set(key, algorithm_of(words, source));
  return result;
}

}  // namespace recollect::cuda
