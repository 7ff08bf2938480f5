// nlohmann's JSON, and what of it is compiled once. What writes a document and what reads one from memory are templates
// that take seconds to compile, ten under AddressSanitizer: json.cpp has them, all other files leave them out.
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
