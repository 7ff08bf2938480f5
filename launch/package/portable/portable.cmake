# Programs that start on systems older than the one they were made on (x86-64, glibc 2.31: Debian 11, Ubuntu 20.04): all but
# the C library is in the program, and of the C library it needs no more than 2.31 had. Open MPI is looked for when it
# is asked for (comm/mpi/mpi_api.h). make_portable(TARGET) after its libraries are given; the bundle is such a program.

set(RECOLLECT_OLDEST_GLIBC 2.31)

if(RECOLLECT_PORTABLE)  # the libraries that are not ours: before they are looked for
  set(Boost_USE_STATIC_LIBS ON)
  set(Boost_USE_STATIC_RUNTIME OFF)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libgomp.a OUTPUT_VARIABLE gomp
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(OpenMP_gomp_LIBRARY ${gomp} CACHE FILEPATH "")
  find_library(NETTLE_LIBRARY NAMES libnettle.a REQUIRED)
  find_library(PCRE2_LIBRARY NAMES libpcre2-8.a REQUIRED)
  find_library(RECOLLECT_YAML_LIBRARY NAMES libyaml-cpp.a REQUIRED)
  set(yaml_library ${RECOLLECT_YAML_LIBRARY})
  set(fmt_library fmt::fmt-header-only)
else()
  set(yaml_library yaml-cpp)
  set(fmt_library fmt::fmt)
endif()

# What the linker is given in the C library's place, made when something needs it.
function(add_old_glibc)
  if(TARGET recollect_old_glibc)
    return()
  endif()
  set(folder ${CMAKE_BINARY_DIR}/old_glibc)
  set(script ${CMAKE_SOURCE_DIR}/launch/package/portable/old_glibc.sh)
  add_custom_command(OUTPUT ${folder}/libc.so DEPENDS ${script} VERBATIM
                     COMMAND ${CMAKE_COMMAND} -E env CXX=${CMAKE_CXX_COMPILER} ${script} ${RECOLLECT_OLDEST_GLIBC} ${folder})
  add_custom_target(recollect_old_glibc_stubs DEPENDS ${folder}/libc.so)
  add_library(recollect_old_glibc OBJECT ${CMAKE_SOURCE_DIR}/launch/package/portable/new_in_glibc.cpp)
  set_target_properties(recollect_old_glibc PROPERTIES UNITY_BUILD OFF)
  target_compile_options(recollect_old_glibc PRIVATE -Wall -Wextra -Werror -O2)
  add_dependencies(recollect_old_glibc recollect_old_glibc_stubs)
endfunction()

function(make_portable target)
  add_old_glibc()
  add_dependencies(${target} recollect_old_glibc_stubs)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${CMAKE_BINARY_DIR}/old_glibc/libc.so)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:recollect_old_glibc>)
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--wrap=__libc_start_main
                                        -L${CMAKE_BINARY_DIR}/old_glibc)
endfunction()
