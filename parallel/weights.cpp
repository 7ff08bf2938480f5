#include "parallel/weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <set>

#include "engine/core/philox.h"

namespace recollect {

namespace {

constexpr uint32_t kInitLayer = 0xfffffd;  // RandomKey::layer of weight initialisation

constexpr int64_t kBlockElements = 1 << 17;  // of a parameter, on their way to the device

// Numbers as `dtype` stores them, in memory that the next call takes again.
const void* converted(const std::vector<double>& from, DType dtype, std::vector<std::byte>& memory) {
  memory.resize(from.size() * size_of(dtype));
  const Tensor to{memory.data(), {static_cast<int64_t>(from.size())}, dtype};
  const auto into = [&]<typename T>(T* out) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if constexpr (sizeof(T) == 2)
        out[i] = T(static_cast<float>(from[i]));
      else
        out[i] = static_cast<T>(from[i]);
    }
  };
  switch (dtype) {
    case DType::kF64:
      return from.data();
    case DType::kF32:
      into(to.as<float>());
      return memory.data();
    case DType::kBF16:
      into(to.as<bf16>());
      return memory.data();
    case DType::kF16:
      into(to.as<f16>());
      return memory.data();
    default:
      throw Error(ExitCode::kInternal, "a weight is not floating");
  }
}

// Standard normals of elements 4 * block ... 4 * block + 3: Box-Muller on the four words of one Philox block.
std::array<double, 4> normals(uint64_t seed, uint64_t parameter, uint64_t block) {
  const auto words = philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                 kInitLayer << 8, static_cast<uint32_t>(parameter)},
                                static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  std::array<double, 4> out{};
  for (int i = 0; i < 4; i += 2) {
    const double radius = std::sqrt(-2.0 * std::log((words[i] + 0.5) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * ((words[i + 1] + 0.5) * 0x1p-32);
    out[i] = radius * std::cos(angle);
    out[i + 1] = radius * std::sin(angle);
  }
  return out;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string_view without_prefix(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

}  // namespace

// To the master and to the compute copy, a block of rows at a time.
void Weights::write_rows(std::size_t index, const FillRows& fill) const {
  const Parameter& p = model_.parameters[index];
  const Place& place = places_[index];
  const int64_t rows = p.local_rows(mesh_.tensor_size()), columns = p.local_columns(mesh_.tensor_size());
  const int64_t together = std::max<int64_t>(1, kBlockElements / columns);
  std::vector<double> numbers;
  std::vector<std::byte> memory;
  for (int64_t first = 0; first < rows; first += together) {
    const int64_t count = std::min(together, rows - first);
    numbers.assign(count * columns, 0.0);
    fill(first, count, numbers.data());
    for (const Tensor& to : {place.master, place.value}) {
      const std::size_t size = size_of(to.dtype);
      memory_.write(to, converted(numbers, to.dtype, memory), first * columns * size, numbers.size() * size);
      if (p.value == p.master) break;
    }
  }
}

void Weights::initialize(uint64_t seed) const {
  for (std::size_t index = 0; index < model_.parameters.size(); ++index) initialize_one(index, seed);
}

void Weights::initialize_one(std::size_t index, uint64_t seed) const {
  const Parameter& p = model_.parameters[index];
  if (p.init == Parameter::Init::kZero) return;  // the arena is zero already
  const int64_t columns = p.local_columns(mesh_.tensor_size());
  write_rows(index, [&](int64_t first, int64_t count, double* out) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < count; ++r)
      initialize_row(p, places_[index].drawn, first + r, seed, out + r * columns);
  });
}

void Weights::initialize_row(const Parameter& p, uint64_t place, int64_t r, uint64_t seed,
                             double* out) const {
  const int rank = mesh_.tensor_rank(), size = mesh_.tensor_size();
  const int64_t columns = p.local_columns(size), row = p.place_of_row(r, rank, size).row;
  if (row >= p.rows) return;
  uint64_t block = ~uint64_t{0};
  std::array<double, 4> normal{};
  for (int64_t c = 0; c < columns; ++c) {
    const uint64_t element = (p.drawn_behind + row) * p.columns + p.whole_column(c, rank, size);
    if (p.init == Parameter::Init::kNormal && element / 4 != block)
      normal = normals(seed, place, block = element / 4);
    out[c] = p.init == Parameter::Init::kOne ? 1.0 : p.init_std * normal[element % 4];
  }
}

