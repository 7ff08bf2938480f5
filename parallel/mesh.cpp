#include "parallel/mesh.h"

#include "comm/planned.h"

namespace recollect {

Mesh::Mesh(Communicator& world, int data_size, int tensor_size, Communicator* device_world)
    : world_(world), data_size_(data_size), tensor_size_(tensor_size) {
  if (world_.size() != data_size * tensor_size)
    throw Error(ExitCode::kConfiguration,
                "the world has " + std::to_string(world_.size()) + " ranks, but data_parallel_size x " +
                    "tensor_parallel_size = " + std::to_string(data_size) + " x " +
                    std::to_string(tensor_size),
                "start " + std::to_string(data_size * tensor_size) + " ranks, or change the sizes");
  Communicator& values = device_world ? *device_world : world_;
  tensor_.compute = values.split(data_rank());
  tensor_.communication = values.split(data_rank());
  tensor_.gather = values.split(data_rank());
  data_.compute = values.split(tensor_rank());
  data_.communication = values.split(tensor_rank());
  if (!device_world) return;
  tensor_.host = world_.split(data_rank());
  data_.host = world_.split(tensor_rank());
}

template <typename F>
void Mesh::for_each_communicator(F f) const {
  for (const Axis* axis : {&tensor_, &data_})
    for (const auto* c : {&axis->compute, &axis->communication, &axis->gather, &axis->host})
      if (*c) f(**c);
}

std::vector<Mesh::Link> Mesh::links() const {
  std::vector<Link> all;
  for (const auto& [name, axis] : {std::pair{kTensorAxis, &tensor_}, std::pair{kDataAxis, &data_}}) {
    const auto add = [&, name = name](std::string_view stream, const std::unique_ptr<Communicator>& c) {
      if (c) all.push_back({name, stream, c.get()});
    };
    add(name_of(StreamId::kCompute), axis->compute);
    add(name_of(StreamId::kCommunication), axis->communication);
    add(name_of(StreamId::kGather), axis->gather);
    add("host", axis->host);
  }
  return all;
}

std::size_t Mesh::staging_bytes() const {
  std::size_t bytes = world_.staging_bytes();
  for_each_communicator([&](const Communicator& c) { bytes += c.staging_bytes(); });
  return bytes;
}

std::size_t Mesh::device_bytes() const {
  std::size_t bytes = 0;
  for_each_communicator([&](const Communicator& c) { bytes += c.device_bytes(); });
  return bytes;
}

Mesh::Mesh(std::unique_ptr<Communicator> planned, int data_size, int tensor_size, const StagingRule& staging,
           bool on_device)
    : planned_(std::move(planned)), world_(*planned_), data_size_(data_size), tensor_size_(tensor_size) {
  for (auto* communicator : {&tensor_.compute, &tensor_.communication, &tensor_.gather})
    *communicator = make_planned_communicator(tensor_rank(), tensor_size_, staging(tensor_size_));
  for (auto* communicator : {&data_.compute, &data_.communication})
    *communicator = make_planned_communicator(data_rank(), data_size_, staging(data_size_));
  if (!on_device) return;
  tensor_.host = make_planned_communicator(tensor_rank(), tensor_size_, staging(tensor_size_));
  data_.host = make_planned_communicator(data_rank(), data_size_, staging(data_size_));
}

Mesh Mesh::planned(int data_rank, int data_size, int tensor_rank, int tensor_size, const StagingRule& staging,
                   bool on_device) {
  const int rank = data_rank * tensor_size + tensor_rank, size = data_size * tensor_size;
  return {make_planned_communicator(rank, size, staging(size)), data_size, tensor_size, staging, on_device};
}

const Mesh::Axis& Mesh::axis_named(std::string_view axis) const {
  require(axis == kTensorAxis || axis == kDataAxis, "unknown mesh axis");
  return axis == kTensorAxis ? tensor_ : data_;
}

Communicator& Mesh::host_communicator(std::string_view axis) const {
  const Axis& chosen = axis_named(axis);
  return chosen.host ? *chosen.host : *chosen.compute;
}

Communicator& Mesh::communicator(std::string_view axis, StreamId stream) const {
  const Axis& chosen = axis_named(axis);
  const auto& found = stream == StreamId::kCompute         ? chosen.compute
                      : stream == StreamId::kCommunication ? chosen.communication
                                                           : chosen.gather;
  require(found != nullptr && stream <= StreamId::kGather, "no communicator for this stream");
  return *found;
}

}  // namespace recollect
