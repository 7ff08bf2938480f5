// The only file that sees cudnn-frontend. It finds every function by name while the program runs, and asks
// three questions of its surroundings: dlopen, dlsym and getenv. They are answered here: cuDNN is the library
// that Cudnn has opened, the CUDA runtime is the one linked into this program (a second one of its own choosing
// would have to be found as well), and the driver is the system's. By a variable of the environment it is told
// how backward may add up; that is a matter of the problem here, whatever the user's environment says, because
// bits and bytes follow from it.
#include "engine/ops/cuda/cudnn_attention.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "engine/core/error.h"
#include "engine/ops/cuda/cudnn.h"
#include "engine/runtime/cuda/check.h"

namespace recollect::cuda {

namespace {

void* frontend_library(const char* name, int flags);
void* frontend_symbol(void* library, const char* name);
const char* frontend_variable(const char* name);

}  // namespace

}  // namespace recollect::cuda

#define dlopen(name, flags) ::recollect::cuda::frontend_library(name, flags)
#define dlsym(library, name) ::recollect::cuda::frontend_symbol(library, name)
#include <cudnn.h>
#include <cudnn_frontend_shim.h>
#define get_environment(name) ::recollect::cuda::frontend_variable(name)  // instead of the shim's
#include <cudnn_frontend.h>
#undef get_environment
#undef dlopen
#undef dlsym

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // declared by its headers, for us to define; set once, by use_cudnn()
}

