#include "parallel/models/families.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/core/error.h"
#include "parallel/models/bert.h"
#include "parallel/models/decoders.h"
#include "parallel/models/gpt2.h"
#include "parallel/models/modernbert.h"

namespace recollect {

std::span<const ModelFamily> model_families() {
  static const std::array families = {
      gpt2_family(),  bert_family(), llama_family(),    mistral_family(), qwen2_family(),
      qwen3_family(), phi3_family(), gpt_neox_family(), gemma2_family(),  gemma3_family(),
      roberta_family(), xlm_roberta_family(), distilbert_family(), modernbert_family(),
  };
  return families;
}

const ModelFamily* find_model_family(std::string_view type) {
  const auto all = model_families();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const ModelFamily& f) { return f.type == type; });
  return found == all.end() ? nullptr : &*found;
}

const ModelFamily& model_family(std::string_view type) {
  const ModelFamily* family = find_model_family(type);
  if (!family) throw Error(ExitCode::kInternal, "there is no model family '" + std::string(type) + "'");
  return *family;
}

ModelValues::ModelValues(const std::vector<ModelKey>& keys) {
  for (const ModelKey& key : keys) values_.emplace(key.name, key.otherwise);
}

const ModelValue& ModelValues::at(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end())
    throw Error(ExitCode::kInternal, "the model has no key '" + std::string(key) + "'");
  return found->second;
}

void ModelValues::set(std::string_view key, ModelValue value) {
  ModelValue& held = at(key);
  require(held.index() == value.index(), "a model's key is given a value of another kind");
  held = std::move(value);
}

template <typename T>
const T& ModelValues::get(std::string_view key) const {
  const T* value = std::get_if<T>(&at(key));
  if (!value)
    throw Error(ExitCode::kInternal, "the model's key '" + std::string(key) + "' is of another kind");
  return *value;
}

template const bool& ModelValues::get(std::string_view) const;
template const int64_t& ModelValues::get(std::string_view) const;
template const double& ModelValues::get(std::string_view) const;
template const std::string& ModelValues::get(std::string_view) const;

}  // namespace recollect
