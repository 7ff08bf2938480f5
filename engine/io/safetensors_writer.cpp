#include "engine/io/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <utility>

#include "engine/core/error.h"
#include "engine/io/json.h"
#include "engine/io/safetensors_header.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

constexpr std::string_view kExtension = ".safetensors";

template <typename Stored, typename T>
void round_to(const T* values, std::byte* out, std::size_t count) {
  auto* stored = reinterpret_cast<Stored*>(out);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<Stored, double>)
      stored[i] = values[i];
    else
      stored[i] = Stored(static_cast<float>(values[i]));
  }
}

template <typename T>
void round_to(DType dtype, const T* values, std::byte* out, std::size_t count) {
  switch (dtype) {
    case DType::kF64:
      return round_to<double>(values, out, count);
    case DType::kF32:
      return round_to<float>(values, out, count);
    case DType::kBF16:
      return round_to<bf16>(values, out, count);
    case DType::kF16:
      return round_to<f16>(values, out, count);
    default:
      throw Error(ExitCode::kInternal, "write_converted() of an integer tensor");
  }
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, std::map<std::string, std::string> metadata)
    : path_(std::move(path)), metadata_(std::move(metadata)) {}

std::size_t SafetensorsWriter::declare(const std::string& name, DType dtype, std::vector<int64_t> shape) {
  require(!has_begun_, "declare() after the first write");
  require(name != "__metadata__", "a tensor cannot be called __metadata__");
  uint64_t bytes = size_of(dtype);
  bool overflow = shape.size() > kMaxSafetensorsRank;
  for (int64_t dim : shape)
    overflow |= dim < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes);
  require(!overflow,
          fmt::format("the shape {} of {} cannot be saved", shape_to_string(shape), escaped_name(name)));
  require(index_.emplace(name, slots_.size()).second,
          fmt::format("tensor {} declared twice", escaped_name(name)));
  slots_.push_back({name, dtype, std::move(shape), bytes});
  return slots_.size() - 1;
}

void SafetensorsWriter::begin() {
  if (has_begun_) return;
  lay_out();
  for (Part& part : parts_) {
    ReplacementFile file(part.path);
    file.reserve(part.total);
    part.file.emplace(std::move(file));
  }
  if (parts_.size() > 1) {
    const std::string text = index_text();
    ReplacementFile file(index_path());
    file.reserve(text.size());
    file.write_at(0, std::as_bytes(std::span(text)));
    index_file_.emplace(std::move(file));
  }
  has_begun_ = true;
}

// Assigns tensors to files in the order of declaration. A new file begins where the next tensor would exceed
// the limit.
void SafetensorsWriter::divide() {
  uint64_t filled = 0;
  std::size_t part = 0;
  for (Slot& slot : slots_) {
    if (most_ > 0 && filled > 0 && filled + slot.bytes > most_) ++part, filled = 0;
    slot.part = part;
    filled += slot.bytes;
  }
  parts_ = std::vector<Part>(part + 1);
  const std::string_view stem = std::string_view(path_).substr(0, path_.rfind(kExtension));
  for (std::size_t i = 0; i < parts_.size(); ++i)
    parts_[i].path =
        part == 0 ? path_ : fmt::format("{}-{:05}-of-{:05}{}", stem, i + 1, parts_.size(), kExtension);
}

void SafetensorsWriter::lay_out() {
  divide();
  for (std::size_t part = 0; part < parts_.size(); ++part) lay_out(part);
}

