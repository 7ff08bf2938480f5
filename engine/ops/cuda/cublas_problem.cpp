#include "engine/ops/cuda/cublas_problem.h"

#include <bit>

#include "engine/nvidia/multiprocessors.h"
#include "engine/ops/cuda/gemm_layout.h"

namespace recollect::cuda {

namespace {

static_assert(sizeof(GemmAlgorithm) == sizeof(cublasLtMatmulAlgo_t));

constexpr int kCandidates = 16;

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kE4M3:
      return CUDA_R_8F_E4M3;
    case DType::kE5M2:
      return CUDA_R_8F_E5M2;
    default:
      throw Error(ExitCode::kInternal, "no matrix product of " + std::string(name_of(dtype)) + " on CUDA");
  }
}

// For f32 the exact type, unless tf32 is requested. Sums are float for every dtype.
cublasComputeType_t compute_type(const GemmShape& shape, const GemmContext& context) {
  return shape.in == DType::kF32 && context.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

}  // namespace

GemmWorkspace::GemmWorkspace(const GemmShape& shape, void* workspace)
    : shape_(shape),
      begin_(reinterpret_cast<std::byte*>(gemm_aligned(reinterpret_cast<std::uintptr_t>(workspace)))) {}

const void* GemmWorkspace::rounded(const void* bias, Cublas& cublas, void* stream) const {
  if (!bias || shape_.out == DType::kF32) return bias;
  cublas.trials().round_bias(static_cast<const float*>(bias), shape_.n, begin_, shape_.out, stream);
  return begin_;
}

CublasProblem::CublasProblem(const GemmShape& shape, Cublas& cublas)
    : shape_(shape),
      cublas_(cublas),
      operation_(nullptr, cublas.functions().destroy_operation),
      first_(nullptr, cublas.functions().destroy_layout),
      second_(nullptr, cublas.functions().destroy_layout),
      out_(nullptr, cublas.functions().destroy_layout) {
  const GemmLayout layouts = column_major(shape);
  cublasLtMatmulDesc_t operation = nullptr;
  cublas.check(
      cublas.functions().create_operation(&operation, compute_type(shape, cublas.context()), CUDA_R_32F),
      "describing a product");
  operation_.reset(operation);
  const auto transpose = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    const int32_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    set_operation(attribute, &value, sizeof(value));
  };
  transpose(CUBLASLT_MATMUL_DESC_TRANSA, layouts.first.transposed);
  transpose(CUBLASLT_MATMUL_DESC_TRANSB, layouts.second.transposed);
  if (shape.biased) {
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    set_operation(CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
  }
  const int32_t target =
      shape.beside_collectives ? multiprocessors_beside_collectives(cublas.context().multiprocessors) : 0;
  if (target > 0) set_operation(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &target, sizeof(target));
  first_ = layout(layouts.first, shape.type_of_b());
  second_ = layout(layouts.second, shape.in);
  out_ = layout(layouts.out, shape.out);
}

void CublasProblem::set_operation(cublasLtMatmulDescAttributes_t attribute, const void* value,
                                  std::size_t bytes) const {
  cublas_.check(cublas_.functions().set_operation(operation_.get(), attribute, value, bytes),
                "describing a product");
}

// The epilogue sums the library's second operand, which is a's memory.
void CublasProblem::write_sums(float* sums) {
  const uint32_t epilogue = CUBLASLT_EPILOGUE_BGRADB;
  set_operation(CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
  set_operation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &sums, sizeof(sums));
}

// `pre` has the dtype of out and the same row stride.
void CublasProblem::end_with_gelu(void* pre) {
  const uint32_t epilogue = shape_.biased ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_DGELU;
  const int64_t leading = column_major(shape_).out.leading;
  set_operation(CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
  set_operation(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &pre, sizeof(pre));
  set_operation(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &leading, sizeof(leading));
}

CublasProblem::Owned<cublasLtMatrixLayoutOpaque_t> CublasProblem::layout(const ColumnMajor& matrix,
                                                                         DType dtype) const {
  cublasLtMatrixLayout_t made = nullptr;
  cublas_.check(cublas_.functions().create_layout(&made, type_of(dtype), static_cast<uint64_t>(matrix.rows),
                                                  static_cast<uint64_t>(matrix.columns), matrix.leading),
                "describing a matrix");
  return {made, cublas_.functions().destroy_layout};
}

std::vector<GemmAlgorithm> CublasProblem::candidates() const {
  const CublasFunctions& call = cublas_.functions();
  cublasLtMatmulPreference_t made = nullptr;
  cublas_.check(call.create_preference(&made), "asking for algorithms");
  const Owned<cublasLtMatmulPreferenceOpaque_t> preference(made, call.destroy_preference);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    cublas_.check(call.set_preference(made, attribute, &value, sizeof(value)), "asking for algorithms");
  };
  const GemmLayout layouts = column_major(shape_);
  const std::size_t in = size_of(shape_.in), out = size_of(shape_.out);  // elements of b have the size of a's
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{library_workspace_bytes()});
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, row_alignment(layouts.first, in));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, row_alignment(layouts.second, in));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, row_alignment(layouts.out, out));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, row_alignment(layouts.out, out));
  if (shape_.biased) {  // not read here: only its alignment matters
    const void* bias = reinterpret_cast<const void*>(uintptr_t{16});
    set_operation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias));
  }
  cublasLtMatmulHeuristicResult_t results[kCandidates] = {};
  int found = 0;
  const cublasStatus_t status =
      call.heuristic(cublas_.handle(), operation_.get(), first_.get(), second_.get(), out_.get(), out_.get(),
                     made, kCandidates, results, &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) cublas_.check(status, "asking for algorithms");
  std::vector<GemmAlgorithm> algorithms;
  for (int i = 0; i < found; ++i)
    if (results[i].state == CUBLAS_STATUS_SUCCESS && results[i].workspaceSize <= library_workspace_bytes())
      algorithms.push_back(std::bit_cast<GemmAlgorithm>(results[i].algo));
  return algorithms;
}

cublasStatus_t CublasProblem::run(const GemmAlgorithm& algorithm, const GemmOperands& o,
                                  bool accumulate) const {
  if (shape_.biased) set_operation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o.bias, sizeof(o.bias));
  if (is_float8(shape_.in)) {  // b is the library's first operand
    set_operation(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &o.scales.b, sizeof(o.scales.b));
    set_operation(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &o.scales.a, sizeof(o.scales.a));
  }
  const float alpha = 1.0f, beta = accumulate ? 1.0f : 0.0f;
  const auto chosen = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  return cublas_.functions().matmul(cublas_.handle(), operation_.get(), &alpha, o.b, first_.get(), o.a,
                                    second_.get(), &beta, o.out, out_.get(), o.out, out_.get(), &chosen,
                                    o.workspace, library_workspace_bytes(),
                                    static_cast<cudaStream_t>(o.stream));
}

}  // namespace recollect::cuda
