// One line per key; those of what surrounds training are in run_keys.cpp. The default of a key is its member's
// initialiser in config.h.
#include "launch/config/key_list.h"

#include "launch/config/key_makers.h"
#include "launch/config/lora_keys.h"
#include "launch/config/optimizer_groups.h"
#include "launch/config/padding.h"
#include "parallel/tasks/metrics.h"

namespace recollect {
namespace {

// Words of a choice are read with that in front of them, too.
void accept_prefix(std::string_view prefix, ConfigKey& key) {
  for (const std::string& word : key.choices) key.old_choices.push_back(fmt::format("{}{}", prefix, word));
  key.read = [prefix, read = key.read](Config& config, const YamlNode& node) {
    YamlNode plain = node;
    if (plain.text.starts_with(prefix)) plain.text.erase(0, prefix.size());
    return read(config, plain);
  };
}

// Whatever kind the family says. "a.b" is the key b of a section inside `model`.
ConfigKey make_family_key(const ModelKey& declared) {
  const std::size_t dot = declared.name.rfind('.');
  const std::string section = dot == std::string::npos ? "model" : "model." + declared.name.substr(0, dot),
                    leaf = declared.name.substr(dot == std::string::npos ? 0 : dot + 1);
  return std::visit(
      [&](const auto& otherwise) {
        using T = std::remove_cvref_t<decltype(otherwise)>;
        const auto value = [name = declared.name](auto& config) -> auto& {
          return std::get<T>(config.model.values.at(name));
        };
        const ValueRange range{.low = declared.low,
                               .high = declared.high,
                               .low_open = declared.low_open,
                               .high_open = declared.high_open};
        ConfigKey key;
        if constexpr (std::same_as<T, std::string>) {
          if (!declared.choices.empty())
            key = make_choice(section, leaf, value, declared.choices, declared.help);
        }
        if (key.name.empty()) key = make_key(section, leaf, value, range, declared.help);
        key.aliases = declared.aliases;
        if (declared.concerns == ModelKey::Concerns::kFreshWeights) key.decides = kBeginning;
        return key;
      },
      declared.otherwise);
}

void add_model(std::vector<ConfigKey>& keys, const ModelFamily& family) {
  using S = Config::Model;
  const auto type = [](auto& config) -> auto& { return config.model.type; };
  keys.push_back(
      make_choice("model", "type", type, names_in(model_families(), &ModelFamily::type), "architecture"));
  const Adder<S> add(keys, "model", &Config::model);
  add("config", &S::config, any(), kBeginning,
      "Hugging Face config.json to start from; keys given here override it");
  add("pretrained", &S::pretrained, any(), kBeginning, "directory with config.json and model.safetensors");
  for (const ModelKey& key : family.keys) keys.push_back(make_family_key(key));
}

void add_parallelism(std::vector<ConfigKey>& keys) {
  using S = Config::Parallelism;
  const Adder<S> add(keys, "parallelism", &Config::parallelism);
  add("tensor_parallel_size", &S::tensor_parallel_size, between(1, 65536), "ranks that share each layer");
  add("data_parallel_size", &S::data_parallel_size, between(0, kMaxBatch), "replicas; 0: world / tensor");
  add("sequence_parallel", &S::sequence_parallel, any(), "norms and residuals on 1/tensor of the tokens");
  add("collective_pieces", &S::collective_pieces, between(-1, 64), kNothing,
      "into so many pieces matrix products are cut, so that tensor ranks' collectives overlap with them; 0: "
      "they wait; -1: as simulated, 0 without spare cores");
  add("overlap_halves", &S::overlap_halves, any(),
      "the two halves of a micro-batch take turns: tensor ranks' collectives of one overlap with all ops of "
      "the other");
  add("communicator", &S::communicator, any(), kNothing, "how ranks talk; auto: by what started them");
  add("ranks_per_process", &S::ranks_per_process, between(1, 1024), kNothing,
      "ranks that are threads of one process");
  add("timeout_seconds", &S::timeout_seconds, between(1, kMaxCount), kNothing, "a peer this late is lost");
  add("gradient_bucket_mb", &S::gradient_bucket_mb, between(1, 65536), kNothing,
      "MiB per gradient all-reduce");
  add("zero_stage", &S::zero_stage, between(0, 3),
      "replicas divide optimizer states (1), gradients too (2), parameters too (3)");
}

void add_device(std::vector<ConfigKey>& keys) {
  using S = Config::Device;
  const Adder<S> add(keys, "device", &Config::device);
  add("backend", &S::backend, any(), "kernels to run");
  add("isa", &S::isa, any(),
      "instructions that the cpu backend's kernels use; auto: the best of this processor");
  add("threads", &S::threads, between(0, 4096), kNothing,
      "per rank, whatever OMP_NUM_THREADS is; 0: its share of the cores that its process may use");
  add("memory_limit", &S::memory_limit, byte_size(), kNothing, "per rank, such as 4GiB; 0: none");
  add("cuda_graph", &S::cuda_graph, any(), kNothing,
      "replay each kind of step as a CUDA graph where it can be captured");
  add("pinned", &S::pinned, any(), kNothing, "host memory that the device copies from and to at full speed");
  add("tf32", &S::tf32, any(), "matrix products of fp32 training in TF32: faster, 10 bits of mantissa");
  add("gelu_in_products", &S::gelu_in_products, any(),
      "the MLP's GELU, in its tanh form, is part of the matrix products beside it: fewer passes over memory, "
      "but it can only be recomputed together with its product");
  add("model", &S::model, any(), kNothing,
      "rates that the simulator uses: cpu, h200, h100, a100, b200, v100, rtx3090, rtx4090, or a file that "
      "calibrate wrote; "
      "not given: "
      "the backend's");
}

void add_training(std::vector<ConfigKey>& keys) {
  using S = Config::Training;
  const Adder<S> add(keys, "training", &Config::training);
  add("micro_batch_size", &S::micro_batch_size, between(0, kMaxBatch), "sequences per pass; 0: derived");
  add("global_batch_size", &S::global_batch_size, between(0, kMaxCount), "sequences per step; 0: derived");
  add("gradient_accumulation_steps", &S::gradient_accumulation_steps, between(0, kMaxBatch),
      "passes per step; 0: derived");
  add("max_steps", &S::max_steps, between(0, kMaxCount), kLength, "optimizer steps; 0: only evaluate");
  add("epochs", &S::epochs, between(0, 1e6), kLength,
      "in place of max_steps: how often the data is gone through, such as 3 or 0.5; 0: max_steps says it");
  add("precision", &S::precision, any(),
      "of activations and matrix products; fp64 with device.backend: reference, fp16 with cuda");
  add("fp8", &S::fp8, any(),
      "matrix products of attention's and the MLP's linear modules in FP8 (hybrid): E4M3 forward, E5M2 of "
      "gradients; every "
      "tensor is scaled by its largest absolute value");
  add("fp8_weight_cache", &S::fp8_weight_cache, any(), kNothing,
      "FP8 numbers of weights are made once a step and kept for all its micro-batches, and once for all "
      "steps "
      "of weights that nothing trains, 2 bytes each; false: at every use");
  add("master_dtype", &S::master_dtype, any(),
      "of what the optimizer updates; bf16: the parameters themselves, rounded by chance, with precision "
      "bf16");
  add("loss_scale", &S::loss_scale, at_least(-1),
      "times the loss; 0: dynamic; -1: dynamic with fp16, else none");
  add("initial_loss_scale", &S::initial_loss_scale, at_least(1), kBeginning,
      "where a dynamic loss scale begins");
  add("loss_scale_window", &S::loss_scale_window, between(1, kMaxCount),
      "steps without overflow before a dynamic loss scale doubles");
  add("seed", &S::seed, at_least(0), "of initial weights and dropout");
  add("compile", &S::compile, any(), kNothing,
      "programs of the lengths of data.padding: on first use, or ahead");
}

void add_optimizer(std::vector<ConfigKey>& keys) {
  using S = Config::Optimizer;
  const Adder<S> add(keys, "optimizer", &Config::optimizer);
  const auto name = [](auto& config) -> auto& { return config.optimizer.name; };
  keys.push_back(make_choice("optimizer", "name", name, names_in(optimizer_rules(), &OptimizerEntry::name),
                             "update rule"));
  add("learning_rate", &S::learning_rate, at_least(0), "its peak");
  add("beta1", &S::beta1, fraction(), "decay of the first moment");
  add("beta2", &S::beta2, fraction(), "decay of the second moment");
  add("epsilon", &S::epsilon, at_least(0), "added to the denominator");
  add("momentum", &S::momentum, fraction(), "of sgd and muon");
  add("beta2_decay", &S::beta2_decay, ValueRange{.high = 0},
      "adafactor: the decay of the second moment is 1 - step^this");
  add("clip_threshold", &S::clip_threshold, above(0), "adafactor: root mean square of an update, at most");
  add("scale_epsilon", &S::scale_epsilon, at_least(0), "adafactor: least size of a parameter");
  add("scale_parameter", &S::scale_parameter, any(),
      "adafactor_hf: the rate is times the parameter's root mean square");
  add("relative_step", &S::relative_step, any(),
      "adafactor_hf: the rate follows from the step alone, with a warm-up or without");
  add("nesterov", &S::nesterov, any(), "muon: the direction is ahead of the momentum");
  add("ns_steps", &S::ns_steps, between(1, 99), "muon: Newton-Schulz iterations");
  add("adjust_lr_fn", &S::adjust_lr_fn, any(), "muon: the rate of a matrix, as of AdamW or of its shape");
  add("weight_decay", &S::weight_decay, at_least(0), "strength of weight decay");
  add("decay_all", &S::decay_all, any(), "decay biases and norms too");
  add("max_grad_norm", &S::max_grad_norm, at_least(0), "clip the global norm to this; 0: never");
  add("layer_decay", &S::layer_decay, ValueRange{.low = 0, .high = 1, .low_open = true},
      "factor of the learning rate from each layer to the one before it; 1: all have the same");
  keys.push_back(groups_key());
  add("offload", &S::offload, any(), kNothing,
      "where states and master copies are kept between updates: in the host's memory (of a CUDA device), or "
      "on the disk");
  add("offload_path", &S::offload_path, any(), kNothing,
      "folder on the disk where they are kept; each rank has a file there without a name");
  add("offload_ratio", &S::offload_ratio, ValueRange{.low = 0, .high = 1, .low_open = true}, kNothing,
      "share of their bytes that is kept there, those of the largest parameters first");
  add("offload_update", &S::offload_update, any(),
      "what updates states in the host's memory: the device, to which they travel, or the host's processor, "
      "to which gradients do");
}

void add_scheduler(std::vector<ConfigKey>& keys) {
  using S = Config::Scheduler;
  const Adder<S> add(keys, "scheduler", &Config::scheduler);
  add("name", &S::name, any(), "shape after the warm-up");
  add("warmup_steps", &S::warmup_steps, between(0, kMaxCount), "steps of linear warm-up");
  add("warmup_ratio", &S::warmup_ratio, between(0, 1), "warm-up as a part of max_steps");
  add("min_lr", &S::min_lr, at_least(0), "learning rate at the end");
  add("num_cycles", &S::num_cycles, between(1, kMaxCount), "cosine_with_restarts: how often it falls");
  add("power", &S::power, above(0), "polynomial: of the part of the steps that is left");
  add("timescale", &S::timescale, between(0, kMaxCount),
      "inverse_sqrt: the rate is halved after three times as many steps; 0: warm-up's steps, or 10000");
  add("decay_steps", &S::decay_steps, between(0, kMaxCount),
      "warmup_stable_decay: steps at the end in which it falls");
  add("decay_ratio", &S::decay_ratio, between(0, 1), "warmup_stable_decay: these as a part of max_steps");
  add("decay_shape", &S::decay_shape, any(),
      "warmup_stable_decay, one_cycle: how it falls, and how one_cycle rises");
  add("step_size", &S::step_size, between(0, kMaxCount), "step: steps from one fall to the next");
  add("gamma", &S::gamma, ValueRange{.low = 0, .high = 1, .low_open = true, .high_open = true},
      "step: factor of each fall");
  add("pct_start", &S::pct_start, between(0, 1), "one_cycle: part of the steps in which it rises");
  add("div_factor", &S::div_factor, at_least(1), "one_cycle: of the peak, for the rate at the beginning");
  add("final_div_factor", &S::final_div_factor, at_least(1), "one_cycle: of that, for the rate at the end");
}

void add_task(std::vector<ConfigKey>& keys) {
  keys.push_back(make_key(
      "", "task", [](auto& config) -> auto& { return config.task; }, any(),
      "what the model is trained for; where not given the first of its family's"));
}

constexpr double kMaxSamples = 1e12;

void add_data(std::vector<ConfigKey>& keys, const ModelFacts& model) {
  using S = Config::Data;
  const Adder<S> add(keys, "data", &Config::data);
  add("format", &S::format, any(),
      "random ids, jsonl records, token files, bytes of text, or a file of texts: tables, GLUE's, SWAG's, "
      "SQuAD's and CoNLL's");
  add("path", &S::path, any(), "a file or folder, or a list of them");
  add("weights", &S::weights, ValueRange{.numbers = true},
      "share of each of them in what is trained on, a list; not given: its size");
  add("sequence_length", &S::sequence_length, between(0, kMostModelSize), "tokens; 0: " + model.longest.key);
  add("shuffle", &S::shuffle, any(), "false: file order");
  add("seed", &S::seed, at_least(0), "of the order; training.seed where not given");
  add("dtype", &S::dtype, any(), "of token files without a header");
  add("on_bad_record", &S::on_bad_record, any(),
      "records without text are passed over, counted and told, and damaged ones are errors; error: both are; "
      "skip: neither is");
  add("samples", &S::samples, between(0, kMaxSamples), "random: so many are an epoch; 0: there is no end");
  add("lengths", &S::lengths, ValueRange{.numbers = true},
      "random: tokens of samples, a list of LENGTH or LOW-HIGH, each with :SHARE or without; not given: "
      "sequence_length");
  add("constant_label", &S::constant_label, between(-1, kMaxCount),
      "random: every label; -1: labels are drawn");
  add("low", &S::low, between(0, kMaxCount), "random: smallest id");
  add("high", &S::high, between(0, kMaxCount), "random: ids are below this; 0: " + model.vocabulary.key);
  add("prefetch", &S::prefetch, between(1, 1024), kNothing, "batches prepared ahead");
  add("packing", &S::packing, any(),
      "jsonl: documents share samples, with attention across them or within each");
  add("padding", &S::padding, any(), "of a micro-batch: to sequence_length, its longest, or a few lengths");
  add("pad_to_multiple_of", &S::pad_to_multiple_of, between(0, kLargestMultiple),
      "of lengths; 0: 8, with bucket 64, more where that makes too many lengths");
  add("group_by_length", &S::group_by_length, any(), "samples of like length together: 50 global batches");
  const auto columns = [&](const char* name, std::string S::Columns::*member, const char* help) {
    const auto reach = [member](auto& config) -> auto& { return config.data.columns.*member; };
    keys.push_back(make_key("data.columns", name, reach, any(), help));
  };
  columns("text", &S::Columns::text,
          "of the text, or of the first of two; by name, or by number from 0 on; jsonl for language models: "
          "text where not given");
  columns("pair", &S::Columns::pair, "of the second text; not given: there is one");
  columns("label", &S::Columns::label, "of the label");
  columns("messages", &S::Columns::messages, "conversations: of the list of turns; not given: messages");
  columns("prompt", &S::Columns::prompt, "of what is given, a text or turns; not given: prompt");
  columns("completion", &S::Columns::completion, "of what follows it; not given: completion");
  columns("tools", &S::Columns::tools, "conversations: of the tools that may be called; not given: tools");
  add("chat_template", &S::chat_template, any(),
      "Jinja by which conversations are written: a file, or the name of one of the tokenizer's templates; "
      "not "
      "given: that of data.tokenizer");
  add("learn", &S::learn, any(),
      "tokens of a conversation that are learned: the assistant's, the completion (the last answer), or all; "
      "auto: the assistant's of conversations, the completion after a prompt");
  add("header", &S::header, any(), "csv, tsv: the first line names the columns");
  add("labels", &S::labels, any(),
      "names of the classes, in order; not given: those of the format, or all that the file has, sorted");
  add("tokenizer", &S::tokenizer, any(),
      "folder or file of the tokenizer for formats that hold texts; given with jsonl or text, these are "
      "tokenized; with tokens, it goes beside the saved model; not given: model.pretrained, but not for "
      "jsonl; bytes: text has none");
  add("truncation", &S::truncation, any(), "which text is cut at sequence_length");
  add("stride", &S::stride, between(0, kMostModelSize), "question_answering: tokens that two windows share");
  add("choices", &S::choices, between(1, 1024), "multiple_choice: sequences of a sample");
  add("mask_probability", &S::mask_probability, ValueRange{.low = 0, .high = 1, .low_open = true},
      "masked_lm, of data without labels: share of tokens to find again");
  add("mask_token", &S::mask_token, between(-1, kMostModelSize),
      "masked_lm, of data without labels: the id that stands for a masked token; -1: that of "
      "data.tokenizer");
  add("special_tokens", &S::special_tokens, any(),
      "masked_lm: ids that are never masked, a list; not given: the special tokens of data.tokenizer");
}

void add_evaluation(std::vector<ConfigKey>& keys) {
  using S = Config::Evaluation;
  const Adder<S> add(keys, "evaluation", &Config::evaluation, kEvaluations);
  add("path", &S::path, any(), "a file or folder that is not trained on, or a list of them");
  add("format", &S::format, any(), "as data.format, which it is where not given");
  add("every_steps", &S::every_steps, between(0, kMaxCount),
      "evaluate so often, and after the last step; 0: not by steps");
  add("every_epochs", &S::every_epochs, between(0, 1e6),
      "in place of every_steps: epochs of the training data from one evaluation to the next, such as 1 or "
      "0.5");
  add("batches", &S::batches, between(0, kMaxCount),
      "micro-batches of each data rank, at most; 0: the whole set, once");
  add("metrics", &S::metrics, among(kSpellings<MetricKind>),
      "what is measured beside the loss, a list; not given: what format and task are judged by");
  add("n_best", &S::n_best, between(1, 1024),
      "question_answering: likeliest starts and ends that are paired");
  add("max_answer_length", &S::max_answer_length, between(1, kMostModelSize),
      "question_answering: tokens of an answer, at most");
  add("null_threshold", &S::null_threshold, any(),
      "question_answering: by how much no answer may score below the best one and still be given");
  const auto best = [](auto& config) -> auto& { return config.evaluation.metric_for_best_model; };
  keys.push_back(make_choice("evaluation", "metric_for_best_model", best,
                             names_in(kComparedMetrics, &ComparedMetric::name),
                             "by what one model is better than another, with eval_ before it or without"));
  keys.back().decides = kEvaluations;
  accept_prefix("eval_", keys.back());
  add("early_stopping_patience", &S::early_stopping_patience, between(0, kMaxCount), kLength,
      "the run ends after so many evaluations in a row that are not better than the best; 0: it does not");
  add("early_stopping_threshold", &S::early_stopping_threshold, at_least(0), kLength,
      "by how much an evaluation must be better than the best for patience to begin anew");
}
}  // namespace

std::vector<ConfigKey> list_keys(const ModelFamily& family) {
  std::vector<ConfigKey> keys;
  add_task(keys);
  add_model(keys, family);
  add_lora_keys(keys);
  add_parallelism(keys);
  add_device(keys);
  add_training(keys);
  add_optimizer(keys);
  add_scheduler(keys);
  add_data(keys, family.facts(ModelValues(family.keys)));
  add_evaluation(keys);
  list_run_keys(keys);
  return keys;
}

}  // namespace recollect
