// Metrics of evaluations: what Transformers' logits of the same weights give, whatever the layout; told in every place; and
// training that does not notice.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/io/json.h"
#include "engine/io/safetensors.h"
#include "launch/config/read.h"
#include "launch/program/lengths.h"
#include "launch/program/task.h"
#include "launch/ranks/world.h"
#include "launch/train/answer_collector.h"
#include "parallel/tasks/answer_score.h"
#include "parallel/tasks/class_counts.h"
#include "parallel/tasks/correlation.h"
#include "tests/engine/expect_error.h"
#include "tests/launch/modes.h"
#include "tests/launch/process.h"
#include "tests/launch/stress_probes.h"
#include "tests/launch/training_harness.h"
#include "tests/launch/training_rounding.h"

namespace recollect::test::evaluation_metrics_test {
namespace {

using nlohmann::json;
using Numbers = std::map<std::string, double>;

Numbers numbers_of(const MetricList& list) {
  Numbers numbers;
  for (const MetricValue& metric : list) numbers[std::string(metric.name)] = metric.value;
  EXPECT_EQ(numbers.size(), list.size()) << "a name that stands there twice";
  return numbers;
}

Tensors tensors_of(const Numbers& numbers) {
  Tensors tensors;
  for (const auto& [name, value] : numbers) tensors[name] = {value};
  return tensors;
}

void expect_near(const Numbers& a, const Numbers& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (const auto& [name, value] : a) EXPECT_NEAR(value, b.at(name), tolerance) << what << ", " << name;
}

// A folder of tests/golden/families: weights, samples, and Transformers' logits of them.
struct GoldenTask {
  explicit GoldenTask(const std::string& name)
      : folder(std::string(RECOLLECT_SOURCE_DIR) + "/tests/golden/families/" + name),
        logits(read_tensors(folder + "/golden.safetensors", "logits").at("")) {
    std::ifstream(folder + "/case.json") >> described;
    std::ifstream file(folder + "/batch.jsonl");
    for (std::string line; std::getline(file, line);) samples.push_back(json::parse(line));
  }
  Words words() const {
    Words words{"task=" + described["task"].get<std::string>(), "model.pretrained=" + folder,
                "evaluation.path=" + folder + "/batch.jsonl",
                "data.sequence_length=" + described["sequence"].dump()};
    for (const auto& [key, value] : described["keys"].items()) words.push_back(key + "=" + value.dump());
    return words;
  }
  // Of so many numbers each.
  std::span<const double> row(std::size_t i, std::size_t size) const {
    return std::span(logits).subspan(i * size, size);
  }

