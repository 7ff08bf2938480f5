// Keys of DeepSpeed, OSLO, Megatron and Transformers that sound like ours and are not: whoever brings one is
// told what to write. Names that mean exactly one of our keys are aliases, in keys.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace recollect {

struct ForeignKey {
  std::string_view name;
  std::string_view of;
  std::string_view advice;
};

// All of them; they stand in section activation_checkpointing.
std::span<const ForeignKey> foreign_keys();

// What to write instead of that key, or "" where it is none of theirs.
std::string foreign_key_advice(std::string_view section, std::string_view name);

// The same for a value of one of their keys that is an alias here: not all of its values mean what ours do.
std::string foreign_value_advice(std::string_view section, std::string_view name, std::string_view value);

}  // namespace recollect