namespace recollect::cuda {

namespace fe = cudnn_frontend;

namespace {

struct RuntimeFunction {
  std::string_view name;
  void* address;
};

#define RECOLLECT_RUNTIME(name) \
  { #name, reinterpret_cast < void*>(&::name) }

// Those that cudnn-frontend may ask for on the way to an execution, recorded or not.
const RuntimeFunction kRuntime[] = {
    RECOLLECT_RUNTIME(cudaDeviceGetAttribute), RECOLLECT_RUNTIME(cudaGetDevice),
    RECOLLECT_RUNTIME(cudaGetErrorString),     RECOLLECT_RUNTIME(cudaGetLastError),
    RECOLLECT_RUNTIME(cudaMemcpyAsync),        RECOLLECT_RUNTIME(cudaMemsetAsync),
    RECOLLECT_RUNTIME(cudaRuntimeGetVersion),  RECOLLECT_RUNTIME(cudaStreamBeginCapture),
    RECOLLECT_RUNTIME(cudaStreamEndCapture),   RECOLLECT_RUNTIME(cudaStreamGetCaptureInfo),
    RECOLLECT_RUNTIME(cudaStreamIsCapturing),  RECOLLECT_RUNTIME(cudaThreadExchangeStreamCaptureMode),
};

#undef RECOLLECT_RUNTIME

void* runtime_library() { return const_cast<RuntimeFunction*>(kRuntime); }

void* frontend_library(const char* name, int flags) {
  const std::string_view wanted(name);
  if (wanted == "libcudart.so.13") return runtime_library();
  if (wanted.starts_with("libcudart") || wanted.starts_with("libnvrtc")) return nullptr;
  return ::dlopen(name, flags);
}

void* frontend_symbol(void* library, const char* name) {
  if (library != runtime_library()) return ::dlsym(library, name);
  for (const RuntimeFunction& function : kRuntime)
    if (function.name == name) return function.address;
  return nullptr;
}

// While one lives its thread plans a problem. cudnn-frontend hands nothing through to where it asks.
class PlannedInOrder {
 public:
  explicit PlannedInOrder(bool in_order) { here() = in_order; }
  ~PlannedInOrder() { here() = false; }
  PlannedInOrder(const PlannedInOrder&) = delete;
  static bool& here() {
    static thread_local bool in_order = false;
    return in_order;
  }
};

// "0": the gradients of all scores are stored for no shape.
const char* frontend_variable(const char* name) {
  if (std::string_view(name) != "CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT") return std::getenv(name);
  return PlannedInOrder::here() ? "0" : nullptr;
}

// Names of tensors in calls. cuDNN's own get the numbers after these.
enum Uid : int64_t {
  kQ = 1,
  kK,
  kV,
  kO,
  kLse,
  kGradO,
  kGradQ,
  kGradK,
  kGradV,
  kSeed,
  kOffset,
  kLengths,
  kQueryLengths
};

using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr int64_t kLseAlignment = 4;  // a piece may begin at any row

std::string described(const AttentionProblem& p) {
  return std::string("attention") + (p.backward ? "'s backward" : "") + " of " + std::to_string(p.samples) +
         " samples, " + std::to_string(p.heads) + " heads of " + std::to_string(p.head_size) + ", " +
         (p.kv_heads == p.heads ? "" : std::to_string(p.kv_heads) + " of keys, ") + std::to_string(p.length) +
         " tokens, " + (p.window > 0 ? "a window of " + std::to_string(p.window) + ", " : "") + "in " +
         std::string(name_of(p.dtype));
}

class Builder {
 public:
  // `capability` is the device's: 90 for Hopper. Operations take it over when they are added.
  Builder(const AttentionProblem& problem, int32_t capability) : p_(problem) {
    graph_->set_sm_version(capability);
    graph_->set_io_data_type(p_.dtype == DType::kF16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    graph_->set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);  // graphs outlive what is recorded
  }

  std::shared_ptr<fe::graph::Graph> make() {
    if (p_.backward)
      add_backward();
    else
      add_forward();
    return graph_;
  }

 private:
  std::vector<int64_t> dims(int64_t heads) const { return {p_.samples, heads, p_.length, p_.head_size}; }
  std::vector<int64_t> strides(int64_t row) const { return {p_.length * row, p_.head_size, row, 1}; }
  std::vector<int64_t> lse_dims() const { return {p_.samples, p_.heads, p_.length, 1}; }
  std::vector<int64_t> lse_strides() const { return {p_.heads * p_.length, p_.length, 1, 1}; }

  Tensor input(Uid uid, int64_t heads, int64_t row) {
    return graph_->tensor(
        fe::graph::Tensor_attributes().set_uid(uid).set_dim(dims(heads)).set_stride(strides(row)));
  }

  void output(const Tensor& tensor, Uid uid, int64_t heads, int64_t row) const {
    tensor->set_output(true).set_uid(uid).set_dim(dims(heads)).set_stride(strides(row));
  }

  Tensor words(Uid uid, int64_t count, fe::DataType_t type) {
    return graph_->tensor(fe::graph::Tensor_attributes()
                              .set_uid(uid)
                              .set_dim({count, 1, 1, 1})
                              .set_stride({1, 1, 1, 1})
                              .set_alignment(type == fe::DataType_t::INT64 ? 8 : 4)
                              .set_data_type(type));
  }

  template <typename Attributes>
  void set_common(Attributes& attributes) {
    const double usual = 1.0 / std::sqrt(static_cast<double>(p_.head_size));
    attributes.set_attn_scale(static_cast<float>(p_.scale > 0 ? p_.scale : usual));
    if (p_.causal || p_.window > 0)
      attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
          .set_diagonal_band_right_bound(p_.causal ? 0 : p_.window - 1);
    if (p_.window > 0) attributes.set_diagonal_band_left_bound(p_.window);
    if (p_.padded) {
      attributes.set_padding_mask(true)
          .set_seq_len_q(words(kQueryLengths, p_.samples, fe::DataType_t::INT32))
          .set_seq_len_kv(words(kLengths, p_.samples, fe::DataType_t::INT32));
    }
    if (p_.dropout > 0)
      attributes.set_dropout(static_cast<float>(p_.dropout), words(kSeed, 1, fe::DataType_t::INT64),
                             words(kOffset, 1, fe::DataType_t::INT64));
  }

  // Written out in simple operations, which all versions of cuDNN understand, instead of as one, which
  // learned of masks only in 9.21.
  void add_forward() {
    auto attributes = fe::graph::SDPA_attributes();
    attributes.set_name("attention").set_generate_stats(true);
    attributes.set_implementation(fe::AttentionImplementation_t::COMPOSITE);
    set_common(attributes);
    const Tensor q = input(kQ, p_.heads, p_.q_row), k = input(kK, p_.kv_heads, p_.kv_row),
                 v = input(kV, p_.kv_heads, p_.kv_row);
    const auto [o, lse] = graph_->sdpa(q, k, v, attributes);
    output(o, kO, p_.heads, p_.o_row);
    lse->set_output(true)
        .set_uid(kLse)
        .set_alignment(kLseAlignment)
        .set_dim(lse_dims())
        .set_stride(lse_strides())
        .set_data_type(fe::DataType_t::FLOAT);
  }

  void add_backward() {
    auto attributes = fe::graph::SDPA_backward_attributes();
    attributes.set_name("attention_backward").set_deterministic_algorithm(true);
    set_common(attributes);
    const Tensor q = input(kQ, p_.heads, p_.q_row), k = input(kK, p_.kv_heads, p_.kv_row),
                 v = input(kV, p_.kv_heads, p_.kv_row);
    const Tensor o = input(kO, p_.heads, p_.o_row), d_o = input(kGradO, p_.heads, p_.o_row);
    const Tensor lse = graph_->tensor(fe::graph::Tensor_attributes()
                                          .set_uid(kLse)
                                          .set_alignment(kLseAlignment)
                                          .set_dim(lse_dims())
                                          .set_stride(lse_strides())
                                          .set_data_type(fe::DataType_t::FLOAT));
    const auto [dq, dk, dv] = graph_->sdpa_backward(q, k, v, o, d_o, lse, attributes);
    output(dq, kGradQ, p_.heads, p_.q_row);
    output(dk, kGradK, p_.kv_heads, p_.kv_row);
    output(dv, kGradV, p_.kv_heads, p_.kv_row);
  }

  const AttentionProblem& p_;
  std::shared_ptr<fe::graph::Graph> graph_ = std::make_shared<fe::graph::Graph>();
};

// Calls steps of cudnn-frontend for one problem; what they answer or throw becomes an Error.
template <typename Step>
void carry_out(const AttentionProblem& problem, ExitCode code, const char* doing, Step step) {
  std::string problem_found;
  try {
    fe::error_t error = step();
    if (error.is_good()) return;
    problem_found = error.get_message();
  } catch (const std::exception& e) {
    problem_found = e.what();
  }
  throw Error(
      code, "cuDNN, " + std::string(doing) + " " + described(problem) + ": " + problem_found.substr(0, 600),
      code == ExitCode::kConfiguration ? "take another version of cuDNN: RECOLLECT_NVIDIA_LIBRARIES=FOLDER"
                                       : "");
}

// It would go another way without a word.
void check_order(const AttentionProblem& problem, const Cudnn& cudnn, int32_t capability) {
  if (!problem.in_order || (capability / 10 == 9 && cudnn.version() >= kOldestInOrder)) return;
  throw Error(ExitCode::kConfiguration,
              "device.memory_limit leaves too little for the workspace of " + described(problem) +
                  ", and without it cuDNN computes that on Hopper alone, from version 9.25 on (" +
                  cudnn.path() + ", compute capability " + std::to_string(capability) + ")",
              "take a newer cuDNN, raise device.memory_limit, or name another GPU with device.model");
}

int32_t compute_capability() {
  int device = 0, major = 0, minor = 0;
  check(cudaGetDevice(&device), "asking for the thread's device");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking for the device");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "asking for the device");
  return major * 10 + minor;
}

}  // namespace

bool has_fused_attention() { return true; }

void use_cudnn(void* library) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!fe::cudnn_dlhandle) fe::cudnn_dlhandle = library;
}

