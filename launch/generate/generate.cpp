#include "launch/generate/generate.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agree.h"
#include "engine/core/duration.h"
#include "engine/core/printable.h"
#include "engine/data/tokenizer/decode_stream.h"
#include "engine/io/json.h"
#include "engine/io/standard_output.h"
#include "launch/config/saved_model.h"
#include "launch/generate/generator.h"
#include "launch/generate/options.h"
#include "launch/generate/prompts.h"
#include "launch/program/phase_table.h"
#include "launch/program/units.h"
#include "launch/ranks/inputs.h"
#include "launch/ranks/same_configuration.h"
#include "launch/ranks/world.h"

namespace recollect {

namespace {

using Steady = std::chrono::steady_clock;

double seconds_between(Steady::time_point from, Steady::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// What a prompt was continued with.
struct Continuation {
  std::vector<int32_t> ids = {};
  bool ended = false;            // by an end of text, which is the last id
  double first = 0, others = 0;  // seconds to the first token, and for all others together
};

// On a terminal the words come as they are made; elsewhere when all are.
class Printer {
 public:
  Printer(const TextCodec& codec, bool streams) : codec_(codec), streams_(streams) { begin(); }

  void begin() {
    stream_.emplace([this](const std::vector<int32_t>& ids) { return codec_.decode(ids); });
  }
  void show(int32_t id) {
    if (streams_) put_text(stdout, printable_lines(stream_->add(id)));
  }
  void end(const std::vector<int32_t>& ids) {
    put_text(stdout, (streams_ ? printable_lines(stream_->rest()) : codec_.decode(ids)) + "\n");
  }

 private:
  const TextCodec& codec_;
  bool streams_;
  std::optional<DecodeStream> stream_;
};

std::string memory_text(const MemoryLedger& predicted, const MemoryLedger* measured) {
  const ByteUnit& unit = unit_for(predicted.arena_bytes());
  const auto row = [&](std::string_view name, const auto& bytes) {
    std::vector<std::string> cells{unit(bytes(predicted))};
    if (measured) cells.push_back(unit(bytes(*measured)));
    return table_row(std::string(name), cells);
  };
  std::vector<std::string> head{"predicted"};
  if (measured) head.emplace_back("measured");
  std::string text = table_row(fmt::format("memory, {}", unit.name), head);
  for (int c = 0; c < kCategoryCount; ++c) {
    const auto held = [c](const MemoryLedger& l) { return l.at_peak[0][static_cast<std::size_t>(c)]; };
    if (held(predicted) > 0) text += row(name_of(static_cast<Category>(c)), held);
  }
  const auto arena = [](const MemoryLedger& l) { return l.arena_bytes(); };
  return text + row("arena", arena);
}

uint64_t cache_bytes(const MemoryLedger& ledger) {
  return ledger.at_peak[0][static_cast<std::size_t>(Category::kCache)];
}

std::string continuation_json(const Prompt& prompt, const Continuation& made, const std::string& text,
                              const Generator& generator) {
  const MemoryLedger &predicted = generator.predicted(), measured = generator.measured();
  const auto others = static_cast<double>(made.ids.size()) - 1;
  const auto both = [](uint64_t a, uint64_t b) {
    return nlohmann::ordered_json{{"predicted", a}, {"measured", b}};
  };
  const nlohmann::ordered_json json{
      {"prompt", prompt.text},
      {"prompt_ids", prompt.ids},
      {"ids", made.ids},
      {"text", text},
      {"ended", made.ended ? "end_of_text" : "length"},
      {"seconds_to_first_token", made.first},
      {"tokens_per_second",
       others > 0 ? nlohmann::ordered_json(others / std::max(1e-9, made.others)) : nullptr},
      {"cache_bytes", both(cache_bytes(predicted), cache_bytes(measured))},
      {"arena_bytes", both(predicted.arena_bytes(), measured.arena_bytes())}};
  return json.dump() + '\n';
}

// `shown` after every token.
Continuation continue_prompt(Generator& generator, Sampler& sampler, const Prompt& prompt, uint64_t number,
                             const std::vector<int32_t>& ends, const std::function<void(int32_t)>& shown) {
  Continuation made;
  made.ids.reserve(static_cast<std::size_t>(prompt.new_tokens));
  std::vector<int32_t> sequence = prompt.ids;
  sequence.reserve(sequence.size() + made.ids.capacity());
  const auto start = Steady::now();
  Steady::time_point first;
  generator.clear();
  generator.read_latest(sequence, sequence.size());
  while (true) {
    const auto position = static_cast<int64_t>(sequence.size());
    const int32_t id = sampler.next(generator.logits(), number, position);
    made.ids.push_back(id);
    sequence.push_back(id);
    if (made.ids.size() == 1) first = Steady::now();
    made.ended = std::find(ends.begin(), ends.end(), id) != ends.end();
    shown(id);
    if (made.ended || static_cast<int64_t>(made.ids.size()) == prompt.new_tokens) break;
    generator.read_latest(sequence, 1);
  }
  made.first = seconds_between(start, first);
  made.others = seconds_between(first, Steady::now());
  return made;
}

// The last new token is not read any more.
int64_t cache_for(const std::vector<Prompt>& prompts, const ModelFact& most) {
  int64_t longest = 1;
  for (const Prompt& prompt : prompts)
    longest = std::max(longest, static_cast<int64_t>(prompt.ids.size()) + prompt.new_tokens - 1);
  return std::min(longest, most.value);
}

// Which weights, and whether all tokens have room.
void say_before(const GenerateOptions& options, const Config& config, const std::vector<Prompt>& prompts) {
  if (!options.said.empty()) warn("{}", options.said);
  const ModelFact most = config.model.facts().longest;
  if (std::any_of(prompts.begin(), prompts.end(), [&](const Prompt& prompt) {
        return static_cast<int64_t>(prompt.ids.size()) + prompt.new_tokens > most.value;
      }))
    warn(
        "prompt and new tokens are more than model.{} {}: each token beyond follows the latest {}; --no-crop "
        "refuses "
        "them",
        most.key, most.value, most.value);
}

void check_options_agree(const GenerateOptions& options, const Config& config, Communicator& world) {
  if (world.size() == 1) return;
  const Sampling& s = options.sampling;
  check_ranks_agree(config, world);
  check_texts_agree(
      {{"sampling", fmt::format("{} {} {} {} {}", s.draws, s.temperature, s.top_k, s.top_p, s.seed)}},
      "options", "start every rank with the same words", world);
  Config inputs = config;
  inputs.training.max_steps = inputs.evaluation.every_steps = 0;  // of files only the weights are read
  inputs.evaluation.every_epochs = 0;
  check_inputs_agree(inputs, world);
}

// Ends of text of the model's files, or else the tokenizer's.
std::vector<int32_t> share_ends(const GenerateOptions& options, const TextCodec* codec, Communicator& world) {
  constexpr std::size_t kMostEnds = 64;
  std::vector<int32_t> ends(kMostEnds, -1);
  if (codec) {
    std::vector<int32_t> known = ends_of_text(options.config.model.pretrained);
    if (const auto id = codec->end_of_text(); known.empty() && id) known.push_back(*id);
    std::copy_n(known.begin(), std::min(known.size(), kMostEnds), ends.begin());
  }
  world.broadcast({ends.data(), {static_cast<int64_t>(kMostEnds)}, DType::kI32}, 0);
  std::erase(ends, -1);
  return ends;
}

void generate_rank(const GenerateOptions& options, Communicator& world) {
  Config config = options.config;
  fit_to_ranks(config, world.size());
  agree_on_threads(config, world);
  check_options_agree(options, config, world);
  const bool first = world.rank() == 0;
  std::unique_ptr<TextCodec> codec;  // rank 0's
  std::vector<Prompt> prompts;
  if (first) {
    codec = make_text_codec(options.tokenizer);
    prompts = read_prompts(options, *codec);
  }
  share_prompts(prompts, world);
  const std::vector<int32_t> ends = share_ends(options, codec.get(), world);
  if (first) say_before(options, config, prompts);
  const auto announce = [&](const MemoryLedger& predicted) {
    if (first && options.verbose)
      put_text(
          stderr,
          fmt::format("weights: {}\n{}{}", printable(config.model.pretrained),
                      config.lora.rank > 0 ? fmt::format("adapters: {}\n", printable(config.lora.path)) : "",
                      memory_text(predicted, nullptr)));
  };
  Generator generator(config, world, {.capacity = cache_for(prompts, config.model.facts().longest)},
                      announce);
  if (first && !generator.drawn().empty())
    warn("not in {}, and drawn at random: {}", config.model.pretrained, fmt::join(generator.drawn(), ", "));
  Sampler sampler(options.sampling, config.model.facts().vocabulary.value);
  std::unique_ptr<Printer> printer;
  if (first && !options.json) printer = std::make_unique<Printer>(*codec, isatty(STDOUT_FILENO) != 0);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (printer) {
      if (prompts.size() > 1) put_text(stdout, fmt::format("{}> {}\n", i > 0 ? "\n" : "", prompts[i].text));
      printer->begin();
    }
    const Continuation made = continue_prompt(generator, sampler, prompts[i], i, ends, [&](int32_t id) {
      if (printer) printer->show(id);
    });
    if (printer) printer->end(made.ids);
    if (first && options.json)
      put_text(stdout, continuation_json(prompts[i], made, codec->decode(made.ids), generator));
    if (first && options.verbose && made.ids.size() > 1)
      put_text(stderr, fmt::format("{} tokens: the first in {}, then {:.1f} tokens/s\n", made.ids.size(),
                                   duration_text(made.first),
                                   static_cast<double>(made.ids.size() - 1) / made.others));
  }
  const MemoryLedger measured = generator.measured();
  if (first && options.verbose) put_text(stderr, memory_text(generator.predicted(), &measured));
  world.barrier();  // no rank leaves while another may still need it
}

}  // namespace

void generate_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi) {
  GenerateOptions options = read_generate_options(words);
  expect_ranks(options.config);
  run_ranks(options.config, mpi, [&](Communicator& world) {
    try {
      generate_rank(options, world);
    } catch (const std::exception& error) {
      world.abort(error.what());
      throw;
    }
  });
}

}  // namespace recollect
