#include "engine/io/json.h"

template class nlohmann::detail::serializer<nlohmann::json>;
template class nlohmann::detail::serializer<nlohmann::ordered_json>;
template class nlohmann::detail::lexer<nlohmann::json, recollect::JsonText>;
template class nlohmann::detail::parser<nlohmann::json, recollect::JsonText>;
template class nlohmann::detail::lexer<nlohmann::json, recollect::JsonChars>;
template class nlohmann::detail::parser<nlohmann::json, recollect::JsonChars>;