std::vector<std::string> Weights::load(const SafetensorsSet& source, uint64_t seed) const {
  const FileNames& files = model_.files;
  std::set<std::string, std::less<>> expected;
  for (const Parameter& p : model_.parameters)
    for (const Parameter::FileTensor& tensor : p.file_tensors()) {
      expected.insert(tensor.name);
      expected.insert(files.older_name(tensor.name));
    }
  std::string problems;
  for (const std::string& name : source.names()) {
    const std::string_view bare = without_prefix(name, files.prefix);
    if (!expected.contains(bare) && !files.passed_over(bare)) problems += "\n  unknown: " + name;
  }
  std::vector<std::vector<std::string>> names;
  for (const Parameter& p : model_.parameters) names.push_back(find_tensors(p, source, problems));
  if (!problems.empty())
    throw Error(ExitCode::kInput, "the weights do not fit the model:" + problems,
                "check model.* against the config.json beside the weights");
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) {
      load_one(i, source, names[i]);
      continue;
    }
    initialize_one(i, seed);
    missing.push_back(model_.parameters[i].name);
  }
  return missing;
}

const TensorEntry* Weights::find_tensor(const SafetensorsSet& source, std::string& name) const {
  const FileNames& files = model_.files;
  for (const std::string& bare : {name, files.older_name(name)})
    for (const std::string& given : {files.in_file(bare), bare})
      if (const TensorEntry* entry = bare.empty() ? nullptr : source.find(given)) {
        name = given;
        return entry;
      }
  return nullptr;
}

std::vector<std::string> Weights::find_tensors(const Parameter& p, const SafetensorsSet& source,
                                               std::string& problems) const {
  std::vector<std::string> names;
  std::string missing;
  for (const Parameter::FileTensor& tensor : p.file_tensors()) {
    std::string name = tensor.name;
    const TensorEntry* entry = find_tensor(source, name);
    if (!entry) {
      missing += "\n  missing: " + tensor.name;
      continue;
    }
    if (entry->shape != p.file_shape(tensor))
      problems += "\n  misshapen: " + name + " is " + shape_text(entry->shape) + ", the model's is " +
                  shape_text(p.file_shape(tensor));
    names.push_back(name);
  }
  if (!missing.empty() && !(p.may_be_missing && names.empty())) problems += missing;
  return names;
}

void Weights::load_one(std::size_t index, const SafetensorsSet& source,
                       const std::vector<std::string>& names) const {
  const Parameter& p = model_.parameters[index];
  if (p.transposed_in_file) return load_transposed(index, source, names);
  const int rank = mesh_.tensor_rank(), size = mesh_.tensor_size();
  const int64_t columns = p.local_columns(size), first_column = p.whole_column(0, rank, size);
  const std::vector<Parameter::FileTensor> tensors = p.file_tensors();
  std::vector<double> whole(columns < p.columns ? p.columns
                                                : 0);  // a row, where this rank has a part of each
  write_rows(index, [&](int64_t first, int64_t count, double* out) {  // this rank's rows and no others
    for (int64_t r = 0; r < count; ++r, out += columns) {
      const Parameter::RowPlace place = p.place_of_row(first + r, rank, size);
      if (place.row >= p.rows) continue;
      double* const row = whole.empty() ? out : whole.data();
      source.read_as(names[place.tensor], row, place.row - tensors[place.tensor].first_row, 1);
      if (!whole.empty()) std::copy_n(row + first_column, columns, out);
    }
  });
}

void Weights::load_transposed(std::size_t index, const SafetensorsSet& source,
                              const std::vector<std::string>& names) const {
  const Parameter& p = model_.parameters[index];
  const int rank = mesh_.tensor_rank(), size = mesh_.tensor_size();
  const int64_t columns = p.local_columns(size);
  const std::vector<Parameter::FileTensor> tensors = p.file_tensors();
  std::vector<double> read(p.rows * p.columns);  // one tensor after the other
  for (std::size_t i = 0; i < tensors.size(); ++i)
    source.read_as(names[i], read.data() + tensors[i].first_row * p.columns);
  write_rows(index, [&](int64_t first, int64_t count, double* out) {
    for (int64_t r = first; r < first + count; ++r, out += columns) {
      const Parameter::RowPlace place = p.place_of_row(r, rank, size);
      if (place.row >= p.rows) continue;
      const Parameter::FileTensor& tensor = tensors[place.tensor];
      const double* const from = read.data() + tensor.first_row * p.columns + (place.row - tensor.first_row);
      for (int64_t c = 0; c < columns; ++c) out[c] = from[p.whole_column(c, rank, size) * tensor.rows];
    }
  });
}

}  // namespace recollect
