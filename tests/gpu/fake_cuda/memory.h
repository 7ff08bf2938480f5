// The memory of fake devices, and pinned memory of the host. A page that cannot be touched lies behind each piece and
// one before; what is between its end and that page is looked at when it is given back. New memory holds no numbers
// (0xFF), and what has been given back cannot be touched. The host cannot touch a device's memory at all: that is open
// only while a device works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace recollect::fake_cuda {

enum class Place { kPageable, kPinned, kDevice };

struct Piece {
  std::size_t bytes = 0, pages = 0;  // `pages` from the address on, without the guards
  Place place = Place::kPageable;
  int device = 0;
  bool mapped = false;     // by the driver, from a handle
  bool accessible = true;  // a mapped one is not before somebody is given access
};

class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Null where the system refuses. A multiple of 256.
  std::byte* reserve(std::size_t bytes, Place place, int device);
  // False where no piece of that place begins there.
  bool release(std::byte* base, Place place);

  // Addresses of the driver's own: reserved, then mapped to memory of a device, as one piece.
  std::byte* reserve_addresses(std::size_t bytes);
  bool free_addresses(std::byte* base, std::size_t bytes);
  bool map(std::byte* base, std::size_t bytes, int device);
  bool give_access(std::byte* base, std::size_t bytes, int device);
  bool unmap(std::byte* base, std::size_t bytes);

  // The piece that an address lies in.
  const Piece* find(const void* address) const;
  // Where so many bytes lie. Nothing where they begin in a piece and end outside of it, or it holds none of them, or is
  // not accessible.
  std::optional<Place> place_of(const void* address, std::size_t bytes) const;
  std::size_t used(int device) const;
  std::size_t pieces() const { return pieces_.size(); }
  // What was found out about a piece when it was given back; empty where nothing was.
  const std::string& damage() const { return damage_; }

  // Devices begin to work, or are done with it.
  void open();
  void close();

 private:
  using Pieces = std::map<std::uintptr_t, Piece>;

  Pieces::const_iterator containing(const void* address) const;
  void protect(std::uintptr_t base, const Piece& piece) const;
  void look_behind(const std::byte* base, const Piece& piece);

  Pieces pieces_;                                    // by address
  std::map<std::uintptr_t, std::size_t> addresses_;  // reserved ones
  std::string damage_;
  int opened_ = 0;
};

}  // namespace recollect::fake_cuda
