#include "launch/generate/options.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "comm/bootstrap.h"
#include "engine/io/yaml_document.h"
#include "launch/config/read.h"
#include "launch/config/saved_model.h"
#include "launch/generate/text_codec.h"

namespace recollect {

namespace {

// A model folder by itself, where there is no configuration. What it says of data is never read.
constexpr const char* kBareConfiguration = "data: {format: jsonl, path: unread}\n";

[[noreturn]] void refuse_option(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kConfiguration, what, hint);
}

void check_generate_numbers(const GenerateOptions& options, int64_t seed) {
  const Sampling& s = options.sampling;
  if (options.max_new_tokens && *options.max_new_tokens < 1)
    refuse_option(fmt::format("--max-new-tokens {}", *options.max_new_tokens), "it is 1 or more");
  if (!(s.temperature > 0) || s.temperature > 1e6)
    refuse_option(fmt::format("--temperature {}", s.temperature),
                  "it is above 0, and at most 1000000; without --temperature, --top-k and --top-p the most "
                  "probable token is taken");
  if (s.top_k < 0) refuse_option(fmt::format("--top-k {}", s.top_k), "it is 1 or more, or 0 for all tokens");
  if (!(s.top_p >= 0 && s.top_p <= 1))
    refuse_option(fmt::format("--top-p {}", s.top_p), "it is a probability, 0 to 1");
  if (seed < 0) refuse_option(fmt::format("--seed {}", seed), "it is 0 or more");
}

std::string choose_tokenizer(const std::string& named, const Config& config) {
  if (!named.empty()) return named;
  if (holds_tokenizer(config.model.pretrained)) return config.model.pretrained;
  if (!config.data.tokenizer.empty()) return config.data.tokenizer;
  if (config.data.format == DataFormat::kText) return "bytes";
  if (config.data.format == DataFormat::kRandom)
    refuse_option(
        fmt::format("{} holds no tokenizer: it was trained with data.format random, on ids that stand "
                    "for no text",
                    config.model.pretrained),
        "train it on a text, or name with --tokenizer what its ids are to mean");
  refuse_option(fmt::format("{} holds no tokenizer", config.model.pretrained),
                "name one with --tokenizer; bytes is that of models trained with data.format text");
}

Config read_generate_config(Words words, const std::string& model, std::string& said) {
  const bool file = !words.empty() && words.front().find('=') == std::string::npos;
  if (!file && model.empty() && !sets_pretrained(words))
    throw UsageError("generate needs a configuration file, or --model FOLDER");
  Words keys(words.begin() + (file ? 1 : 0), words.end());
  if (!model.empty()) keys.push_back("model.pretrained=" + model);
  Config config =
      file ? read_config(words.front(), keys) : read_config_text("command line", kBareConfiguration, keys);
  if (config.task != Task::kCausalLm)
    refuse_option(fmt::format("task {}: only causal_lm continues a text", name_of(config.task)),
                  "take a causal model, such as those of the families that docs/models.md lists for it");
  if (file || config.lora.rank > 0)  // else nobody has named a run
    said = choose_saved_weights(keys, config, WhichModel::kLast);
  return config;
}

struct OtherGenerateWords {
  std::string model;
  std::optional<int64_t> seed;
};

// Both must outlive it.
OptionTable options_into(GenerateOptions& read, OtherGenerateWords& other) {
  namespace po = boost::program_options;
  const auto draws = [&read](auto& to) {
    return [to = &to, draws = &read.sampling.draws](const auto& number) {
      *to = number;
      *draws = true;
    };
  };
  const auto given = [](auto& to) { return [to = &to](const auto& value) { *to = value; }; };
  Sampling& s = read.sampling;
  OptionTable table = key_options();
  table.add_options()("model", po::value(&other.model)->value_name("FOLDER"),
                      "of Hugging Face's form, in place of CONFIG.yaml")(
      "prompt", po::value<std::string>()->notifier(given(read.prompt))->value_name("TEXT"),
      "what is continued")("prompts", po::value(&read.prompts)->value_name("FILE"),
                           "one a line; - is standard input")(
      "max-new-tokens", po::value<int64_t>()->notifier(given(read.max_new_tokens))->value_name("N"),
      "128, or as many as the model has room for")(
      "temperature", po::value<double>()->notifier(draws(s.temperature))->value_name("T"),
      "draws; else the most probable is taken")(
      "top-k", po::value<int64_t>()->notifier(draws(s.top_k))->value_name("K"), "draws among the K best")(
      "top-p", po::value<double>()->notifier(draws(s.top_p))->value_name("P"),
      "draws among those of probability P")(
      "seed", po::value<int64_t>()->notifier(given(other.seed))->value_name("S"), "of what is drawn")(
      "tokenizer", po::value(&read.tokenizer)->value_name("PATH|bytes"),
      "the model's own where not given, or bytes")("chat", po::bool_switch(&read.chat),
                                                   "the model answers a user's words, or JSON of turns")(
      "chat-template", po::value(&read.chat_template)->value_name("FILE|NAME"),
      "with --chat, in place of the tokenizer's own")("no-crop", po::bool_switch(&read.refuses_long),
                                                      "refuses more tokens than the model takes")(
      "json", po::bool_switch(&read.json), "an object for each prompt, with times and memory")(
      "verbose", po::bool_switch(&read.verbose), "times and memory, on standard error");
  return table;
}

}  // namespace

