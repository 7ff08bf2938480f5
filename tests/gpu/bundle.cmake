# What `cmake --install` puts into a folder: the GPU tests, which are the program too (main.cpp), and check.sh, which runs
# them where there is a GPU and neither compiler nor packages. NVIDIA's libraries stay out: the program finds them by
# itself (engine/nvidia/library_search.h). In preset bundle all other libraries are in the program, which starts on
# older systems too; the installation fails where it would not.

if(RECOLLECT_PORTABLE)
  make_portable(test_gpu)
endif()

install(TARGETS test_gpu RUNTIME DESTINATION bin)
if(RECOLLECT_PORTABLE)
  install(CODE "execute_process(COMMAND ${CMAKE_SOURCE_DIR}/launch/package/portable/check.sh ${RECOLLECT_OLDEST_GLIBC}
                                        \${CMAKE_INSTALL_PREFIX}/bin/test_gpu COMMAND_ERROR_IS_FATAL ANY)")
endif()
install(CODE [[file(CREATE_LINK test_gpu "${CMAKE_INSTALL_PREFIX}/bin/recollect" SYMBOLIC)]])
install(PROGRAMS tests/gpu/check.sh DESTINATION .)
install(PROGRAMS tests/gpu/check.py DESTINATION share)
install(FILES tests/gpu/lines.py DESTINATION share)
install(PROGRAMS tests/bench/gpu/compare.py tests/bench/gpu/torch_step.py DESTINATION share/bench)
install(FILES tests/gpu/tiny.yaml DESTINATION share)
foreach(golden plain odd deep)
  install(DIRECTORY tests/golden/${golden} DESTINATION share/golden)
endforeach()
