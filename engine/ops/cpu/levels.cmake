# The cpu backend once more for each set of instructions in RECOLLECT_LEVELS (engine/ops/cpu_isa.h), in a namespace of
# its own, as one object of which nothing is seen from outside but level(): an inline function that was compiled with
# AVX-512 is not to stand in for everybody's. That is why groups of sections, in which compilers put inline functions for
# the linker to choose one, are dissolved, and why all other names become local; those that GCC calls unique would not.
# Sums are fetched ahead to be written (PREFETCHW), which every processor with AVX2 knows or passes over, though no level of
# x86-64 has it: without it what fetches them leaves them shared.
set(baseline_options -march=x86-64)
set(avx2_options -march=x86-64-v3 -mprfchw)
set(avx512_options -march=x86-64-v4 -mprfchw)
set(avx512_bf16_options -march=x86-64-v4 -mprfchw -mavx512bf16)
set(amx_options -march=x86-64-v4 -mprfchw -mavx512bf16 -mamx-tile -mamx-bf16)

set(levels)
foreach(isa ${RECOLLECT_LEVELS})
  string(APPEND levels "LEVEL(${isa})\n")
  set(level recollect_cpu_${isa})
  add_library(${level} OBJECT ${kernel_sources})
  set_target_properties(${level} PROPERTIES RECOLLECT_ISA ${isa})
  target_link_libraries(${level} PRIVATE recollect_settings OpenMP::OpenMP_CXX fmt::fmt nlohmann_json::nlohmann_json
                                         yaml-cpp)
  target_compile_options(${level} PRIVATE ${${isa}_options} -fno-gnu-unique)
  target_compile_definitions(${level} PRIVATE cpu=cpu_${isa})

  string(LENGTH cpu_${isa} letters)
  set(whole ${CMAKE_BINARY_DIR}/cpu_${isa}.o)
  add_custom_command(
    OUTPUT ${whole} DEPENDS ${level} $<TARGET_OBJECTS:${level}> COMMAND_EXPAND_LISTS VERBATIM
    COMMAND ${CMAKE_LINKER} -r --force-group-allocation -o ${whole} $<TARGET_OBJECTS:${level}>
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=_ZN9recollect${letters}cpu_${isa}5levelEv ${whole})
  set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_sources(recollect_engine PRIVATE ${whole})
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/levels/cpu_levels.inc CONTENT "${levels}")
set_source_files_properties(engine/ops/cpu_level.cpp PROPERTIES COMPILE_DEFINITIONS RECOLLECT_LEVELS
                            INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/levels)
