#include "launch/config/masking.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "engine/core/freed_memory.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/io/problems.h"
#include "launch/config/data_source.h"
#include "launch/config/validate.h"

namespace recollect {

namespace {

std::set<uint32_t> ids_of(const SpecialIds& special) {
  std::set<uint32_t> ids;
  for (const std::optional<uint32_t>& id :
       {special.cls, special.sep, special.pad, special.mask, special.unk, special.bos, special.eos})
    if (id) ids.insert(*id);
  return ids;
}

// What a tokenizer takes is given back to the system, as where data is opened.
SpecialIds special_ids(const std::string& tokenizer) {
  SpecialIds special;
  if (!parts_of_tokenizer(tokenizer).empty()) special = load_tokenizer(tokenizer)->special();
  give_back_freed_memory();
  return special;
}

}  // namespace

std::string masking_tokenizer(const Config& config) {
  if (config.task != Task::kMaskedLm) return "";
  const auto is_of_tokens = [&](DataFormat format) {
    return format == DataFormat::kTokens || holds_texts(config, format);
  };
  const bool trains_on = config.training.max_steps > 0 && is_of_tokens(config.data.format);
  const bool evaluates_on = config.evaluation.runs() && is_of_tokens(config.evaluation.format);
  if (!trains_on && !evaluates_on) return "";
  return config.data.tokenizer.empty() ? config.model.pretrained : config.data.tokenizer;
}

void complete_masking(Config& config) {
  Config::Data& d = config.data;
  const std::string tokenizer = masking_tokenizer(config);
  const bool no_mask = d.mask_token < 0,
             no_special = d.special_tokens.empty() && !config.origins.contains("data.special_tokens");
  if (tokenizer.empty() || !(no_mask || (no_special && !d.tokenizer.empty()))) return;
  const SpecialIds special = special_ids(tokenizer);
  const char* const from = d.tokenizer.empty() ? "model.pretrained" : "data.tokenizer";
  Problems problems;
  if (no_mask && !special.mask) {
    report({{{"data.mask_token", from, "data.format"},
             fmt::format("data.mask_token is missing, and {} {} has no mask token", from, tokenizer)}},
           config, {}, problems);
    problems.raise();
  }
  if (no_mask) {
    d.mask_token = *special.mask;
    config.derived["data.mask_token"] = from;
  }
  if (no_special) {
    for (const uint32_t id : ids_of(special)) d.special_tokens.push_back(fmt::format("{}", id));
    config.derived["data.special_tokens"] = from;
  }
  report(validate(config), config, {}, problems);
  problems.raise();
}

}  // namespace recollect
