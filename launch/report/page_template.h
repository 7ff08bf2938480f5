// The page as it is before the numbers are in it, made from the files of launch/report/page while building.
#pragma once

#include <string_view>

namespace recollect {

extern const std::string_view kPageTemplate;

}  // namespace recollect
