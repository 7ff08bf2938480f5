#include "tests/gpu/fake_cuda/memory.h"

#include <sys/mman.h>

#include <cstring>

namespace recollect::fake_cuda {

namespace {

constexpr std::size_t kPage = 4096, kAlignment = 256;
constexpr int kNoNumber = 0xFF, kBehind = 0xA5;

std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

std::byte* reserve_pages(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

std::byte* at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }
std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }
std::uintptr_t page_of(std::uintptr_t address) { return address / kPage * kPage; }

}  // namespace

Memory::~Memory() {
  for (const auto& [base, piece] : pieces_)
    if (!piece.mapped) munmap(at(page_of(base)) - kPage, piece.pages + 2 * kPage);
  for (const auto& [base, bytes] : addresses_) munmap(at(base) - kPage, bytes + 2 * kPage);
}

// At the end of its pages, so that one byte too far is not ours; but for the alignment.
std::byte* Memory::reserve(std::size_t bytes, Place place, int device) {
  const std::size_t pages = rounded(bytes, kPage);
  std::byte* const low = reserve_pages(pages + 2 * kPage);
  if (!low) return nullptr;
  mprotect(low + kPage, pages, PROT_READ | PROT_WRITE);
  std::byte* const base = low + kPage + pages - rounded(bytes, kAlignment);
  std::memset(low + kPage, kBehind, pages);
  std::memset(base, kNoNumber, bytes);
  const Piece piece{.bytes = bytes, .pages = pages, .place = place, .device = device};
  pieces_[number(base)] = piece;
  if (opened_ == 0) protect(number(base), piece);
  return base;
}

bool Memory::release(std::byte* base, Place place) {
  const auto found = pieces_.find(number(base));
  if (found == pieces_.end() || found->second.place != place || found->second.mapped) return false;
  const Piece piece = found->second;
  std::byte* const low = at(page_of(number(base)));
  mprotect(low, piece.pages, PROT_READ);
  look_behind(base, piece);
  munmap(low - kPage, piece.pages + 2 * kPage);
  pieces_.erase(found);
  return true;
}

void Memory::look_behind(const std::byte* base, const Piece& piece) {
  const std::byte *const low = at(page_of(number(base))), *const high = low + piece.pages;
  const auto look = [&](const std::byte* from, const std::byte* to, const char* where) {
    for (; from < to; ++from)
      if (*from != std::byte{kBehind})
        damage_ = "something was written " + std::string(where) + " a piece of " +
                  std::to_string(piece.bytes) + " bytes";
  };
  look(low, base, "before");
  look(base + piece.bytes, high, "behind");
}

std::byte* Memory::reserve_addresses(std::size_t bytes) {
  std::byte* const low = reserve_pages(bytes + 2 * kPage);
  if (low) addresses_[number(low + kPage)] = bytes;
  return low ? low + kPage : nullptr;
}

bool Memory::free_addresses(std::byte* base, std::size_t bytes) {
  const auto found = addresses_.find(number(base));
  if (found == addresses_.end() || found->second != bytes || pieces_.contains(number(base))) return false;
  munmap(base - kPage, bytes + 2 * kPage);
  addresses_.erase(found);
  return true;
}

bool Memory::map(std::byte* base, std::size_t bytes, int device) {
  const auto found = addresses_.find(number(base));
  if (found == addresses_.end() || found->second != bytes || pieces_.contains(number(base))) return false;
  mprotect(base, bytes, PROT_READ | PROT_WRITE);
  std::memset(base, kNoNumber, bytes);
  const Piece piece{.bytes = bytes,
                    .pages = bytes,
                    .place = Place::kDevice,
                    .device = device,
                    .mapped = true,
                    .accessible = false};
  pieces_[number(base)] = piece;
  protect(number(base), piece);
  return true;
}

bool Memory::give_access(std::byte* base, std::size_t bytes, int device) {
  const auto found = pieces_.find(number(base));
  if (found == pieces_.end() || !found->second.mapped || found->second.bytes != bytes ||
      found->second.device != device)
    return false;
  found->second.accessible = true;
  protect(number(base), found->second);
  return true;
}

bool Memory::unmap(std::byte* base, std::size_t bytes) {
  const auto found = pieces_.find(number(base));
  if (found == pieces_.end() || !found->second.mapped || found->second.bytes != bytes) return false;
  mprotect(base, bytes, PROT_NONE);
  pieces_.erase(found);
  return true;
}

Memory::Pieces::const_iterator Memory::containing(const void* address) const {
  auto after = pieces_.upper_bound(number(address));
  if (after == pieces_.begin()) return pieces_.end();
  --after;
  return number(address) < after->first + after->second.bytes ? after : pieces_.end();
}

const Piece* Memory::find(const void* address) const {
  const auto found = containing(address);
  return found == pieces_.end() ? nullptr : &found->second;
}

std::optional<Place> Memory::place_of(const void* address, std::size_t bytes) const {
  const auto found = containing(address);
  if (found != pieces_.end()) {
    if (!found->second.accessible || number(address) + bytes > found->first + found->second.bytes) return {};
    return found->second.place;
  }
  const auto next = pieces_.lower_bound(number(address));
  if (next != pieces_.end() && next->first < number(address) + bytes) return {};
  return Place::kPageable;
}

std::size_t Memory::used(int device) const {
  std::size_t bytes = 0;
  for (const auto& [base, piece] : pieces_)
    if (piece.place == Place::kDevice && piece.device == device) bytes += piece.pages;
  return bytes;
}

void Memory::protect(std::uintptr_t base, const Piece& piece) const {
  if (piece.place != Place::kDevice) return;
  const bool open = opened_ > 0 && piece.accessible;
  mprotect(at(page_of(base)), piece.pages, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void Memory::open() {
  if (++opened_ > 1) return;
  for (const auto& [base, piece] : pieces_) protect(base, piece);
}

void Memory::close() {
  if (--opened_ > 0) return;
  for (const auto& [base, piece] : pieces_) protect(base, piece);
}

}  // namespace recollect::fake_cuda
