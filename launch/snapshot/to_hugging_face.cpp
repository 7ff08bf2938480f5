#include "launch/snapshot/to_hugging_face.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/io/files.h"
#include "engine/io/safetensors_writer.h"
#include "engine/io/strict_json.h"
#include "launch/config/hf_config.h"
#include "launch/config/lora_keys.h"
#include "launch/train/save_model.h"

namespace recollect {

namespace {

constexpr int64_t kBandBytes = int64_t{1} << 20;  // of a tensor, processed at a time

// The name of a dtype in config.json.
const char* torch_name(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "float64";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    default:
      return "float32";
  }
}

// Copies rows in the layout of a file, transposed if `turned`, and rounds them. Returns the index in `in` of
// a finite number that became infinite, or -1.
template <typename In, typename Out>
int64_t arrange_rows(const In* in, Out* out, int64_t rows, int64_t columns, bool turned) {
  int64_t overflow = -1;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const In from = in[r * columns + c];
      Out& to = out[turned ? c * rows + r : r * columns + c];
      if constexpr (sizeof(Out) == 2)
        to = Out(static_cast<float>(from));
      else
        to = static_cast<Out>(from);
      if constexpr (sizeof(Out) < sizeof(In) || sizeof(In) == 2)  // bf16 has a larger range than f16
        if (!std::isfinite(static_cast<float>(to)) && std::isfinite(static_cast<double>(from)))
          overflow = r * columns + c;
    }
  return overflow;
}

int64_t arrange_rows(const std::byte* in, DType from, std::byte* out, DType to, int64_t rows, int64_t columns,
                     bool turned) {
  const auto with = [&]<typename In>(const In* values) -> int64_t {
    switch (to) {
      case DType::kF64:
        return arrange_rows(values, reinterpret_cast<double*>(out), rows, columns, turned);
      case DType::kBF16:
        return arrange_rows(values, reinterpret_cast<bf16*>(out), rows, columns, turned);
      case DType::kF16:
        return arrange_rows(values, reinterpret_cast<f16*>(out), rows, columns, turned);
      default:
        return arrange_rows(values, reinterpret_cast<float*>(out), rows, columns, turned);
    }
  };
  switch (from) {
    case DType::kF64:
      return with(reinterpret_cast<const double*>(in));
    case DType::kBF16:
      return with(reinterpret_cast<const bf16*>(in));
    case DType::kF16:
      return with(reinterpret_cast<const f16*>(in));
    default:
      return with(reinterpret_cast<const float*>(in));
  }
}

// One tensor of the model's file.
struct FileTensorOf {
  const Parameter* parameter;
  std::string name;    // its name in the snapshot
  std::size_t source;  // its index there
  DType from, to;
  int64_t rows;
};

class ModelWriter {
 public:
  ModelWriter(SnapshotReader& snapshot, const Model& model, std::optional<DType> dtype,
              const std::string& path, uint64_t most)
      : snapshot_(snapshot), file_(path) {
    file_.split_at(most);
    const bool adapted = has_adapters(model.parameters);
    for (const Parameter& p : model.parameters)
      for (const Parameter::FileTensor& tensor : p.file_tensors()) {
        if (adapted && !p.saved_with_adapters) continue;
        const std::size_t source = find_master(p, tensor);
        const DType from = snapshot_.manifest().tensors[source].whole.dtype, to = dtype.value_or(from);
        file_.declare(
            adapted ? adapter_tensor_name(model.files, tensor.name) : model.files.in_file(tensor.name), to,
            p.file_shape(tensor));
        tensors_.push_back({&p, tensor.name, source, from, to, tensor.rows});
      }
    file_.begin();
  }

  void write() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) write_tensor(i);
    file_.finish();
  }

 private:
  std::size_t find_master(const Parameter& p, const Parameter::FileTensor& tensor) const {
    const std::size_t index = snapshot_.index_of(tensor.name);
    const std::vector<SnapshotTensor>& all = snapshot_.manifest().tensors;
    const std::vector<int64_t> shape =
        p.vector ? std::vector{tensor.rows} : std::vector{tensor.rows, p.columns};
    const bool good = index < all.size() && all[index].whole.shape() == shape &&
                      is_floating(all[index].whole.dtype);  // frozen ones may have 16 bits
    if (!good)
      throw Error(ExitCode::kInput,
                  fmt::format("{} has no parameter {} {}, which the model of its configuration has",
                              snapshot_.folder(), escaped_name(tensor.name), shape_to_string(shape)),
                  "the snapshot is damaged, or another version of this program saved it");
    return index;
  }

  void write_tensor(std::size_t index) {
    const auto& [parameter, name, source, from, to, rows] = tensors_[index];
    const int64_t columns = parameter->columns, width = static_cast<int64_t>(size_of(to)),
                  line = columns * static_cast<int64_t>(size_of(from)),
                  most = std::clamp<int64_t>(kBandBytes / line, 1, rows);
    const bool turned = parameter->transposed_in_file;
    for (int64_t row = 0; row < rows; row += most) {
      const int64_t count = std::min(most, rows - row);
      in_.resize(static_cast<std::size_t>(count * line));
      out_.resize(static_cast<std::size_t>(count * columns * width));
      snapshot_.read(source, {row, count, 0, columns}, in_.data());
      if (const int64_t at = arrange_rows(in_.data(), from, out_.data(), to, count, columns, turned); at >= 0)
        throw Error(ExitCode::kInput,
                    fmt::format("{}: row {}, column {} is too large for {}", escaped_name(name),
                                row + at / columns, at % columns, name_of(to)),
                    "take --dtype bf16 or fp32");
      const auto put = [&](int64_t first, int64_t element, int64_t elements) {
        file_.write_at(index, static_cast<uint64_t>(element * width),
                       {out_.data() + first * width, static_cast<std::size_t>(elements * width)});
      };
      if (!turned) put(0, row * columns, count * columns);
      for (int64_t c = 0; turned && c < columns; ++c) put(c * count, c * rows + row, count);
    }
  }

  SnapshotReader& snapshot_;
  SafetensorsWriter file_;
  std::vector<FileTensorOf> tensors_;
  std::vector<std::byte> in_, out_;
};

}  // namespace

void write_hugging_face(SnapshotReader& snapshot, const SavedRun& run, std::optional<DType> dtype,
                        const std::string& folder) {
  const Config& config = run.config;
  const Companions companions(config);
  const ModelGraph built = model_of_layout(config, {});
  ModelWriter(snapshot, built.model, dtype, folder + saved_weights_file(config), shard_bytes(config)).write();
  const DType kept = config.training.precision == Precision::kFP64 ? DType::kF64 : DType::kF32;
  write_text_file(folder + saved_description_file(config),
                  config.lora.rank > 0 ? adapter_description(config, built.model)
                                       : companions.with_token_ids(hf_config_text(
                                             config.model, config.task, torch_name(dtype.value_or(kept)),
                                             config.data.labels)));
  companions.write(folder);
}

const std::vector<std::string>& hugging_face_files() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"adapter_config.json", "adapter_model.safetensors", "config.json",
                                    "model.safetensors", "model.safetensors.index.json"};
    all.insert(all.end(), companion_names().begin(), companion_names().end());
    return all;
  }();
  return names;
}

}  // namespace recollect
