#include "launch/program/program_cache.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "checkpointing/plan_file.h"
#include "checkpointing/simulator.h"
#include "comm/agree.h"
#include "engine/core/error.h"
#include "launch/program/late_lengths.h"
#include "launch/program/limits.h"
#include "launch/program/memory_advice.h"
#include "launch/program/phase_table.h"
#include "launch/program/snapshot_buffer.h"

namespace recollect {

namespace {

uint64_t arena_bytes_of(const ReadyProgram& ready) {
  return ready.executor->program().predicted().arena_bytes();
}

}  // namespace

ProgramCache::ProgramCache(const Config& config, const Mesh& mesh, const Backend& backend,
                           const std::vector<BatchShape>& shapes, ProgramParts parts)
    : config_(config), mesh_(mesh), backend_(backend), parts_(std::move(parts)), shapes_(shapes) {
  require(!shapes.empty(), "a run has a shape of batches");
  first_ = shapes.front();
  const std::size_t count = config_.training.compile == CompileTime::kLazy ? 1 : shapes.size();
  std::vector<ReadyProgram> planned;
  planned.reserve(count);
  fail_together(mesh_.world(), [&] {  // mostly a budget that is too small
    planned.push_back(make(first_, {}));
    const TrainingProgram& longest = planned.front().training;
    const Layout& layout = longest.program.layout;
    needs_ = plan_lengths(config_, mesh_, shapes, longest, layout);
    for (std::size_t i = 1; i < count; ++i)
      planned.push_back(make(shapes[i], taken_over_from(first_, longest, layout, needs_, shapes[i])));
  });
  const TrainingProgram& first = planned.front().training;
  for (const ReadyProgram& one : planned) check_tensor_ranks_agree(one.training.checkpointed);
  if (config_.profiling.step != 0 || config_.activation_checkpointing.replan_after != 0)
    recorder_ = std::make_unique<StepRecorder>(first.program.graph,
                                               config_.training.gradient_accumulation_steps, parts_.probe);
  snapshot_buffer_ =
      snapshot_buffer_bytes(config_, first.model, first.program.graph, mesh_, mesh_.world().rank());
  check_limits_of(first.program);
  if (DiskStore* disk = first.disk.get()) disk->open(needs_.disk_bytes);
  if (DiskStore* states = first.state_disk.get()) states->open(needs_.disk_state_bytes);
  const auto start = std::chrono::steady_clock::now();
  backend_.choose_alike(mesh_.world(), [&] { reserve(std::move(planned)); });
  reserving_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (config_.device.backend == BackendKind::kCuda)
    windows_ = std::make_unique<RankWindows>(mesh_, shapes_.size() == 1);
  for (auto& [shape, ready] : programs_) share_memory(ready);
}

ProgramCache::~ProgramCache() = default;

ReadyProgram ProgramCache::make(const BatchShape& shape, const TakenOver& taken_over) const {
  ReadyProgram ready;
  ready.training = make_training_program(config_, mesh_, backend_.kernels(), shape, taken_over);
  if (parts_.edit_program) parts_.edit_program(ready.training);
  return ready;
}

// Tensor ranks meet a shape together, and their collectives must be the same. Data ranks may have other
// lengths.
void ProgramCache::check_tensor_ranks_agree(const Checkpointed& checkpointed) const {
  if (mesh_.tensor_size() > 1)
    check_plans_agree(checkpointed.plan, checkpointed.moves, mesh_.host_communicator(kTensorAxis),
                      checkpointed.attention.in_order);
}

void ProgramCache::check_limits_of(const Program& first) {
  Communicator& world = mesh_.world();
  const Device& device = backend_.device();
  std::string table = phase_table("predicted", needs_);
  table.pop_back();  // without the final line feed
  const std::optional<DeviceShare> of_device = share_of(device, needs_.arena_bytes(), world);
  const bool beside_host = device.memory().has_value();
  const uint64_t on_host = needs_.host_bytes + save_buffer_bytes(config_) + snapshot_buffer_ +
                           (beside_host ? 0 : needs_.arena_bytes());
  const std::optional<DeviceShare> of_group = share_of_group(memory_group(), on_host, world);
  const std::optional<DeviceShare> of_machine = share_of_group(whole_machine(), on_host, world);
  fail_together(world, [&] {
    check_limits(config_, needs_, table, of_device);
    check_host_share(on_host, of_group);
    if (!of_machine || beside_host) return;
    if (const auto error =
            machine_is_too_small(config_, needs_, of_machine->needed, of_machine->ranks, of_machine->free))
      throw *error;
  });
  if (!beside_host)  // after all have planned; waits until all have measured
    resident_ = predict_resident(
        resident_needs(config_, needs_) + snapshot_buffer_ + program_needs(config_, first, shapes_.size()),
        world);
}

void ProgramCache::reserve(std::vector<ReadyProgram> planned) {
  std::vector<const Program*> programs;
  for (const ReadyProgram& one : planned) programs.push_back(&one.training.program);
  memory_ = std::make_unique<ProgramMemory>(backend_.device(), programs, needs_,
                                            planned.front().training.state_disk.get());
  for (std::size_t i = 0; i < planned.size(); ++i) add(shapes_[i], std::move(planned[i]));
}

ReadyProgram& ProgramCache::add(const BatchShape& shape, ReadyProgram planned) {
  ExecutorProbe* const probe = recorder_ ? recorder_.get() : parts_.probe;
  planned.executor = std::make_unique<Executor>(std::move(planned.training.program), *memory_, probe);
  return programs_.insert_or_assign(shape, std::move(planned)).first->second;
}

ReadyProgram& ProgramCache::at(const BatchShape& shape) {
  if (const auto known = programs_.find(shape); known != programs_.end()) return known->second;
  const ReadyProgram& first = programs_.at(first_);
  ReadyProgram planned =
      make(shape, taken_over_from(first_, first.training, first.executor->program().layout, needs_, shape));
  check_tensor_ranks_agree(planned.training.checkpointed);
  memory_->check_fits(planned.training.program);  // before the collective choice
  ReadyProgram* ready = nullptr;
  backend_.choose_alike(mesh_.world(), [&] { ready = &add(shape, std::move(planned)); });
  share_memory(*ready);
  return *ready;
}

std::optional<ReadyProgram> ProgramCache::plan_again() const {
  try {
    const ReadyProgram& first = programs_.at(first_);
    std::optional<ReadyProgram> again = make(
        first_, {.disk = first.training.disk, .state_disk = first.training.state_disk, .reserved = &needs_});
    const TrainingProgram& training = again->training;
    const MemoryLedger needs = plan_lengths(config_, mesh_, shapes_, training, training.program.layout);
    const bool fits = needs.arena_bytes() <= needs_.arena_bytes() && needs.host_bytes <= needs_.host_bytes &&
                      needs.disk_bytes <= needs_.disk_bytes;
    if (!fits) again.reset();
    return again;
  } catch (const Error& error) {
    if (error.code() != ExitCode::kDeviceMemory) throw;
    return {};
  }
}

Replanned ProgramCache::replan() {
  ReadyProgram& first = programs_.at(first_);
  const DeviceModel device = device_of(config_);
  const auto seconds = [&](const Program& program) {
    return simulate(program.graph, program.schedule, device, config_.training.gradient_accumulation_steps)
        .step_seconds;
  };
  const auto saved = [](const ReadyProgram& ready) {
    const auto& values = ready.training.checkpointed.plan.values;
    return std::count_if(values.begin(), values.end(), [](const auto& item) { return item.second.save; });
  };
  first.training.device = first.training.shown = device;
  Replanned result{.seconds_before = seconds(first.executor->program()),
                   .values = static_cast<int64_t>(first.training.checkpointed.plan.values.size()),
                   .saved_before = saved(first)};
  result.seconds_now = result.seconds_before;
  result.saved_now = result.saved_before;
  std::optional<ReadyProgram> again = plan_again();
  result.changed = again && seconds(again->training.program) < result.seconds_before;
  const Checkpointed& decided = result.changed ? again->training.checkpointed : first.training.checkpointed;
  check_plans_agree(decided.plan, decided.moves, mesh_.world(), decided.attention.in_order);
  for (auto& [shape, ready] : programs_)
    if (result.changed || shape != first_) retired_.push_back(std::move(ready));
  std::erase_if(programs_, [&](const auto& one) { return one.first != first_; });
  first.micro_batches = 0;  // the numbers by length start anew
  first.seconds = 0;
  if (!result.changed) return result;
  result.seconds_now = seconds(again->training.program);
  result.saved_now = saved(*again);
  backend_.choose_alike(mesh_.world(), [&] { add(first_, std::move(*again)); });
  share_memory(programs_.at(first_));
  return result;
}

const ReadyProgram& ProgramCache::neediest() const {
  const ReadyProgram* neediest = nullptr;
  for (const auto& [shape, ready] : programs_)
    if (ready.micro_batches > 0 && (!neediest || arena_bytes_of(ready) > arena_bytes_of(*neediest)))
      neediest = &ready;
  return neediest ? *neediest : programs_.at(first_);
}

std::optional<MemorySoFar> ProgramCache::memory_so_far() const {
  std::vector<const Executor*> executors;
  for (const auto& [shape, ready] : programs_) executors.push_back(ready.executor.get());
  for (const ReadyProgram& ready : retired_) executors.push_back(ready.executor.get());
  std::erase_if(executors, [](const Executor* executor) { return !executor->has_run(); });
  if (executors.empty()) return {};
  NameSet held;  // persistent values stay while another program runs
  if (executors.size() > 1)
    for (const Executor* executor : executors) executor->add_held(held);
  std::vector<MemoryLedger> predicted, measured;
  for (const Executor* executor : executors) {
    predicted.push_back(executor->predicted_so_far(held));
    measured.push_back(executor->measured(held));
  }
  return MemorySoFar{most_of(predicted), most_of(measured)};
}

void ProgramCache::share_memory(ReadyProgram& ready) {
  if (!windows_) return;
  const Checkpointed& c = ready.training.checkpointed;
  const bool gathers = c.residency.gathered_bytes + c.gathered.gathered_bytes > 0;
  for (Remark& remark :
       windows_->open(ready.executor->program(), memory_->arena(MemorySpace::kDevice), gathers))
    ready.training.remarks.push_back(std::move(remark));
}

}  // namespace recollect
