#include "launch/program/task.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "launch/config/lora_keys.h"

namespace recollect {

namespace {

TokenInputs token_inputs(const Config& config, const ModelFacts& model) {
  return {.sequence_length = config.data.sequence_length,
          .vocabulary_size = model.vocabulary.value,
          .token_types = model.token_types,
          .padding_id = static_cast<int32_t>(model.padding_id),
          .packed = config.data.packing == Packing::kWithin};
}

int32_t special_token(const std::string& text, int64_t vocabulary) {
  int32_t id = -1;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (wrong != std::errc() || end != text.data() + text.size() || id < 0 || id >= vocabulary)
    throw Error(ExitCode::kConfiguration,
                fmt::format("data.special_tokens: '{}' is no id below {}", text, vocabulary),
                "give numbers of the vocabulary, such as [0, 101, 102]");
  return id;
}

Masking masking(const Config& config, int64_t vocabulary) {
  Masking masking{.mask_id = static_cast<int32_t>(config.data.mask_token),
                  .probability = config.data.mask_probability,
                  .seed = static_cast<uint64_t>(config.data.seed)};
  for (const std::string& text : config.data.special_tokens)
    masking.special_ids.push_back(special_token(text, vocabulary));
  return masking;
}

// FP8 codes of weights are kept for all micro-batches of a step, and those of frozen weights for all steps.
// With ZeRO stage 3 whole weights do not stay in memory for that long.
Fp8Settings fp8_settings(const Config& config) {
  const Config::Training& t = config.training;
  const bool keeps = t.fp8 && t.fp8_weight_cache && t.max_steps > 0 && config.parallelism.zero_stage < 3;
  return {.on = t.fp8, .keeps_trained = keeps && t.gradient_accumulation_steps > 1, .keeps_frozen = keeps};
}

}  // namespace

TaskSettings task_settings(const Config& config) {
  const ModelFacts model = config.model.facts();
  return {.task = config.task,
          .labels = model.labels,
          .problem = model.problem,
          .choices = config.task == Task::kMultipleChoice ? config.data.choices : 1,
          .packed = config.data.packing == Packing::kWithin,
          .lora = lora_settings(config),
          .fp8 = fp8_settings(config),
          .gelu_in_products = config.device.gelu_in_products};
}

TaskData task_data(const Config& config) {
  const ModelFacts model = config.model.facts();
  const TokenInputs inputs = token_inputs(config, model);
  switch (config.task) {
    case Task::kMaskedLm:
      return masked_lm_data(inputs, masking(config, model.vocabulary.value));
    case Task::kSequenceClassification:
      return sequence_classification_data(inputs, model.labels, model.problem);
    case Task::kMultipleChoice:
      return multiple_choice_data(inputs, config.data.choices);
    case Task::kQuestionAnswering:
      return question_answering_data(inputs);
    case Task::kTokenClassification:
      return token_classification_data(inputs, model.labels);
    case Task::kCausalLm:
      break;
  }
  return causal_lm_data(inputs);
}

std::vector<MeshAxis> mesh_axes(const Config& config) {
  const int64_t tensor = config.parallelism.tensor_parallel_size;
  int64_t repeats = 1;
  for (const ModelFact& fact : config.model.facts().divided_or_repeated)
    repeats = std::max(repeats, tensor / fact.value);
  return training_axes(config.parallelism.data_parallel_size, tensor, repeats);
}

}  // namespace recollect
