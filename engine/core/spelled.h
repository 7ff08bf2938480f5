// Enumerations with a name for each value, as configurations write and read them.
#pragma once

#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

namespace recollect {

// The spellings of an enumeration, in the order of its values; specialised next to each one.
template <typename E>
inline constexpr int kSpellings = 0;

// Spellings of earlier versions, which are still read; specialised in the same way.
template <typename E>
inline constexpr std::array<std::pair<std::string_view, E>, 0> kOldSpellings{};

template <typename E>
concept Spelled = std::is_enum_v<E> && !std::is_same_v<decltype(kSpellings<E>), const int>;

template <Spelled E>
constexpr std::string_view name_of(E value) {
  return kSpellings<E>[static_cast<std::size_t>(value)];
}

}  // namespace recollect
