#include "launch/generate/prompts.h"

#include <algorithm>
#include <iostream>
#include <iterator>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/data/tokenizer/unicode.h"
#include "engine/io/input_file.h"

namespace recollect {

namespace {

// A text, and what messages call it.
struct NamedText {
  std::string name, text;
};

std::vector<NamedText> read_texts(const GenerateOptions& options) {
  if (options.prompt) return {{"--prompt", *options.prompt}};
  const bool standard = options.prompts == "-";
  std::string whole = standard ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                               : InputFile(options.prompts).text();
  const std::string name = standard ? "standard input" : printable(options.prompts);
  if (whole.starts_with("\ufeff")) whole.erase(0, 3);  // a byte order mark
  std::vector<NamedText> texts;
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t end = std::min(whole.find('\n', at), whole.size());
    std::string line = whole.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    texts.push_back({fmt::format("{}:{}", name, texts.size() + 1), std::move(line)});
    at = end + 1;
  }
  if (texts.empty()) throw Error(ExitCode::kInput, name + " holds no prompt", "it has one a line");
  return texts;
}

int64_t new_tokens_of(const GenerateOptions& options, const std::string& name, int64_t prompt) {
  const ModelFact longest = options.config.model.facts().longest;
  const int64_t left = longest.value - prompt,
                usual = left > 0 ? std::min(left, kUsualNewTokens) : kUsualNewTokens,
                wanted = options.max_new_tokens.value_or(usual);
  if (wanted > left && options.refuses_long)
    throw Error(
        ExitCode::kInput,
        fmt::format("{}: {} tokens and {} new ones are more than model.{} {}", name, prompt, wanted,
                    longest.key, longest.value),
        "take a shorter prompt, or fewer --max-new-tokens; without --no-crop each token follows the latest "
        "that the model takes");
  return wanted;
}

std::vector<int32_t> ids_of_prompt(const std::string& text, const std::string& name,
                                   const GenerateOptions& options, TextCodec& codec) {
  if (!options.chat) return codec.encode(text);
  try {
    return codec.encode_chat(text, options.chat_template);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kInput) throw;
    throw Error(error.code(), fmt::format("{}: {}", name, error.what()), error.hint());
  }
}

}  // namespace

std::vector<Prompt> read_prompts(const GenerateOptions& options, TextCodec& codec) {
  const ModelFact vocabulary = options.config.model.facts().vocabulary;
  if (codec.vocabulary() > vocabulary.value)
    throw Error(ExitCode::kInput,
                fmt::format("the tokenizer {} has {} ids, model.{} is {}", printable(options.tokenizer),
                            codec.vocabulary(), vocabulary.key, vocabulary.value),
                "name the one that the model was trained with: --tokenizer");
  std::vector<Prompt> prompts;
  for (NamedText& named : read_texts(options)) {
    if (const std::size_t bad = first_invalid_utf8(named.text); bad != std::string_view::npos)
      throw Error(ExitCode::kInput, fmt::format("{}: byte {} is not UTF-8", named.name, bad));
    Prompt prompt{.text = std::move(named.text)};
    if (!prompt.text.empty()) prompt.ids = ids_of_prompt(prompt.text, named.name, options, codec);
    if (prompt.ids.empty())
      throw Error(ExitCode::kInput, named.name + ": the prompt is empty",
                  "a model continues one token at least");
    prompt.new_tokens = new_tokens_of(options, named.name, static_cast<int64_t>(prompt.ids.size()));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

void share_prompts(std::vector<Prompt>& prompts, Communicator& world) {
  const auto share = [&](std::vector<int32_t>& numbers) {
    if (!numbers.empty())
      world.broadcast({numbers.data(), {static_cast<int64_t>(numbers.size())}, DType::kI32}, 0);
  };
  std::vector<int32_t> count{static_cast<int32_t>(prompts.size())}, sizes, ids;
  share(count);
  prompts.resize(static_cast<std::size_t>(count[0]));
  for (const Prompt& prompt : prompts) {
    sizes.push_back(static_cast<int32_t>(prompt.ids.size()));
    sizes.push_back(static_cast<int32_t>(prompt.new_tokens));
    ids.insert(ids.end(), prompt.ids.begin(), prompt.ids.end());
  }
  share(sizes);
  std::size_t all = 0;
  for (std::size_t i = 0; i < sizes.size(); i += 2) all += static_cast<std::size_t>(sizes[i]);
  ids.resize(all);
  share(ids);
  auto next = ids.begin();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    prompts[i].ids.assign(next, next + sizes[2 * i]);
    prompts[i].new_tokens = sizes[2 * i + 1];
    next += sizes[2 * i];
  }
}

}  // namespace recollect
