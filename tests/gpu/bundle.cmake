# What `cmake --install` puts into a folder: the GPU tests, which are the program too (main.cpp), what they need of this
# machine's libraries, and check.sh, which runs them where there is a GPU and neither compiler nor packages. NVIDIA's
# libraries stay out: the program finds them by itself (engine/nvidia/library_search.h).

set_target_properties(test_gpu PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
target_link_options(test_gpu PRIVATE -Wl,--disable-new-dtags)  # RPATH is also where the libraries find each other

install(TARGETS test_gpu RUNTIME_DEPENDENCY_SET bundle RUNTIME DESTINATION bin)
# The C library and what belongs to it are the other machine's: they must fit its kernel and its loader.
install(RUNTIME_DEPENDENCY_SET bundle DESTINATION lib
        PRE_EXCLUDE_REGEXES "ld-linux" "lib(c|m|dl|rt|pthread|resolv|util)\\.so" "libcuda\\.so" "libnvidia"
        POST_EXCLUDE_REGEXES "/cuda[^/]*/")
# A library with a path of its own, as Open MPI's have, would look for the others there and not in the folder.
install(CODE [[
  file(GLOB libraries "${CMAKE_INSTALL_PREFIX}/lib/*.so*")
  foreach(library ${libraries})
    if(NOT IS_SYMLINK "${library}")
      file(RPATH_REMOVE FILE "${library}")
    endif()
  endforeach()]])
install(CODE [[file(CREATE_LINK test_gpu "${CMAKE_INSTALL_PREFIX}/bin/recollect" SYMBOLIC)]])
install(PROGRAMS tests/gpu/check.sh DESTINATION .)
install(PROGRAMS tests/bench/gpu/compare.py tests/bench/gpu/torch_step.py DESTINATION share/bench)
install(FILES tests/gpu/tiny.yaml DESTINATION share)
foreach(golden plain odd deep)
  install(DIRECTORY tests/golden/${golden} DESTINATION share/golden)
endforeach()
