# Writes a source with the commit that FROM is at, where TO holds another: cmake -DFROM=FOLDER -DTO=FILE -P commit.cmake
# "+changes" behind it: tracked files differ from that commit.
cmake_minimum_required(VERSION 3.25)
set(commit unknown)
find_program(GIT git)
if(GIT AND EXISTS ${FROM}/.git)  # a copy of the sources inside another repository is not at that one's commit
  set(git ${GIT} --no-optional-locks -C ${FROM})
  execute_process(COMMAND ${git} rev-parse --short=12 HEAD
                  OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(commit ${head})
    execute_process(COMMAND ${git} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
    if(changes)
      string(APPEND commit "+changes")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${TO} @ONLY CONTENT [[// Made by launch/cli/commit.cmake.
#include "launch/cli/version.h"

namespace recollect {

const std::string_view kCommit = "@commit@";

}  // namespace recollect
]])
