// nlohmann's JSON library, with its slowest templates compiled only once. The templates that write a document
// and those that parse one from memory take seconds to compile, ten under AddressSanitizer. json.cpp
// instantiates them; all other files declare them extern.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace recollect {

using JsonText = nlohmann::detail::iterator_input_adapter<std::string::const_iterator>;
using JsonChars = nlohmann::detail::iterator_input_adapter<const char*>;

}  // namespace recollect

extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::serializer<nlohmann::ordered_json>;
extern template class nlohmann::detail::lexer<nlohmann::json, recollect::JsonText>;
extern template class nlohmann::detail::parser<nlohmann::json, recollect::JsonText>;
extern template class nlohmann::detail::lexer<nlohmann::json, recollect::JsonChars>;
extern template class nlohmann::detail::parser<nlohmann::json, recollect::JsonChars>;
