// The ranks as an array with named axes, of which the last varies fastest. With the axes data and tensor,
// world rank = data rank * tensor size + tensor rank. Built once and passed by reference. Each (axis, stream)
// pair has a communicator of its own, so that collectives of different streams never mix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "engine/graph/graph.h"

namespace recollect {

// What a rank's staging buffers take in a group of that many ranks, by group size.
using StagingRule = std::function<std::size_t(int size)>;

struct MeshAxis {
  std::string name;
  int size = 1;
  std::vector<StreamId> streams = {StreamId::kCompute, StreamId::kCommunication};  // that talk along it
  bool inner = false;  // its ranks are neighbours along the axis before it, which it divides
};

// Tensor ranks that hold the same key/value heads.
inline constexpr std::string_view kRepeatAxis = "repeat";

// Micro-batches are divided over the one, layers over the other, whose ranks gather what they share.
// `repeats` tensor ranks hold the same key/value heads.
std::vector<MeshAxis> training_axes(int64_t data_size, int64_t tensor_size, int64_t repeats = 1);

class Mesh {
 public:
  // Collective over the world, which must outlive the mesh. Error kConfiguration unless its size is the
  // product of the axes'. `device_world`: the same ranks, talking about the memory of their devices, where
  // that is another communicator's business; it must outlive the mesh too.
  Mesh(Communicator& world, std::vector<MeshAxis> axes, Communicator* device_world = nullptr);
  // A place in a mesh without peers, to plan with: its communicators know rank and size, and refuse to
  // communicate. `staging` is of the host's communicators; values are `on_device` where another kind talks
  // about them, with help of one of the host's each.
  static Mesh planned(int world_rank, std::vector<MeshAxis> axes, const StagingRule& staging,
                      bool on_device = false);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  // Along an axis. Error kInternal where the mesh has none of that name.
  int size(std::string_view axis) const { return axes_[index_of(axis)].size; }
  int rank(std::string_view axis) const { return rank_along(index_of(axis)); }
  int data_size() const { return size(kDataAxis); }
  int tensor_size() const { return size(kTensorAxis); }
  int data_rank() const { return rank(kDataAxis); }
  int tensor_rank() const { return rank(kTensorAxis); }
  int repeats() const;  // tensor ranks that hold the same key/value heads

  Communicator& world() const { return world_; }
  std::size_t staging_bytes() const;  // of all communicators, the world's included, in the host's memory
  std::size_t device_bytes() const;   // that they hold on the device, where that is known
  // For the program's values, along one of the axis's streams.
  Communicator& communicator(std::string_view axis, StreamId stream) const;
  // For ordinary memory, between steps.
  Communicator& host_communicator(std::string_view axis) const;

  // All of them, the fastest axis first. `stream` is its name, or "host".
  struct Link {
    std::string_view axis, stream;
    const Communicator* communicator;
  };
  std::vector<Link> links() const;

 private:
  struct Communicators {  // of one axis
    std::map<StreamId, std::unique_ptr<Communicator>> by_stream;
    std::unique_ptr<Communicator> host;  // null where that of the compute stream can do it
  };
  using Join = std::function<std::unique_ptr<Communicator>(std::size_t axis, StreamId stream)>;

  Mesh(std::unique_ptr<Communicator> planned, std::vector<MeshAxis> axes, const StagingRule& staging,
       bool on_device);
  void check_axes() const;
  void connect(const Join& join_values, const Join& join_host);
  std::size_t index_of(std::string_view axis) const;
  int stride(std::size_t axis) const;  // between the world ranks of neighbours
  int rank_along(std::size_t axis) const { return world_.rank() / stride(axis) % axes_[axis].size; }
  int colour(std::size_t axis) const;  // the same for ranks that differ along this axis alone

  std::unique_ptr<Communicator> planned_;  // the world, where nobody else owns it
  Communicator& world_;
  std::vector<MeshAxis> axes_;
  std::vector<Communicators> communicators_;  // by axis
};

}  // namespace recollect