void SafetensorsWriter::lay_out(std::size_t part) {
  // Wide elements come first: every tensor is then aligned to its own element size.
  std::vector<Slot*> order;
  for (Slot& slot : slots_)
    if (slot.part == part) order.push_back(&slot);
  std::stable_sort(order.begin(), order.end(),
                   [](const Slot* a, const Slot* b) { return size_of(a->dtype) > size_of(b->dtype); });
  std::string text;
  uint64_t end = 0;
  try {
    // Assembled by hand, because the library's ordered object looks up names one by one.
    text = metadata_.empty() ? "{" : "{\"__metadata__\":" + nlohmann::json(metadata_).dump();
    for (Slot* slot : order) {
      slot->begin = end;
      require(!__builtin_add_overflow(end, slot->bytes, &end), "the file would not fit 64 bits");
      text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          text.size() > 1 ? "," : "", nlohmann::json(slot->name).dump(),
                          safetensors_name_of(slot->dtype), fmt::join(slot->shape, ","), slot->begin, end);
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(ExitCode::kInternal,
                fmt::format("a tensor name for {} is not valid UTF-8", parts_[part].path));
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  require(length <= kMaxSafetensorsHeader, "too many tensors for one safetensors file");
  for (Slot* slot : order) slot->begin += 8 + length;
  require(!__builtin_add_overflow(end, 8 + length, &parts_[part].total), "the file would not fit 64 bits");
  parts_[part].header = std::move(text);
}

std::string SafetensorsWriter::index_text() const {
  uint64_t bytes = 0, numbers = 0;
  nlohmann::json map = nlohmann::json::object();
  for (const Slot& slot : slots_) {
    bytes += slot.bytes;
    numbers += slot.bytes / size_of(slot.dtype);
    const std::string& path = parts_[slot.part].path;
    map[slot.name] = path.substr(path.rfind('/') + 1);
  }
  const nlohmann::json index = {{"metadata", {{"total_parameters", numbers}, {"total_size", bytes}}},
                                {"weight_map", std::move(map)}};
  return index.dump(2) + "\n";
}

void SafetensorsWriter::spare_newcomers() {
  for (Part& part : parts_) part.file.value().spare_newcomers();
  if (index_file_) index_file_->spare_newcomers();
}

void SafetensorsWriter::remove_others() const {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (parts_.size() > 1)
    fs::remove(path_, ignored);
  else
    fs::remove(index_path(), ignored);
  const fs::path folder = fs::path(path_).parent_path();
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const fs::path name = entry->path().filename();
    const bool ours = std::any_of(parts_.begin(), parts_.end(),
                                  [&](const Part& part) { return fs::path(part.path).filename() == name; });
    if (!ours && is_part_of_model(name.string())) fs::remove(entry->path(), ignored);
  }
}

SafetensorsWriter::Slot& SafetensorsWriter::slot_of(std::string_view name) {
  const auto found = index_.find(name);
  require(found != index_.end(), fmt::format("tensor {} was not declared", escaped_name(name)));
  return slots_[found->second];
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  const Slot& slot = slot_of(name);
  write_at(static_cast<std::size_t>(&slot - slots_.data()), slot.written, bytes);
}

void SafetensorsWriter::write_at(std::size_t index, uint64_t offset, std::span<const std::byte> bytes) {
  begin();
  Slot& slot = slots_.at(index);
  if (offset > slot.bytes || bytes.size() > slot.bytes - offset || bytes.size() > slot.bytes - slot.written)
    require(false, fmt::format("too many bytes for tensor {}", escaped_name(slot.name)));
  parts_[slot.part].file->write_at(slot.begin + offset, bytes);
  slot.written += bytes.size();
}

template <typename T>
void SafetensorsWriter::write_converted(std::string_view name, const T* values, std::size_t count) {
  const Slot& slot = slot_of(name);
  alignas(8) std::array<std::byte, 64 * 1024> piece{};
  const std::size_t piece_elements = piece.size() / size_of(slot.dtype);
  for (std::size_t done = 0; done < count;) {
    const std::size_t elements = std::min(piece_elements, count - done);
    round_to(slot.dtype, values + done, piece.data(), elements);
    write(name, std::span(piece).first(elements * size_of(slot.dtype)));
    done += elements;
  }
}

template void SafetensorsWriter::write_converted(std::string_view, const float*, std::size_t);
template void SafetensorsWriter::write_converted(std::string_view, const double*, std::size_t);

std::string SafetensorsWriter::head() const { return head_of(parts_.front()); }

std::string SafetensorsWriter::head_of(const Part& part) {
  const uint64_t length = part.header.size();
  std::string head(sizeof(length), '\0');
  std::memcpy(head.data(), &length, sizeof(length));
  return head + part.header;
}

void SafetensorsWriter::finish() {
  begin();
  for (const Slot& slot : slots_)
    if (slot.written != slot.bytes)
      require(false, fmt::format("tensor {} is incomplete: {} of {} bytes", escaped_name(slot.name),
                                 slot.written, slot.bytes));
  // While files are replaced, an old index would name files of two different models.
  std::error_code ignored;
  if (index_file_) std::filesystem::remove(index_path(), ignored);
  for (Part& part : parts_) {
    const std::string begin = head_of(part);
    part.file->write_at(0, std::as_bytes(std::span(begin)));
    part.file->commit();
  }
  if (index_file_) index_file_->commit();
  if (most_ > 0) remove_others();
}

bool is_part_of_model(std::string_view name) {
  constexpr std::string_view kPattern = "model-#####-of-#####.safetensors";
  return std::equal(name.begin(), name.end(), kPattern.begin(), kPattern.end(), [](char c, char pattern) {
    return pattern == '#' ? c >= '0' && c <= '9' : c == pattern;
  });
}

}  // namespace recollect
