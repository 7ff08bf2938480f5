#include "launch/generate/generator.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/io/safetensors.h"
#include "launch/program/limits.h"
#include "launch/program/load_weights.h"
#include "launch/program/task.h"
#include "parallel/weights.h"

namespace recollect {

Generator::Generator(const Config& config, Communicator& world, const GeneratorSizes& sizes,
                     const Announce& announce)
    : config_(config),
      backend_(config_, world),
      mesh_(world, mesh_axes(config_), backend_.world()),
      capacity_(sizes.capacity),
      cache_ends_(config_.model.facts().cache_ends),
      vocabulary_(static_cast<std::size_t>(config_.model.facts().vocabulary.value)) {
  std::vector<int64_t> tokens{1};
  if (const int64_t piece = std::min(sizes.piece, capacity_); piece > 1) tokens.push_back(piece);
  std::vector<ForwardProgram> made;
  std::vector<const Program*> programs;
  made.reserve(tokens.size());
  for (const int64_t n : tokens) {
    made.push_back(make_forward_program(config_, mesh_, backend_.kernels(),
                                        {.samples = 1, .sequence_length = n, .cache_capacity = capacity_}));
    programs.push_back(&made.back().program);
  }
  const Program& neediest = **std::max_element(programs.begin(), programs.end(), [](auto* a, auto* b) {
    return a->predicted().arena_bytes() < b->predicted().arena_bytes();
  });
  if (announce) announce(neediest.predicted());
  check_room(neediest.predicted());
  backend_.choose_alike(world, [&] {
    memory_ = std::make_unique<ProgramMemory>(backend_.device(), programs);
    for (std::size_t i = 0; i < made.size(); ++i) {
      Reader& reader = readers_.emplace_back(Reader{.tokens = tokens[i],
                                                    .model = std::move(made[i].model),
                                                    .registry = made[i].registry,
                                                    .executor = nullptr,
                                                    .predicted = made[i].program.predicted()});
      reader.executor = std::make_unique<Executor>(std::move(made[i].program), *memory_);
    }
  });
  ids_.resize(static_cast<std::size_t>(tokens.back()));
  positions_.resize(ids_.size());
  const Reader& first = readers_.front();
  const Tensor logits = first.executor->tensor(first.model.logits);
  logits_.resize(static_cast<std::size_t>(logits.elements()));
  if (logits.dtype == DType::kF32) narrow_logits_.resize(logits_.size());
  load_weights(first);
}

void Generator::check_room(const MemoryLedger& needs) {
  Communicator& world = mesh_.world();
  const Device& device = backend_.device();
  try {
    check_limits(config_, needs, "", share_of(device, needs.arena_bytes(), world));
    const uint64_t on_host = needs.host_bytes + (device.memory() ? 0 : needs.arena_bytes());
    check_host_share(on_host, share_of_group(memory_group(), on_host, world));
  } catch (const Error& error) {
    throw Error(
        error.code(), error.what(),
        "shorter prompts and a smaller --max-new-tokens have a smaller cache; training.precision=bf16 "
        "halves it and the weights, and more ranks divide both");
  }
}

void Generator::load_weights(const Reader& reader) {
  const Weights weights(reader.model, reader.executor->program().graph, *memory_, mesh_, false);
  drawn_ = recollect::load_weights(config_, reader.model, weights);
}

void Generator::read(std::span<const int32_t> ids) {
  require(!ids.empty() && static_cast<int64_t>(ids.size()) <= capacity_ - cached_,
          "a cache has no room for what is read");
  length_ = static_cast<int32_t>(cached_ + static_cast<int64_t>(ids.size()));
  while (!ids.empty()) {
    Reader& reader = ids.size() == 1 ? readers_.front() : readers_.back();
    const auto next = ids.first(std::min(ids.size(), static_cast<std::size_t>(reader.tokens)));
    run(reader, next);
    ids = ids.subspan(next.size());
    if (ids.empty()) take_logits(reader);
  }
}

void Generator::read_latest(std::span<const int32_t> sequence, std::size_t count) {
  const int64_t next = cached_ + static_cast<int64_t>(count);
  const bool outgrown = cache_ends_ > 0 && cached_ <= cache_ends_ && next > cache_ends_;
  if (outgrown || next > capacity_) {
    clear();
    count = std::min(sequence.size(), static_cast<std::size_t>(capacity_));
  }
  read(sequence.last(count));
}

// What a piece has beyond `ids` stands for nothing, and is not looked at.
void Generator::run(Reader& reader, std::span<const int32_t> ids) {
  std::copy(ids.begin(), ids.end(), ids_.begin());
  std::fill(ids_.begin() + static_cast<std::ptrdiff_t>(ids.size()), ids_.end(), 0);
  for (std::size_t i = 0; i < positions_.size(); ++i)
    positions_[i] = static_cast<int32_t>(std::min(cached_ + static_cast<int64_t>(i), capacity_ - 1));
  const std::array<int32_t, 2> filled{static_cast<int32_t>(cached_), static_cast<int32_t>(ids.size())};
  const Executor& executor = *reader.executor;
  executor.write(reader.model.input("ids"), ids_.data());
  executor.write(reader.model.input("positions"), positions_.data());
  executor.write(reader.model.input("filled"), filled.data());
  if (reader.model.inputs.contains("length")) executor.write(reader.model.input("length"), &length_);
  Communicator* const values = backend_.world();
  try {
    reader.executor->run_forward({.training = false});
  } catch (...) {
    if (values) values->check();
    throw;
  }
  if (values) values->check();
  reader.has_run = true;
  cached_ += filled[1];
}

void Generator::take_logits(const Reader& reader) {
  if (narrow_logits_.empty()) return reader.executor->read(logits_.data(), reader.model.logits);
  reader.executor->read(narrow_logits_.data(), reader.model.logits);
  std::copy(narrow_logits_.begin(), narrow_logits_.end(), logits_.begin());
}

const Generator::Reader& Generator::fullest() const {
  const auto rank = [](const Reader& r) { return std::pair(r.has_run, r.predicted.arena_bytes()); };
  return *std::max_element(readers_.begin(), readers_.end(),
                           [&](const Reader& a, const Reader& b) { return rank(a) < rank(b); });
}

}  // namespace recollect