class AttentionGraph::Impl {
 public:
  Impl(const AttentionProblem& problem, const Cudnn& cudnn)
      : problem_(problem), handle_(static_cast<cudnnHandle_t>(cudnn.handle())) {
    const auto step = [&](auto what) { carry_out(problem, ExitCode::kConfiguration, "planning", what); };
    const int32_t capability = compute_capability();
    check_order(problem, cudnn, capability);
    const PlannedInOrder planned(problem.in_order);
    step([&] {
      graph_ = Builder(problem, capability).make();
      return graph_->validate();
    });
    step([&] { return graph_->build_operation_graph(handle_); });
    step([&] { return graph_->create_execution_plans({fe::HeurMode_t::A}); });
    step([&] { return graph_->check_support(); });
    step([&] { return graph_->build_plans(); });
    step([&] { return graph_->get_workspace_size(workspace_bytes_); });
  }

  std::size_t workspace_bytes() const { return static_cast<std::size_t>(workspace_bytes_); }

  void run(const AttentionOperands& o, void* workspace, void* stream) {
    auto* random = static_cast<int64_t*>(o.random);
    std::unordered_map<int64_t, void*> addresses = {
        {kQ, o.q}, {kK, o.k}, {kV, o.v}, {kO, o.o}, {kLse, o.lse}};
    if (problem_.backward)
      addresses.insert({{kGradO, o.d_o}, {kGradQ, o.dq}, {kGradK, o.dk}, {kGradV, o.dv}});
    if (problem_.dropout > 0) addresses.insert({{kSeed, random}, {kOffset, random + 1}});
    if (problem_.padded) addresses.insert({{kLengths, o.lengths}, {kQueryLengths, o.query_lengths}});
    carry_out(problem_, ExitCode::kInternal, "computing", [&]() -> fe::error_t {
      const cudnnStatus_t status = fe::detail::set_stream(handle_, static_cast<cudaStream_t>(stream));
      if (status != CUDNN_STATUS_SUCCESS)
        return {fe::error_code_t::CUDNN_BACKEND_API_FAILED, "the stream is not taken"};
      return graph_->execute(handle_, addresses, workspace);
    });
  }