  std::string folder;
  std::vector<double> logits;
  json described;
  std::vector<json> samples;
};

const char* const kEvaluationOnly = R"(
device: {backend: reference}
training: {precision: fp64, max_steps: 0}
evaluation: {format: jsonl, every_steps: 1}
data: {format: random}
)";

// Cut in every way into micro-batches and over ranks, some of which see nothing but padding.
void expect_at_every_layout(const GoldenTask& task, const Numbers& expected) {
  const std::vector<std::tuple<int, int, int>> layouts{{1, 1, 3}, {1, 1, 2}, {1, 2, 1}, {1, 3, 2}, {2, 2, 1}};
  for (const auto& [tensor, data, micro_batch] : layouts) {
    const Trained run =
        train(kEvaluationOnly,
              task.words() + Words{fmt::format("training.micro_batch_size={}", micro_batch),
                                   fmt::format("parallelism.tensor_parallel_size={}", tensor),
                                   fmt::format("parallelism.data_parallel_size={}", data),
                                   fmt::format("parallelism.ranks_per_process={}", tensor * data)});
    const std::string what =
        fmt::format("{}: tensor {} data {} micro-batch {}", task.folder, tensor, data, micro_batch);
    expect_near(numbers_of(run.evaluations.at(0).metrics), expected, 1e-9, what);
    EXPECT_EQ(run.predicted, run.measured) << what;
  }
  const Words words = task.words() + Words{"training.micro_batch_size=2"};
  for (const auto& [precision, dtype] : {std::pair{"fp32", DType::kF32}, {"bf16", DType::kBF16}}) {
    const Tensors bounds = rounding_bounds(dtype, [&](ExecutorProbe* noise) {
      const Trained run = train(kEvaluationOnly, words,
                                [&](int) { return ProgramParts{.edit_program = {}, .probe = noise}; });
      return tensors_of(numbers_of(run.evaluations.at(0).metrics));
    });
    for (const std::string& isa : isas_here()) {
      SCOPED_TRACE(task.folder + " " + precision + " " + isa);
      const Trained run = train(kEvaluationOnly, on_cpu(words, isa, precision));
      const Numbers seen = numbers_of(run.evaluations.at(0).metrics);
      ASSERT_EQ(seen.size(), expected.size());
      for (const auto& [name, value] : expected)
        expect_within({value}, {seen.at(name)}, bounds.at(name), name);
    }
  }
}

TEST(EvaluationMetrics, OfClassesAreThoseOfTransformersLogits) {
  for (const char* name : {"bert_class", "bert_choice"}) {
    const GoldenTask task(name);
    ClassCounts counts(3);  // classes of the one, choices of the other
    for (std::size_t i = 0; i < task.samples.size(); ++i)
      counts.add(task.samples[i]["labels"].get<int64_t>(), greatest_of(task.row(i, 3)));
    expect_at_every_layout(task, {{"eval_accuracy", counts.accuracy()}});
  }
}

TEST(EvaluationMetrics, OfTokensAreThoseOfTransformersLogits) {
  const GoldenTask task("bert_token_class");
  ClassCounts counts(5);
  for (std::size_t i = 0; i < task.samples.size(); ++i) {
    const std::vector<int32_t> labels = task.samples[i]["labels"];
    for (std::size_t t = 0; t < labels.size(); ++t)
      if (labels[t] != -100) counts.add(labels[t], greatest_of(task.row(i * 11 + t, 5)));
  }
  expect_at_every_layout(task, {{"eval_accuracy", counts.accuracy()}});
}

TEST(EvaluationMetrics, OfLabelsAreThoseOfTransformersLogits) {
  const GoldenTask task("bert_multi_label");
  ClassCounts counts(4);
  for (std::size_t i = 0; i < task.samples.size(); ++i)
    for (std::size_t l = 0; l < 4; ++l)
      counts.add_label(static_cast<int64_t>(l), task.samples[i]["labels"][l] == 1.0, task.row(i, 4)[l] > 0);
  expect_at_every_layout(task, {{"eval_f1", counts.micro_f1()}});
}

TEST(EvaluationMetrics, OfNumbersAreThoseOfTransformersLogits) {
  const GoldenTask task("bert_regression");
  std::vector<double> labels;
  for (const json& sample : task.samples) labels.push_back(sample["labels"]);
  expect_at_every_layout(task, {{"eval_mse", mean_squared_error(task.logits, labels)},
                                {"eval_pearson", pearson(task.logits, labels)},
                                {"eval_spearmanr", Spearman()(task.logits, labels)}});
}

TEST(EvaluationMetrics, OfLanguageModelsIsPerplexity) {
  const GoldenTask task("bert_masked_lm");
  const double loss = read_tensors(task.folder + "/golden.safetensors", "loss").at("").at(0);
  const Trained run = train(kEvaluationOnly, task.words() + Words{"training.micro_batch_size=2"});
  expect_near(numbers_of(run.evaluations.at(0).metrics), {{"perplexity", std::exp(loss)}}, 1e-9, "masked_lm");
}

TEST(EvaluationMetrics, OfPositionsWithoutTextsAreNone) {
  const GoldenTask task("bert_question");
  const Trained run = train(kEvaluationOnly, task.words() + Words{"training.micro_batch_size=2"});
  EXPECT_EQ(run.evaluations.at(0).metrics.size(), 0u);
}

const char* const kBert = R"(
task: sequence_classification
model: {type: bert, vocab_size: 41, hidden_size: 20, num_hidden_layers: 4, num_attention_heads: 4,
        intermediate_size: 28, max_position_embeddings: 24, num_labels: 2, initializer_range: 0.2}
device: {threads: 1}
training: {micro_batch_size: 2, global_batch_size: 8, max_steps: 3, seed: 7}
data: {format: jsonl, sequence_length: 24, padding: longest}
evaluation: {every_steps: 1}
)";

