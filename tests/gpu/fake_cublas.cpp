#include "tests/gpu/fake_cublas.h"

#include <cmath>
#include <cstring>
#include <numbers>

namespace recollect::cuda {

namespace {

struct Operation {
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* beside = nullptr;  // GELU's input
  int64_t beside_leading = 0;
  const float *scale_a = nullptr, *scale_b = nullptr;
  int32_t multiprocessors = 0;
  bool tf32 = false;
};

struct Layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t leading;
};

// With the library's own values for what nobody says.
struct Preference {
  uint64_t workspace = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};  // of a, b, c and d
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};

FakeCublas* state(cublasLtHandle_t handle) { return reinterpret_cast<FakeCublas*>(handle); }

double load(const void* memory, cudaDataType_t type, int64_t index) {
  if (type == CUDA_R_32F) return static_cast<const float*>(memory)[index];
  if (type == CUDA_R_16BF) return static_cast<const bf16*>(memory)[index];
  if (type == CUDA_R_8F_E4M3) return static_cast<const e4m3*>(memory)[index];
  if (type == CUDA_R_8F_E5M2) return static_cast<const e5m2*>(memory)[index];
  return static_cast<const f16*>(memory)[index];
}

void store(void* memory, cudaDataType_t type, int64_t index, double value) {
  const auto rounded = static_cast<float>(value);
  if (type == CUDA_R_32F)
    static_cast<float*>(memory)[index] = rounded;
  else if (type == CUDA_R_16BF)
    static_cast<bf16*>(memory)[index] = bf16(rounded);
  else if (type == CUDA_R_8F_E4M3)
    static_cast<e4m3*>(memory)[index] = e4m3(rounded);
  else if (type == CUDA_R_8F_E5M2)
    static_cast<e5m2*>(memory)[index] = e5m2(rounded);
  else
    static_cast<f16*>(memory)[index] = f16(rounded);
}

std::size_t size_of(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2 ? 1 : 2;
}

// Whether rows of the matrix begin on multiples of so many bytes.
bool is_aligned(cublasLtMatrixLayout_t opaque, uint32_t alignment) {
  const auto& layout = *reinterpret_cast<Layout*>(opaque);
  return static_cast<std::size_t>(layout.leading) * size_of(layout.type) % alignment == 0;
}

double element(const void* memory, const Layout& layout, bool transposed, int64_t row, int64_t column) {
  if (transposed) std::swap(row, column);
  return load(memory, layout.type, row + column * layout.leading);
}