 private:
  AttentionProblem problem_;
  cudnnHandle_t handle_;
  std::shared_ptr<fe::graph::Graph> graph_;
  int64_t workspace_bytes_ = 0;
};

AttentionGraph::AttentionGraph(const AttentionProblem& problem, const Cudnn& cudnn)
    : impl_(std::make_unique<Impl>(problem, cudnn)) {}
AttentionGraph::~AttentionGraph() = default;

std::size_t AttentionGraph::workspace_bytes() const { return impl_->workspace_bytes(); }

void AttentionGraph::run(const AttentionOperands& operands, void* workspace, void* stream) {
  impl_->run(operands, workspace, stream);
}

PlannedAttention planned_attention(const AttentionProblem& problem, const Library& library,
                                   const DescribedDevice& device) {
  use_cudnn(library.handle());
  const PlannedInOrder order(problem.in_order);
  PlannedAttention planned;
  std::shared_ptr<fe::graph::Graph> graph;
  const auto step = [&](auto what) { carry_out(problem, ExitCode::kConfiguration, "planning", what); };
  step([&] {
    auto properties = std::make_shared<fe::DeviceProperties>();
    const fe::error_t error = properties->deserialize({device.json.begin(), device.json.end()});
    if (!error.is_good()) return error;
    graph = Builder(problem, device.capability).make();
    graph->set_device_properties(properties);
    return graph->validate();
  });
  step([&] { return graph->build_operation_graph(); });
  step([&] { return graph->create_execution_plans({fe::HeurMode_t::A}); });
  step([&] { return graph->check_support(); });
  step([&] { return graph->get_plan_name_at_index(0, planned.kernel); });
  if (graph->build_plans().is_good()) {  // which asks a driver to load the kernel
    int64_t bytes = 0;
    step([&] { return graph->get_workspace_size(bytes); });
    planned.workspace_bytes = static_cast<std::size_t>(bytes);
  }
  return planned;
}

}  // namespace recollect::cuda
