// The page without its numbers, made from the files of launch/report/page during the build.
#pragma once

#include <string_view>

namespace recollect {

extern const std::string_view kPageTemplate;

}  // namespace recollect