// Samples of many lengths, one label each.
class Labelled {
 public:
  Labelled(int64_t count, const std::function<std::string(std::mt19937&)>& label) {
    std::mt19937 random(3);
    std::string text;
    for (int64_t i = 0; i < count; ++i) {
      std::vector<uint32_t> ids(1 + random() % 24);
      for (uint32_t& id : ids) id = random() % 41;
      text += fmt::format("{{\"input_ids\": {}, \"labels\": {}}}\n", ids, label(random));
    }
    path_ = folder_.write("lines.jsonl", text);
  }
  Words to_train() const { return {"data.path=" + path_, "optimizer.learning_rate=1e-2"}; }
  Words to_evaluate() const { return {"evaluation.path=" + path_}; }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

std::string one_of_two(std::mt19937& random) { return std::to_string(random() % 2); }
std::string a_number(std::mt19937& random) { return fmt::format("{:.3f}", random() * 0x1p-32); }

// Numbers are gathered, classes are counted: neither knows how the set was cut.
TEST(EvaluationMetrics, DoNotDependOnLayoutOrLength) {
  for (const bool numbers : {false, true}) {
    const Labelled lines(37, numbers ? a_number : one_of_two);
    const Words words = lines.to_evaluate() + Words{"device.backend=reference", "device.threads=0",
                                                    "training.precision=fp64", "training.max_steps=0",
                                                    numbers ? "model.num_labels=1" : "model.num_labels=2"};
    const auto metrics = [&](int data, int micro_batch, const char* padding) {
      const Trained run =
          train(kBert, words + Words{fmt::format("training.micro_batch_size={}", micro_batch),
                                     fmt::format("training.global_batch_size={}", data * micro_batch),
                                     fmt::format("parallelism.ranks_per_process={}", data),
                                     std::string("data.padding=") + padding});
      return numbers_of(run.evaluations.at(0).metrics);
    };
    const Numbers one = metrics(1, 37, "max");
    EXPECT_EQ(one.size(), 3u);
    for (const auto& [name, value] : one) EXPECT_TRUE(std::isfinite(value)) << name;
    expect_near(metrics(1, 2, "longest"), one, 1e-9, "longest");
    expect_near(metrics(2, 3, "longest"), one, 1e-9, "two data ranks");
    expect_near(metrics(3, 1, "max"), one, 1e-9, "three data ranks");
  }
}

// Memory that no value lives in is overwritten meanwhile; logits are still there to be read.
TEST(EvaluationMetrics, ChangeNoBitOfTraining) {
  const Labelled lines(21, one_of_two);
  const Words trained =
      lines.to_train() + Words{"data.padding=max"};  // one program, and so one executor to disturb
  const Trained without = train(kBert, trained + Words{"evaluation.every_steps=0"});
  const Words words = trained + lines.to_evaluate();
  const Trained with = train(kBert, words);
  expect_same_bits(without, with, "none");
  ASSERT_EQ(with.evaluations.size(), 3u);
  uint64_t seed = 0;
  for (const std::string_view mode : kModes) {
    StressProbe probe(++seed);
    const Trained run = train(kBert, words + mode_words(mode) + Words{ac("cpu_checkpointing=true")},
                              [&](int) { return ProgramParts{.probe = &probe}; });
    expect_same_bits(without, run, std::string(mode));
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(numbers_of(run.evaluations[i].metrics), numbers_of(with.evaluations[i].metrics)) << mode;
  }
}

TEST(EvaluationMetrics, LogitsAreWhatForwardEndsWith) {
  const Labelled lines(9, one_of_two);
  const Words words = lines.to_evaluate() + Words{"training.max_steps=0", "training.global_batch_size=2"};
  on_ranks(read_config_text("test.yaml", kBert, words), [](const Config&, Session& session) {
    const Executor& executor = session.executor();
    const ValueId logits = session.training_program().model.logits,
                  before = executor.program().graph.find("final/tanh");
    ASSERT_NE(before, kNone);
    EXPECT_TRUE(executor.outlives_forward(logits));
    EXPECT_FALSE(executor.outlives_forward(before)) << "its place may be another value's by then";
  });
}

TEST(EvaluationMetrics, ThoseThatAreNamedAreReportedInTheirOrder) {
  const Labelled lines(9, one_of_two);
  Config config =
      read_config_text("test.yaml", kBert,
                       lines.to_evaluate() + Words{"training.max_steps=0", "training.global_batch_size=2"});
  config.evaluation.metrics = {"matthews", "accuracy"};
  on_ranks(config, [](const Config&, Session& session) {
    const EvaluationResult result = session.evaluate();
    ASSERT_EQ(result.metrics.size(), 2u);
    EXPECT_EQ(result.metrics.begin()[0].name, "eval_matthews_correlation");
    EXPECT_EQ(result.metrics.begin()[1].name, "eval_accuracy");
  });
  config.evaluation.metrics = {"pearson"};
  expect_error(ExitCode::kConfiguration, {"evaluation.metrics", "pearson", "accuracy, f1, matthews"},
               [&] { on_ranks(config, [](const Config&, Session&) {}); });
}

// A model that is shown what it is asked learns it, and says so everywhere.
TEST(EvaluationMetrics, AreToldInEveryPlace) {
  const Workplace place;
  std::string text;
  for (int i = 0; i < 64; ++i)
    text +=
        fmt::format("{{\"input_ids\": [{}, {}, {}], \"labels\": {}}}\n", i % 2 ? 7 : 8, i % 5, i % 9, i % 2);
  place.folder().write("lines.jsonl", text);
  place.folder().write("b.yaml", kBert);
  const Finished finished = place.recollect(
      {"train", "b.yaml", "data.path=lines.jsonl", "evaluation.path=lines.jsonl", "training.max_steps=40",
       "training.micro_batch_size=8", "evaluation.every_steps=20", "optimizer.learning_rate=1e-2",
       "output_dir=out", "logging.report_to=[jsonl, tensorboard]"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.out.find("  accuracy 1.0000  f1 1.0000  matthews_correlation 1.0000  "),
            std::string::npos)
      << finished.out;
  EXPECT_NE(finished.out.find(", accuracy 1.0000, f1 1.0000, matthews_correlation 1.0000\n"),
            std::string::npos)
      << finished.out;
  json last;
  for (const json& line : place.metrics())
    if (line.contains("eval_loss")) last = line;
  EXPECT_EQ(last["step"], 40);
  EXPECT_EQ(last["eval_accuracy"], 1.0);
  EXPECT_EQ(last["eval_f1"], 1.0);
  json results;
  std::ifstream(place.file("out/train_results.json")) >> results;
  for (const char* key : {"eval_loss", "eval_accuracy", "eval_f1", "eval_matthews_correlation"})
    EXPECT_EQ(results[key], last[key]) << key;
}

// Two examples, of two windows and of one, with logits that no two layouts see in the same batches.
struct Questions {
  Questions() {
    set.contexts = {"one two three four", "five six"};
    set.places = {{0, 3}, {4, 7}, {8, 13}, {14, 18}, {0, 4}, {5, 8}};
    set.examples = {{.id = "a", .question = {}, .context = 0, .answers = {{"two three", 4}}},
                    {.id = "b", .question = {}, .context = 1, .answers = {{"six", 5}, {"five", 0}}}};
    set.windows = {{.example = 0, .token = 2, .size = 3, .first = {0, 3}, .places = 0},
                   {.example = 0, .token = 2, .size = 2, .first = {8, 13}, .places = 2},
                   {.example = 1, .token = 1, .size = 2, .first = {0, 4}, .places = 4}};
    for (std::size_t w = 0; w < 3; ++w)
      for (std::size_t i = 0; i < 2 * kTokens; ++i)
        logits.push_back(
            w == 0 && (i == 2 * 3 || i == 2 * 4 + 1) ? 9 : std::sin(7.0 * static_cast<double>(w + i)));
  }
  static constexpr std::size_t kTokens = 6;
  static constexpr int32_t kLengths[3] = {6, 5, 4};

  // Of windows in micro-batches of `size`, divided over the ranks of `world`, padded as far as `padding`.
  Numbers numbers(Communicator& world, int64_t size, std::size_t padding, int64_t samples = 3) const {
    const std::unique_ptr<MetricCollector> collector = make_answer_collector(set, {}, samples);
    for (int64_t first = world.rank() * size; first < samples; first += world.size() * size) {
      MicroBatch micro{.first_sample = first,
                       .samples = std::min(size, samples - first),
                       .length = static_cast<int64_t>(padding)};
      std::vector<double> padded;
      for (int64_t i = 0; i < micro.samples; ++i) {
        const auto w = static_cast<std::size_t>(first + i);
        micro.fields["lengths"].push_back(kLengths[w]);
        const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(2 * kTokens * w);
        padded.insert(padded.end(), begin, begin + 2 * kTokens);
        padded.resize(padded.size() + 2 * (padding - kTokens), 99);
      }
      collector->add(micro, padded);
    }
    collector->reduce(world);
    MetricList list;
    collector->report(MetricKind::kSquad, list);
    return numbers_of(list);
  }

  QuestionAnsweringSet set;
  std::vector<double> logits;  // [windows, kTokens, 2]
};

TEST(EvaluationMetrics, OfAnswersDoNotDependOnLayout) {
  const Questions questions;
  const std::unique_ptr<Communicator> alone = make_self_communicator();
  const Numbers expected = questions.numbers(*alone, 3, 6);
  EXPECT_EQ(expected.at("eval_exact_match"), 50 + (expected.at("eval_f1") == 100 ? 50 : 0));
  EXPECT_EQ(questions.numbers(*alone, 1, 9), expected) << "padding is no candidate";
  EXPECT_EQ(questions.numbers(*alone, 2, 6, 2), (Numbers{{"eval_exact_match", 100}, {"eval_f1", 100}}))
      << "a question whose windows were not all read does not count";
  const Config config = read_config_text("test.yaml", kTinyYaml, {"parallelism.ranks_per_process=2"});
  std::unique_ptr<MpiEnvironment> mpi;
  run_ranks(config, mpi, [&](Communicator& world) { EXPECT_EQ(questions.numbers(world, 1, 7), expected); });
}

// Questions that have, for their answers, what Transformers' logits of them say: each token of the context is a letter.
QuestionAnsweringSet questions_of(const GoldenTask& task) {
  QuestionAnsweringSet set;
  const std::size_t lengths[] = {11, 4, 7};  // of the third more tokens are given than attended
  for (uint32_t i = 0; i < 3; ++i) {
    set.contexts.push_back("abcdefghij");
    set.examples.push_back({.context = i});
    set.windows.push_back({.example = i,
                           .token = 1,
                           .size = static_cast<uint32_t>(lengths[i] - 1),
                           .first = {0, 1},
                           .places = set.places.size()});
    for (uint32_t letter = 0; letter < lengths[i] - 1; ++letter) set.places.push_back({letter, letter + 1});
    std::vector<double> numbers(WindowScores::size(20));
    WindowScores window(numbers);
    window.keep_best(task.row(i, 2 * 11).first(2 * lengths[i]));
    const std::string_view chosen = choose_answer(set, i, std::span(&window, 1), {}).text;
    EXPECT_FALSE(chosen.empty());
    set.examples.back().answers = {{std::string(chosen) + (i == 1 ? " no" : "")}};
  }
  return set;
}

TEST(EvaluationMetrics, OfAnswersAreThoseOfTransformersLogits) {
  const GoldenTask task("bert_question");
  const QuestionAnsweringSet set = questions_of(task);
  for (const int data : {1, 2})
    for (const int micro_batch : {1, 2}) {
      const Config config =
          read_config_text("test.yaml", kEvaluationOnly,
                           task.words() + Words{fmt::format("training.micro_batch_size={}", micro_batch),
                                                "data.padding=longest",
                                                fmt::format("parallelism.ranks_per_process={}", data)});
      std::unique_ptr<MpiEnvironment> mpi;
      run_ranks(config, mpi, [&](Communicator& world) {
        Config mine = config;
        resolve_world(mine, world.size());
        const Backend backend(mine, world);
        const Mesh mesh(world, mesh_axes(mine), backend.world());
        ProgramCache programs(mine, mesh, backend, {batch_shape(mine)});
        BatchPrograms batch_programs(mine, mesh, programs, 1);
        const ReadyProgram& ready = programs.at(batch_shape(mine));
        Weights weights(ready.training.model, ready.executor->program().graph, programs.memory(), mesh,
                        false);
        weights.load(SafetensorsSet(mine.model.pretrained), 0);
        const TaskData data_of_task = task_data(mine);
        OpenedData data = open_data(mine, data_of_task, DataFormat::kJsonl, mine.evaluation.path);
        data.questions = std::make_unique<QuestionAnsweringSet>(set);
        Evaluation evaluation(mine, mesh, std::move(data), *data_of_task.collator);
        const Numbers numbers = numbers_of(evaluation.run(batch_programs, 0).metrics);
        EXPECT_NEAR(numbers.at("eval_exact_match"), 100 * 2.0 / 3, 1e-9);
        EXPECT_NEAR(numbers.at("eval_f1"), 100 * (2 + 2.0 / 3) / 3, 1e-9);
      });
    }
}

// Where some have no answer, to find none may be right.
TEST(EvaluationMetrics, OfImpossibleQuestionsKnowNoAnswer) {
  Questions questions;
  questions.set.examples[1] = {.id = "b", .question = {}, .context = 1, .answers = {}, .is_impossible = true};
  for (std::size_t i = 0; i < 2; ++i) questions.logits[2 * 2 * Questions::kTokens + i] = 8;
  const std::unique_ptr<Communicator> alone = make_self_communicator();
  EXPECT_EQ(questions.numbers(*alone, 3, 6), (Numbers{{"eval_exact_match", 100}, {"eval_f1", 100}}));
}

}  // namespace
}  // namespace recollect::test::evaluation_metrics_test
