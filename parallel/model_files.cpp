#include "parallel/model_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <type_traits>

#include "engine/core/error.h"
#include "engine/core/normals.h"
#include "engine/ops/cpu_level.h"
#include "parallel/lora.h"
#include "parallel/quantised_files.h"

namespace recollect {

namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string_view without_prefix(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

bool are_equal(const SafetensorsSet& source, const std::string& a, const std::string& b) {
  constexpr int64_t kRows = 64;  // at a time
  const std::vector<int64_t>& shape = source.at(a).shape;
  if (shape != source.at(b).shape) return false;
  const int64_t rows = shape.empty() ? 1 : shape.front();
  int64_t columns = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) columns *= shape[i];
  std::vector<double> one(kRows * columns), other(kRows * columns);
  for (int64_t row = 0; row < rows; row += kRows) {
    const int64_t count = std::min(kRows, rows - row);
    source.read_as(a, one.data(), row, count);
    source.read_as(b, other.data(), row, count);
    if (std::memcmp(one.data(), other.data(), count * columns * sizeof(double)) != 0) return false;
  }
  return true;
}

// Names of the source that are this parameter's: the one that is read, and others.
std::vector<std::string> names_of(const FileNames& files, const SafetensorsSet& source,
                                  const std::string& parameter) {
  std::vector<std::string> bare = {parameter, files.older_name(parameter)}, names;
  for (const auto& [second_name, tied_to] : files.tied)
    if (tied_to == parameter) bare.push_back(second_name);
  for (const std::string& name : bare)
    for (const std::string& given : {files.in_file(name), name})
      if (!name.empty() && source.find(given) && std::find(names.begin(), names.end(), given) == names.end())
        names.push_back(given);
  return names;
}

// What is said of every tensor says no more than the first of them.
std::string first_lines(const std::string& problems) {
  constexpr std::ptrdiff_t kMost = 24;
  std::size_t end = 0;
  for (std::ptrdiff_t line = 0; line < kMost && end != std::string::npos; ++line)
    end = problems.find('\n', end + 1);
  if (end == std::string::npos) return problems;
  const auto left = std::count(problems.begin() + static_cast<std::ptrdiff_t>(end), problems.end(), '\n');
  return problems.substr(0, end) + "\n  and " + std::to_string(left) + " more";
}

// "module." of a DistributedDataParallel, or "_orig_mod." of a compiled model, before every name.
std::string wrapper_of(const SafetensorsSet& source) {
  const std::vector<std::string> names = source.names();
  for (const std::string_view wrapper : {"module.", "_orig_mod."})
    if (!names.empty() && std::all_of(names.begin(), names.end(),
                                      [&](const std::string& name) { return name.starts_with(wrapper); }))
      return std::string(wrapper);
  return "";
}

// Adds what is wrong to `problems`.
std::vector<std::string> find_parts(const FileNames& files, const Parameter& p, const SafetensorsSet& source,
                                    std::string& problems, bool& other_head) {
  std::vector<std::string> names;
  std::string missing;
  for (const Parameter::FileTensor& tensor : p.file_tensors()) {
    const std::vector<std::string> given = names_of(files, source, tensor.name);
    if (given.empty()) {
      missing += "\n  missing: " + tensor.name;
      continue;
    }
    const std::string& name = given.front();
    if (p.is_stored() && is_quantised_in(source, name)) {  // whoever reads it looks at its shape
      names.push_back(name);
      continue;
    }
    const std::vector<int64_t>& shape = source.at(name).shape;
    if (shape != p.file_shape(tensor) && p.may_be_missing) other_head = true;
    if (shape != p.file_shape(tensor))
      problems += "\n  misshapen: " + name + " is " + shape_text(shape) + ", the model's is " +
                  shape_text(p.file_shape(tensor));
    for (std::size_t i = 1; i < given.size(); ++i)
      if (!are_equal(source, name, given[i]))
        problems +=
            "\n  not the same: " + given[i] + " differs from " + name + ", and both are one parameter";
    names.push_back(name);
  }
  if (!missing.empty() && !(p.may_be_missing && names.empty())) problems += missing;
  return names;
}

}  // namespace

std::vector<std::vector<std::string>> find_tensors(const Model& model, const SafetensorsSet& source) {
  const FileNames& files = model.files;
  std::set<std::string, std::less<>> expected;
  for (const Parameter& p : model.parameters)
    for (const Parameter::FileTensor& tensor : p.file_tensors()) {
      if (p.adapter) continue;
      expected.insert(tensor.name);
      expected.insert(files.older_name(tensor.name));
      if (p.is_stored())
        for (std::string& name : names_beside(tensor.name)) expected.insert(std::move(name));
    }
  std::string problems;
  bool other_head = false;  // of another number of classes
  for (const std::string& name : source.names()) {
    const std::string_view bare = without_prefix(name, files.prefix);
    if (!expected.contains(bare) && !files.passed_over(bare)) problems += "\n  unknown: " + name;
  }
  std::vector<std::vector<std::string>> names;
  for (const Parameter& p : model.parameters)
    names.push_back(p.adapter ? std::vector<std::string>()
                              : find_parts(files, p, source, problems, other_head));
  if (!problems.empty())
    throw Error(ExitCode::kInput, "the weights do not fit the model:" + first_lines(problems),
                !wrapper_of(source).empty() ? "every name begins with " + wrapper_of(source) +
                                                  ", which a wrapper of PyTorch's puts there: save the model "
                                                  "that is in it, with save_pretrained"
                : other_head
                    ? "model.num_labels, which data.labels sets too, says how many classes the head has: "
                      "those of the file, or take the head's tensors out of it to begin with a new one"
                    : "check model.* against the config.json beside the weights");
  return names;
}