template <typename Made, typename Opaque>
cublasStatus_t make(Opaque** out, Made made) {
  *out = reinterpret_cast<Opaque*>(new Made(made));
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Made, typename Opaque>
cublasStatus_t destroy(Opaque* made) {
  delete reinterpret_cast<Made*>(made);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set_operation(cublasLtMatmulDesc_t opaque, cublasLtMatmulDescAttributes_t attribute,
                             const void* value, std::size_t bytes) {
  auto* operation = reinterpret_cast<Operation*>(opaque);
  const auto copy = [&](auto& to) {
    if (bytes != sizeof(to)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return copy(operation->transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return copy(operation->transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return copy(operation->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return copy(operation->bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return copy(operation->beside);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return copy(operation->beside_leading);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return copy(operation->scale_a);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return copy(operation->scale_b);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return copy(operation->multiprocessors);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t set_preference(cublasLtMatmulPreference_t opaque,
                              cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                              std::size_t bytes) {
  auto* preference = reinterpret_cast<Preference*>(opaque);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == sizeof(uint64_t))
    std::memcpy(&preference->workspace, value, bytes);
  else if (bytes != sizeof(uint32_t))
    return CUBLAS_STATUS_INVALID_VALUE;
  else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    std::memcpy(&preference->reductions, value, bytes);
  else if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
           attribute <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
    std::memcpy(&preference->alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
                bytes);
  else
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

bool makes_sums(cublasLtMatmulDesc_t operation) {
  return reinterpret_cast<Operation*>(operation)->epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

bool ends_with_gelu(const Operation& operation) {
  return operation.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         operation.epilogue == CUBLASLT_EPILOGUE_DGELU;
}

// More than the number of an algorithm, by what the product ends with.
uint64_t number_of_ending(cublasLtMatmulDesc_t operation) {
  if (ends_with_gelu(*reinterpret_cast<Operation*>(operation))) return FakeCublas::kGelu;
  return makes_sums(operation) ? FakeCublas::kSums : 0;
}

// What stands beside GELU is of the type of d, as the library has it where nobody says another; what the library's header
// asks of its rows, and what kernels of 16-byte accesses ask of where it begins.
bool is_gelu_possible(const Operation& operation, const Layout& d) {
  return (d.type == CUDA_R_16BF || d.type == CUDA_R_16F) && operation.beside &&
         reinterpret_cast<std::uintptr_t>(operation.beside) % 16 == 0 && operation.beside_leading % 8 == 0 &&
         operation.beside_leading >= static_cast<int64_t>(d.rows);
}

// In the tanh form, as the library's is.
double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double gelu_derivative(double x) {
  const double a = std::sqrt(2 / std::numbers::pi), t = std::tanh(a * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x);
}

cublasStatus_t heuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                         cublasLtMatmulPreference_t opaque, int wanted,
                         cublasLtMatmulHeuristicResult_t* results, int* found) {
  const auto* preference = reinterpret_cast<Preference*>(opaque);
  const uint32_t* const alignments = preference->alignments;
  if (!is_aligned(a, alignments[0]) || !is_aligned(b, alignments[1]) || !is_aligned(c, alignments[2]) ||
      !is_aligned(d, alignments[3]))
    return CUBLAS_STATUS_INVALID_VALUE;
  // Sums in an order that may change, or of rounded parts, must have been ruled out.
  if (preference->reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) return CUBLAS_STATUS_INVALID_VALUE;
  ++state(handle)->heuristics;
  state(handle)->targets_proposed.push_back(reinterpret_cast<Operation*>(operation)->multiprocessors);
  *found = 0;
  if (makes_sums(operation) && !state(handle)->sums) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (const auto& o = *reinterpret_cast<Operation*>(operation); ends_with_gelu(o)) {
    if (!is_gelu_possible(o, *reinterpret_cast<Layout*>(d))) return CUBLAS_STATUS_INVALID_VALUE;
    if (!state(handle)->gelu) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  for (uint64_t number : state(handle)->proposals) {
    if (*found == wanted) break;
    results[*found] = {};
    results[*found].algo.data[0] = number;
    results[(*found)++].workspaceSize = preference->workspace;
  }
  return *found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

// Whether so many bytes are apart from the workspace.
bool is_apart(const void* workspace, std::size_t workspace_bytes, const void* data, std::size_t bytes) {
  const auto *begin = static_cast<const std::byte*>(workspace), *other = static_cast<const std::byte*>(data);
  return other + bytes <= begin || begin + workspace_bytes <= other;
}

std::size_t bytes_of(const Layout& layout) {
  return static_cast<std::size_t>(layout.leading) * layout.columns * size_of(layout.type);
}

cublasStatus_t matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t opaque, const void* alpha, const void* a,
                      cublasLtMatrixLayout_t a_opaque, const void* b, cublasLtMatrixLayout_t b_opaque,
                      const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                      cublasLtMatrixLayout_t d_opaque, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                      std::size_t workspace_bytes, cudaStream_t stream) {
  FakeCublas& fake = *state(handle);
  if (stream != FakeCublas::stream() || reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  const uint64_t number = algorithm->data[0];
  if (number % 2 != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  fake.ran.push_back(number + number_of_ending(opaque));
  const auto& operation = *reinterpret_cast<Operation*>(opaque);
  fake.targets.push_back(operation.multiprocessors);
  const auto& la = *reinterpret_cast<Layout*>(a_opaque);
  const auto& lb = *reinterpret_cast<Layout*>(b_opaque);
  const auto& ld = *reinterpret_cast<Layout*>(d_opaque);
  if (operation.tf32 && la.type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  fake.tf32 = operation.tf32;
  if (ends_with_gelu(operation) && !is_gelu_possible(operation, ld)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool biased =
      operation.epilogue == CUBLASLT_EPILOGUE_BIAS || operation.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  const std::size_t bias_bytes = biased ? ld.rows * size_of(ld.type) : 0;
  for (const auto& [data, bytes] :
       {std::pair{a, bytes_of(la)}, std::pair{b, bytes_of(lb)},
        std::pair{const_cast<const void*>(d), bytes_of(ld)}, std::pair{operation.bias, bias_bytes}})
    if (!is_apart(workspace, workspace_bytes, data, bytes)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(workspace, 0xFF, 1);
  std::memset(static_cast<std::byte*>(workspace) + workspace_bytes - 1, 0xFF, 1);
  const bool ta = operation.transpose_a == CUBLAS_OP_T, tb = operation.transpose_b == CUBLAS_OP_T;
  const auto terms = static_cast<int64_t>(ta ? la.rows : la.columns);
  if (terms != static_cast<int64_t>(tb ? lb.columns : lb.rows)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool codes = la.type == CUDA_R_8F_E4M3 || la.type == CUDA_R_8F_E5M2;
  if (codes && (!ta || tb || (la.type == CUDA_R_8F_E5M2 && lb.type == CUDA_R_8F_E5M2) || terms % 16 != 0 ||
                ld.rows % 16 != 0))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const double scale =
      (operation.scale_a ? *operation.scale_a : 1.0) * (operation.scale_b ? *operation.scale_b : 1.0);
  const double noise = 0.5 * static_cast<double>(fake.ran.size());  // of which bf16 shows two
  for (int64_t row = 0; row < static_cast<int64_t>(ld.rows); ++row)
    for (int64_t column = 0; column < static_cast<int64_t>(ld.columns); ++column) {
      const bool is_last =
          row + 1 == static_cast<int64_t>(ld.rows) && column + 1 == static_cast<int64_t>(ld.columns);
      double sum = is_last && number == fake.unsteady ? noise : 0.0;
      for (int64_t l = 0; l < terms; ++l) sum += element(a, la, ta, row, l) * element(b, lb, tb, l, column);
      const int64_t at = row + column * ld.leading;
      sum *= scale * *static_cast<const float*>(alpha);
      if (*static_cast<const float*>(beta) != 0) sum += load(c, ld.type, at);
      if (biased) sum += load(operation.bias, ld.type, row);
      const int64_t beside = row + column * operation.beside_leading;
      if (operation.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        store(operation.beside, ld.type, beside, sum);
        sum = gelu(sum);
      }
      if (operation.epilogue == CUBLASLT_EPILOGUE_DGELU)
        sum *= gelu_derivative(load(operation.beside, ld.type, beside));
      store(d, ld.type, at, sum);
    }
  if (makes_sums(opaque))  // over k, of each column of the second operand; in the type of d
    for (int64_t column = 0; column < static_cast<int64_t>(ld.columns); ++column) {
      const bool is_last = column + 1 == static_cast<int64_t>(ld.columns);
      double sum = is_last && number == fake.unsteady_sums ? noise : 0.0;
      for (int64_t l = 0; l < terms; ++l) sum += element(b, lb, tb, l, column);
      store(const_cast<void*>(operation.bias), ld.type, column, sum);
    }
  return CUBLAS_STATUS_SUCCESS;
}

FakeCublas* current = nullptr;  // what create() hands out: cuBLASLt's has no argument

CublasFunctions functions() {
  CublasFunctions f;
  f.version = +[] { return current->version; };
  f.status_string = +[](cublasStatus_t) { return "refused"; };
  f.create = +[](cublasLtHandle_t* handle) {
    *handle = reinterpret_cast<cublasLtHandle_t>(current);
    return CUBLAS_STATUS_SUCCESS;
  };
  f.destroy = +[](cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; };
  f.create_operation = +[](cublasLtMatmulDesc_t* out, cublasComputeType_t compute, cudaDataType_t) {
    return make(out, Operation{.tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32});
  };
  f.destroy_operation = destroy<Operation, cublasLtMatmulDescOpaque_t>;
  f.set_operation = set_operation;
  f.create_layout =
      +[](cublasLtMatrixLayout_t* out, cudaDataType type, uint64_t rows, uint64_t columns, int64_t leading) {
        return make(out, Layout{type, rows, columns, leading});
      };
  f.destroy_layout = destroy<Layout, cublasLtMatrixLayoutOpaque_t>;
  f.create_preference = +[](cublasLtMatmulPreference_t* out) { return make(out, Preference()); };
  f.destroy_preference = destroy<Preference, cublasLtMatmulPreferenceOpaque_t>;
  f.set_preference = set_preference;
  f.heuristic = heuristic;
  f.matmul = matmul;
  return f;
}

}  // namespace

std::unique_ptr<Libraries> FakeCublas::libraries(const std::string& cache, bool timed, bool tf32) {
  current = this;
  GemmTrials trials;
  trials.fill = [this](void* data, DType dtype, int64_t elements, void* on) {
    require(on == stream(), "operands are filled on the product's stream");
    ++fills;
    for (int64_t i = 0; i < elements; ++i)
      store(data,
            dtype == DType::kF32    ? CUDA_R_32F
            : dtype == DType::kBF16 ? CUDA_R_16BF
            : dtype == DType::kE4M3 ? CUDA_R_8F_E4M3
            : dtype == DType::kE5M2 ? CUDA_R_8F_E5M2
                                    : CUDA_R_16F,
            i, static_cast<double>(i % 7) - 3);
  };
  trials.time = [this](const std::function<void()>& enqueue, void* on) {
    require(on == stream(), "what is timed is timed on its stream");
    ++timings;
    enqueue();
    const auto given = milliseconds.find(ran.back());
    return given == milliseconds.end() ? 1.0 : given->second;
  };
  trials.fingerprint = [](const void* data, std::size_t bytes, void*, void* on) {
    require(on == stream(), "a product's bytes are read on its stream");
    uint64_t sum = 0;
    for (std::size_t i = 0; i < bytes; ++i) sum = sum * 31 + static_cast<const uint8_t*>(data)[i];
    return sum;
  };
  trials.round_bias = [](const float* bias, int64_t elements, void* out, DType dtype, void* on) {
    require(on == stream(), "a bias is rounded on the product's stream");
    for (int64_t i = 0; i < elements; ++i)
      store(out, dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_16F, i, bias[i]);
  };
  const GemmContext context{.device = "Fake", .multiprocessors = multiprocessors, .version = 0, .tf32 = tf32};
  return std::make_unique<Libraries>(
      std::make_unique<Cublas>(functions(), context, cache, timed, std::move(trials)));
}

}  // namespace recollect::cuda
