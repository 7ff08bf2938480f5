# Makes one C++ string of the page: cmake -DFROM=FOLDER -DTO=FILE -P embed.cmake
# The order of the scripts is that in which they use each other.
cmake_minimum_required(VERSION 3.25)
file(READ ${FROM}/page.html page)
file(READ ${FROM}/style.css style)
foreach(name format data chart strip view hover lengths training headline tables profile live main)
  file(READ ${FROM}/${name}.js part)
  string(APPEND script "${part}\n")
endforeach()
string(REPLACE "@style@" "${style}" page "${page}")
string(REPLACE "@script@" "${script}" page "${page}")
file(WRITE ${TO} "// Made of launch/report/page by embed.cmake.
#include \"launch/report/page_template.h\"

namespace recollect {

const std::string_view kPageTemplate = R\"----(${page})----\";

}  // namespace recollect
")