OptionTable generate_options() {
  GenerateOptions read;
  OtherGenerateWords other;
  return options_into(read, other);
}

GenerateOptions read_generate_options(const Words& words) {
  GenerateOptions read;
  OtherGenerateWords other;
  const Words rest = parse_options(words, options_into(read, other));
  const auto& [model, seed] = other;
  if (read.prompt.has_value() == !read.prompts.empty())
    throw UsageError("generate needs one of --prompt TEXT and --prompts FILE");
  check_generate_numbers(read, seed.value_or(0));
  if (seed && !read.sampling.draws)
    refuse_option("--seed has no effect: the most probable token is taken",
                  "give --temperature, --top-k or --top-p to draw tokens");
  read.sampling.seed = static_cast<uint64_t>(seed.value_or(0));
  read.config = read_generate_config(rest, model, read.said);
  read.tokenizer = choose_tokenizer(read.tokenizer, read.config);
  if (!read.chat && !read.chat_template.empty())
    refuse_option("--chat-template has no effect without --chat", "add --chat");
  if (read.chat && read.chat_template.empty()) read.chat_template = read.config.data.chat_template;
  return read;
}

void expect_ranks(Config& config) {
  Config::Parallelism& p = config.parallelism;
  const std::optional<RankEnvironment> who = discover_ranks();
  const bool launched = who && who->size > 1;
  if (launched || p.ranks_per_process == 1) p.tensor_parallel_size = 1;
  p.ranks_per_process = p.tensor_parallel_size;
  p.data_parallel_size = 1;
  p.sequence_parallel = false;
}

void fit_to_ranks(Config& config, int ranks) {
  config.parallelism.tensor_parallel_size = ranks;
  config.parallelism.data_parallel_size = 1;
  config.parallelism.sequence_parallel = false;
  const ModelFacts facts = config.model.facts();
  const auto check_divided = [&](const ModelFact& fact, bool fits) {
    if (!fits)
      refuse_option(fmt::format("{} ranks do not divide model.{} {}", ranks, fact.key, fact.value),
                    "start fewer: every rank is a tensor rank here");
  };
  for (const ModelFact& fact : facts.divided) check_divided(fact, fact.value % ranks == 0);
  for (const ModelFact& fact : facts.divided_or_repeated)
    check_divided(fact, fact.value % ranks == 0 || ranks % fact.value == 0);
}

}  // namespace recollect