std::vector<std::vector<std::string>> find_adapter_tensors(const Model& model, const SafetensorsSet& source) {
  std::set<std::string, std::less<>> expected;
  std::vector<std::vector<std::string>> names;
  std::string problems;
  for (const Parameter& p : model.parameters) {
    std::vector<std::string>& of_parameter = names.emplace_back();
    if (!p.saved_with_adapters) continue;
    for (const Parameter::FileTensor& tensor : p.file_tensors()) {
      const std::string& name = of_parameter.emplace_back(adapter_tensor_name(model.files, tensor.name));
      expected.insert(name);
      const TensorEntry* const found = source.find(name);
      if (!found)
        problems += "\n  missing: " + name;
      else if (found->shape != p.file_shape(tensor))
        problems += "\n  misshapen: " + name + " is " + shape_text(found->shape) + ", the model's is " +
                    shape_text(p.file_shape(tensor));
    }
  }
  for (const std::string& name : source.names())
    if (!expected.contains(name)) problems += "\n  unknown: " + name;
  if (!problems.empty())
    throw Error(
        ExitCode::kInput, "the adapters do not fit the model:" + problems,
        "they are of another base model, or lora.* says of others than adapter_config.json beside them");
  return names;
}

namespace {

// What is too far from 0, as float, is the first that is not of the draws of other places.
template <typename T>
void draw_anew(const Parameter& p, const DrawKey& key, uint64_t element, T& number) {
  constexpr uint64_t kOtherDraw = uint64_t{1} << 24;  // beyond all places
  const auto bound = static_cast<float>(p.init_cutoff * p.init_std);
  DrawKey other = key;
  while (std::abs(static_cast<float>(number)) > bound) {
    other.place += kOtherDraw;
    number = static_cast<T>(p.init_std * normals(other, element / 4)[element % 4]);
  }
}

template <typename T>
T wave(const Parameter& p, uint64_t element) {
  const auto columns = static_cast<uint64_t>(p.columns), column = element % columns;
  const double angle =
      static_cast<double>(element / columns) /
      std::pow(10000.0, 2.0 * static_cast<double>(column / 2) / static_cast<double>(columns));
  return static_cast<float>(column % 2 == 0 ? std::sin(angle) : std::cos(angle));
}

}  // namespace

template <typename T>
void draw(const Parameter& p, uint64_t place, int64_t row, int64_t first_column, int64_t columns,
          uint64_t seed, T* out) {
  const DrawKey key{.seed = seed, .place = place};
  if (p.init == Parameter::Init::kZero || p.init == Parameter::Init::kOne) {
    std::fill_n(out, columns, p.init == Parameter::Init::kOne ? T{1} : T{0});
    return;
  }
  const auto first = static_cast<uint64_t>((p.drawn_behind + row) * p.columns + first_column);
  if (p.init == Parameter::Init::kWaves) {
    for (int64_t c = 0; c < columns; ++c) out[c] = wave<T>(p, first + static_cast<uint64_t>(c));
    return;
  }
  const auto cut = [&](int64_t count) {
    for (int64_t c = 0; c < count && p.init_cutoff > 0; ++c)
      draw_anew(p, key, first + static_cast<uint64_t>(c), out[c]);
  };
  if constexpr (std::is_same_v<T, float>) {
    if (p.init == Parameter::Init::kNormal) {
      cpu_level().draw_normals(key, first, columns, p.init_std, out);
      return cut(columns);
    }
  }
  uint64_t block = ~uint64_t{0};
  std::array<double, 4> drawn{};
  for (int64_t c = 0; c < columns; ++c) {
    const uint64_t element = first + static_cast<uint64_t>(c);
    if (element / 4 != block) {
      block = element / 4;
      drawn = p.init == Parameter::Init::kNormal ? normals(key, block) : uniforms(key, block);
    }
    out[c] = static_cast<T>(p.init_std * drawn[element % 4]);
  }
  cut(columns);
}

template void draw(const Parameter&, uint64_t, int64_t, int64_t, int64_t, uint64_t, float*);
template void draw(const Parameter&, uint64_t, int64_t, int64_t, int64_t, uint64_t, double*);

std::vector<uint64_t> drawn_places(const std::vector<Parameter>& parameters) {
  std::vector<uint64_t> places;
  uint64_t drawn = 0;
  for (const Parameter& p : parameters) places.push_back((drawn += p.drawn_behind == 0) - 1);
  return places;
}

}  // namespace recollect
