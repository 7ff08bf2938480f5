// The ranks as an array with named axes. The tensor axis varies fastest: world rank = data_rank * tensor_size
// + tensor_rank. Built once and passed by reference. Each (axis, stream) pair has a communicator of its own,
// so that collectives of different streams never mix.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "engine/graph/graph.h"

namespace recollect {

inline constexpr std::string_view kTensorAxis = "tensor";
inline constexpr std::string_view kDataAxis = "data";

// What a rank's staging buffers take in a group of that many ranks, by group size.
using StagingRule = std::function<std::size_t(int size)>;

class Mesh {
 public:
  // Collective over the world, which must outlive the mesh. Error kConfiguration unless world size =
  // data_size * tensor_size. `device_world`: the same ranks, talking about the memory of their devices, where
  // that is another communicator's business; it must outlive the mesh too.
  Mesh(Communicator& world, int data_size, int tensor_size, Communicator* device_world = nullptr);
  // A place in a mesh without peers, to plan with: its communicators know rank and size, and refuse to
  // communicate. `staging` is of the host's communicators; values are `on_device` where another kind talks
  // about them, with help of one of the host's each.
  static Mesh planned(int data_rank, int data_size, int tensor_rank, int tensor_size,
                      const StagingRule& staging, bool on_device = false);

  int data_size() const { return data_size_; }
  int tensor_size() const { return tensor_size_; }
  int data_rank() const { return world_.rank() / tensor_size_; }
  int tensor_rank() const { return world_.rank() % tensor_size_; }
  Communicator& world() const { return world_; }
  std::size_t staging_bytes() const;  // of all communicators, the world's included, in the host's memory
  std::size_t device_bytes() const;   // that they hold on the device, where that is known
  // For the program's values. `stream` is kCompute, kCommunication or, on the tensor axis, kGather.
  Communicator& communicator(std::string_view axis, StreamId stream) const;
  // For ordinary memory, between steps.
  Communicator& host_communicator(std::string_view axis) const;

  // All of them. `stream` is its name, or "host".
  struct Link {
    std::string_view axis, stream;
    const Communicator* communicator;
  };
  std::vector<Link> links() const;

 private:
  struct Axis {
    std::unique_ptr<Communicator> compute, communication, gather;
    std::unique_ptr<Communicator> host;  // null where `compute` can do it
  };

  const Axis& axis_named(std::string_view axis) const;
  Mesh(std::unique_ptr<Communicator> planned, int data_size, int tensor_size, const StagingRule& staging,
       bool on_device);
  template <typename F>
  void for_each_communicator(F f) const;

  std::unique_ptr<Communicator> planned_;  // the world, where nobody else owns it
  Communicator& world_;
  int data_size_, tensor_size_;
  Axis tensor_, data_;
};

}  // namespace recollect
