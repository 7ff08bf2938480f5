#include "parallel/mesh.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "comm/planned.h"

namespace recollect {

namespace {

int product_of_sizes(std::span<const MeshAxis> axes) {
  int product = 1;
  for (const MeshAxis& axis : axes)
    if (!axis.inner) product *= axis.size;
  return product;
}

// "data_parallel_size x tensor_parallel_size = 2 x 4"
std::string sizes_text(const std::vector<MeshAxis>& axes) {
  std::string names, sizes;
  for (const MeshAxis& axis : axes) {
    if (axis.inner) continue;
    names += (names.empty() ? "" : " x ") + axis.name + "_parallel_size";
    sizes += (sizes.empty() ? "" : " x ") + std::to_string(axis.size);
  }
  return names + " = " + sizes;
}

}  // namespace

std::vector<MeshAxis> training_axes(int64_t data_size, int64_t tensor_size, int64_t repeats) {
  std::vector<MeshAxis> axes{{.name = std::string(kDataAxis), .size = static_cast<int>(data_size)},
                             {.name = std::string(kTensorAxis),
                              .size = static_cast<int>(tensor_size),
                              .streams = {StreamId::kCompute, StreamId::kCommunication, StreamId::kGather}}};
  if (repeats > 1)
    axes.push_back({.name = std::string(kRepeatAxis),
                    .size = static_cast<int>(repeats),
                    .streams = {StreamId::kCommunication},
                    .inner = true});
  return axes;
}

Mesh::Mesh(Communicator& world, std::vector<MeshAxis> axes, Communicator* device_world)
    : world_(world), axes_(std::move(axes)), communicators_(axes_.size()) {
  check_axes();
  Communicator& values = device_world ? *device_world : world_;
  const Join split = [&](std::size_t axis, StreamId stream) {
    const bool beside = axes_[axis].name == kTensorAxis && stream == StreamId::kCommunication;
    return beside ? values.split_beside_products(colour(axis)) : values.split(colour(axis));
  };
  const Join split_host = [&](std::size_t axis, StreamId) { return world_.split(colour(axis)); };
  connect(split, device_world ? split_host : Join());
}

Mesh::Mesh(std::unique_ptr<Communicator> planned, std::vector<MeshAxis> axes, const StagingRule& staging,
           bool on_device)
    : planned_(std::move(planned)), world_(*planned_), axes_(std::move(axes)), communicators_(axes_.size()) {
  check_axes();
  const Join join = [&](std::size_t axis, StreamId) {
    return make_planned_communicator(rank_along(axis), axes_[axis].size, staging(axes_[axis].size));
  };
  connect(join, on_device ? join : Join());
}

Mesh Mesh::planned(int world_rank, std::vector<MeshAxis> axes, const StagingRule& staging, bool on_device) {
  const int size = product_of_sizes(axes);
  return {make_planned_communicator(world_rank, size, staging(size)), std::move(axes), staging, on_device};
}

void Mesh::check_axes() const {
  std::set<std::string_view> names;
  for (const MeshAxis& axis : axes_) {
    require(axis.size >= 1, "mesh axis " + axis.name + " has " + std::to_string(axis.size) + " ranks");
    require(names.insert(axis.name).second, "the mesh has two axes '" + axis.name + "'");
    require(!axis.inner || (&axis != axes_.data() && (&axis)[-1].size % axis.size == 0),
            "mesh axis " + axis.name + " does not divide the one before it");
  }
  const int ranks = product_of_sizes(axes_);
  if (world_.size() != ranks)
    throw Error(ExitCode::kConfiguration,
                "the world has " + std::to_string(world_.size()) + " ranks, but " + sizes_text(axes_),
                "start " + std::to_string(ranks) + " ranks, or change the sizes");
}

// The fastest axis first, whose ranks are the nearest to each other.
void Mesh::connect(const Join& join_values, const Join& join_host) {
  for (std::size_t axis = axes_.size(); axis-- > 0;)
    for (const StreamId stream : axes_[axis].streams)
      communicators_[axis].by_stream[stream] = join_values(axis, stream);
  for (std::size_t axis = axes_.size(); axis-- > 0 && join_host;)
    communicators_[axis].host = join_host(axis, StreamId::kCompute);
}

int Mesh::stride(std::size_t axis) const { return product_of_sizes(std::span(axes_).subspan(axis + 1)); }

int Mesh::colour(std::size_t axis) const {
  const int near = stride(axis), far = near * axes_[axis].size;
  return world_.rank() / far * near + world_.rank() % near;
}

std::size_t Mesh::index_of(std::string_view name) const {
  const auto found =
      std::find_if(axes_.begin(), axes_.end(), [&](const MeshAxis& axis) { return axis.name == name; });
  if (found == axes_.end()) require(false, "the mesh has no axis '" + std::string(name) + "'");
  return static_cast<std::size_t>(found - axes_.begin());
}

int Mesh::repeats() const { return axes_.back().name == kRepeatAxis ? axes_.back().size : 1; }

std::vector<Mesh::Link> Mesh::links() const {
  std::vector<Link> all;
  for (std::size_t axis = axes_.size(); axis-- > 0;) {
    for (const auto& [stream, communicator] : communicators_[axis].by_stream)
      all.push_back({axes_[axis].name, name_of(stream), communicator.get()});
    if (const auto& host = communicators_[axis].host) all.push_back({axes_[axis].name, "host", host.get()});
  }
  return all;
}

std::size_t Mesh::staging_bytes() const {
  std::size_t bytes = world_.staging_bytes();
  for (const Link& link : links()) bytes += link.communicator->staging_bytes();
  return bytes;
}

std::size_t Mesh::device_bytes() const {
  std::size_t bytes = 0;
  for (const Link& link : links()) bytes += link.communicator->device_bytes();
  return bytes;
}

Communicator& Mesh::communicator(std::string_view axis, StreamId stream) const {
  const auto& by_stream = communicators_[index_of(axis)].by_stream;
  const auto found = by_stream.find(stream);
  if (found == by_stream.end())  // steps ask, and must not allocate
    require(false, "the " + std::string(name_of(stream)) + " stream does not talk along the " +
                       std::string(axis) + " axis");
  return *found->second;
}

Communicator& Mesh::host_communicator(std::string_view axis) const {
  const Communicators& chosen = communicators_[index_of(axis)];
  return chosen.host ? *chosen.host : communicator(axis, StreamId::kCompute);
}

}  // namespace recollect
