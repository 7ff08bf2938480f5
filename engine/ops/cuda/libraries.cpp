#include "engine/ops/cuda/libraries.h"

#include <fmt/format.h>

#include "engine/ops/cuda/cublas.h"
#include "engine/ops/cuda/cudnn.h"
#include "engine/runtime/cuda/check.h"
#include "engine/runtime/cuda/device.h"

namespace recollect::cuda {

namespace {

// The device that the calling thread has chosen.
GemmContext device_context(bool tf32) {
  device_count();  // throws if there is no device, with what is missing
  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "asking for the thread's device");
  check(cudaGetDeviceProperties(&properties, device), "asking for the device's properties");
  return {.device = properties.name, .multiprocessors = properties.multiProcessorCount, .tf32 = tf32};
}

std::string cache_path(const LibrariesOptions& options, GemmContext context, std::size_t version) {
  if (options.cache_file == "none") return "";
  if (!options.cache_file.empty()) return options.cache_file;
  context.version = version;
  return gemm_cache_file(context);
}

}  // namespace

Libraries::Libraries(LibrariesOptions options) {
  const GemmContext context = device_context(options.tf32);
  const Library library(cublas_name(), search_places(SearchEnvironment::of_process()));
  const CublasFunctions functions(library);
  const std::size_t version = functions.version();
  const std::string cache = cache_path(options, context, version);
  cublas_ = std::make_unique<Cublas>(functions, context, cache, options.timed, device_trials());
  if (cache.empty() && options.timed && options.cache_file != "none")
    cublas_->warning() =
        "there is no home folder to keep the algorithms of matrix products in: a later run may choose "
        "others, "
        "and differ from this one in the last bits. Name a folder: XDG_CACHE_HOME";
}

Libraries::Libraries(std::unique_ptr<Cublas> cublas) : cublas_(std::move(cublas)) {}

Libraries::~Libraries() = default;

std::string Libraries::learned() const { return cublas_->choices().to_json(); }

void Libraries::learn(const std::string& text) {
  cublas_->choices().merge(GemmChoices::from_json(text, "another rank's choices"));
}

std::vector<std::string> Libraries::take_warnings() {
  std::string warning = std::exchange(cublas_->warning(), {});
  if (warning.empty()) return {};
  return {std::move(warning)};
}

Cudnn& Libraries::cudnn() {
  if (!cudnn_) cudnn_ = std::make_unique<Cudnn>(search_places(SearchEnvironment::of_process()));
  return *cudnn_;
}

}  // namespace recollect::cuda
