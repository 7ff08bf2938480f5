#include "launch/predict/predictor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/ignored_label.h"
#include "engine/io/safetensors.h"
#include "launch/program/limits.h"
#include "launch/program/load_weights.h"
#include "launch/program/task.h"
#include "launch/train/read_logits.h"
#include "parallel/weights.h"

namespace recollect {

namespace {

// Enough that what stays empty at the end of a row is little beside it, and products are large.
constexpr int64_t kRowTokens = 2048, kMultiple = 64;
constexpr int64_t kTokensASequence = 8;  // fewer on average are a full row sooner

int64_t up_to(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

bool of_tokens(const TaskSettings& task) {
  return task.task == Task::kQuestionAnswering || task.task == Task::kTokenClassification;
}

const Field& ids_of(const Fields& sample) {
  for (const Field& field : sample)
    if (field.name == "ids") return field;
  throw Error(ExitCode::kInternal, "a sample without ids");
}

}  // namespace

Predictor::Predictor(const Config& config, Communicator& world, const Dataset& dataset)
    : config_(config),
      backend_(config_, world),
      mesh_(world, mesh_axes(config_), backend_.world()),
      dataset_(dataset) {
  config_.data.packing = Packing::kWithin;
  task_ = task_settings(config_);
  lay_out_rows();
  made_ = make_forward_program(
      config_, mesh_, backend_.kernels(),
      {.samples = 1, .sequence_length = tokens_, .packed_sequences = of_tokens(task_) ? 0 : sequences_});
  predicted_ = made_.program.predicted();
  const Device& device = backend_.device();
  check_limits(config_, predicted_, "", share_of(device, predicted_.arena_bytes(), world));
  const uint64_t on_host = predicted_.host_bytes + (device.memory() ? 0 : predicted_.arena_bytes());
  check_host_share(on_host, share_of_group(memory_group(), on_host, world));
  backend_.choose_alike(world, [&] {
    memory_ = std::make_unique<ProgramMemory>(backend_.device(), std::vector<const Program*>{&made_.program});
    executor_ = std::make_unique<Executor>(std::move(made_.program), *memory_);
  });
  const Weights weights(made_.model, executor_->program().graph, *memory_, mesh_, false);
  drawn_ = load_weights(config_, made_.model, weights);
  const std::vector<double> nothing(static_cast<std::size_t>(task_.columns()), 0);
  executor_->write(made_.model.scale, nothing.data());
  ids_.resize(static_cast<std::size_t>(tokens_));
  token_types_.resize(ids_.size());
  positions_.resize(ids_.size());
  first_tokens_.resize(static_cast<std::size_t>(sequences_));
  targets_.assign(static_cast<std::size_t>(executor_->tensor(made_.model.input("targets")).elements()),
                  task_.targets_are_numbers() ? std::bit_cast<int32_t>(kIgnoredNumber) : kIgnoredLabel);
  executor_->write(made_.model.input("targets"), targets_.data());
}

// Samples in their order, each in the row of the one before where that has room.
void Predictor::lay_out_rows() {
  int64_t all = 0, largest = 0;
  std::vector<std::pair<int64_t, int64_t>> sizes;  // tokens and sequences of each sample
  for (int64_t i = 0; i < dataset_.size(); ++i) {
    sample_.clear();
    dataset_.read(i, sample_);
    const Field& ids = ids_of(sample_);
    sizes.emplace_back(static_cast<int64_t>(ids.values.size()), static_cast<int64_t>(ids.rows()));
    all += sizes.back().first;
    largest = std::max(largest, sizes.back().first);
  }
  tokens_ = up_to(std::max(largest, std::min(all, kRowTokens)), kMultiple);
  sequences_ = up_to(tokens_ / kTokensASequence, task_.choices);
  int64_t tokens = 0, sequences = 0;
  for (int64_t i = 0; i < dataset_.size(); ++i) {
    const auto [more_tokens, more_sequences] = sizes[static_cast<std::size_t>(i)];
    if (rows_.empty() || tokens + more_tokens > tokens_ || sequences + more_sequences > sequences_) {
      rows_.push_back({i, i});
      tokens = sequences = 0;
    }
    tokens += more_tokens;
    sequences += more_sequences;
    rows_.back().last = i + 1;
  }
}

std::size_t Predictor::logits_of(int64_t sample) const {
  const int64_t tokens = dataset_.length(sample);
  switch (task_.task) {
    case Task::kSequenceClassification:
      return static_cast<std::size_t>(task_.labels);
    case Task::kMultipleChoice:
      return static_cast<std::size_t>(task_.choices);
    case Task::kQuestionAnswering:
      return static_cast<std::size_t>(2 * tokens);
    default:
      return static_cast<std::size_t>(task_.labels * tokens);
  }
}

Logits Predictor::run() {
  const auto start = std::chrono::steady_clock::now();
  Logits logits;
  for (int64_t i = 0; i < dataset_.size(); ++i) {
    const std::size_t before = logits.ends.empty() ? 0 : logits.ends.back();
    logits.ends.push_back(before + logits_of(i));
  }
  logits.values.assign(logits.ends.back(), 0);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (static_cast<int64_t>(r) % mesh_.data_size() != mesh_.data_rank()) continue;
    fill(rows_[r]);
    for (const Sequence& place : places_) logits.tokens += place.tokens;
    logits.computed += tokens_;
    run_row();
    take(rows_[r], logits);
  }
  Communicator& replicas = mesh_.host_communicator(kDataAxis);
  replicas.all_reduce({logits.values.data(), {std::ssize(logits.values)}, DType::kF64}, ReduceOp::kSum);
  std::array<int64_t, 2> counts{logits.tokens, logits.computed};
  replicas.all_reduce({counts.data(), {2}, DType::kI64}, ReduceOp::kSum);
  logits.tokens = counts[0];
  logits.computed = counts[1];
  logits.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return logits;
}

void Predictor::fill(const Row& row) {
  std::fill(ids_.begin(), ids_.end(), 0);
  std::fill(token_types_.begin(), token_types_.end(), 0);
  std::fill(positions_.begin(), positions_.end(), -1);
  std::fill(first_tokens_.begin(), first_tokens_.end(), -1);
  places_.clear();
  for (int64_t i = row.first; i < row.last; ++i) {
    sample_.clear();
    dataset_.read(i, sample_);
    const Field& ids = ids_of(sample_);
    for (std::size_t list = 0; list < ids.rows(); ++list) {
      const int64_t begin = places_.empty() ? 0 : places_.back().begin + places_.back().tokens;
      Sequence at{.begin = begin};
      fill_sequence(sample_, list, at);
      first_tokens_[places_.size()] = static_cast<int32_t>(begin);
      places_.push_back(at);
    }
  }
  const Model& model = made_.model;
  executor_->write(model.input("ids"), ids_.data());
  executor_->write(model.input("positions"), positions_.data());
  if (model.inputs.contains("token_types")) executor_->write(model.input("token_types"), token_types_.data());
  if (model.inputs.contains("first_tokens"))
    executor_->write(model.input("first_tokens"), first_tokens_.data());
}

void Predictor::fill_sequence(const Fields& sample, std::size_t number, Sequence& at) {
  for (const Field& field : sample) {
    std::vector<int32_t>* const into = field.name == "ids"           ? &ids_
                                       : field.name == "token_types" ? &token_types_
                                                                     : nullptr;
    if (!into || field.values.empty()) continue;
    const std::span<const int32_t> values = field.row(number);
    std::copy(values.begin(), values.end(), into->begin() + at.begin);
    if (into == &ids_) at.tokens = std::ssize(values);
  }
  for (int64_t i = 0; i < at.tokens; ++i)
    positions_[static_cast<std::size_t>(at.begin + i)] = static_cast<int32_t>(i);
}

void Predictor::run_row() {
  Communicator* const values = backend_.world();
  try {
    executor_->run_forward({.training = false});
  } catch (...) {
    if (values) values->check();
    throw;
  }
  if (values) values->check();
}

// The logits of sequences stand in their order, those of tokens at their places.
void Predictor::take(const Row& row, Logits& logits) {
  read_logits(*executor_, made_.model.logits, row_bytes_, row_logits_);
  std::size_t sequence = 0;
  for (int64_t i = row.first; i < row.last; ++i) {
    const std::size_t count = logits_of(i), end = logits.ends[static_cast<std::size_t>(i)];
    std::size_t from = 0;
    if (of_tokens(task_)) {
      const Sequence& place = places_[sequence++];
      from = static_cast<std::size_t>(place.begin) * (count / static_cast<std::size_t>(place.tokens));
    } else {
      const std::size_t lists = task_.task == Task::kMultipleChoice ? count : 1;
      from = sequence * (count / lists);
      sequence += lists;
    }
    std::copy_n(row_logits_.begin() + static_cast<std::ptrdiff_t>(from), count,
                logits.values.begin() + static_cast<std::ptrdiff_t>(end - count));
  }
}

}  // namespace recollect
