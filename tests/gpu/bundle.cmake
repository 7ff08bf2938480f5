# What `cmake --install BUILD --component bundle` puts into a folder: the GPU tests, which are the program too (main.cpp), and
# check.sh, which runs them where there is a GPU and neither compiler nor packages. NVIDIA's libraries stay out: the program
# finds them by itself (engine/nvidia/library_search.h). In preset bundle all other libraries are in the program, which starts
# on older systems too; the installation fails where it would not.

if(RECOLLECT_PORTABLE)
  make_portable(test_gpu)
endif()

set(apart COMPONENT bundle EXCLUDE_FROM_ALL)
install(TARGETS test_gpu RUNTIME DESTINATION bin ${apart})
if(RECOLLECT_PORTABLE)
  install(CODE "execute_process(COMMAND ${CMAKE_SOURCE_DIR}/launch/package/portable/check.sh ${RECOLLECT_OLDEST_GLIBC}
                                        \${CMAKE_INSTALL_PREFIX}/bin/test_gpu COMMAND_ERROR_IS_FATAL ANY)" ${apart})
endif()
install(CODE [[file(CREATE_LINK test_gpu "${CMAKE_INSTALL_PREFIX}/bin/recollect" SYMBOLIC)]] ${apart})
install(PROGRAMS tests/gpu/check.sh DESTINATION . ${apart})
install(PROGRAMS tests/gpu/check.py DESTINATION share ${apart})
install(FILES tests/gpu/lines.py DESTINATION share ${apart})
foreach(script compare.py torch_step.py trainer_step.py)
  install(PROGRAMS tests/bench/gpu/${script} DESTINATION share/bench ${apart})
endforeach()
install(FILES tests/bench/gpu/peers.py DESTINATION share/bench ${apart})
install(FILES tests/gpu/tiny.yaml DESTINATION share ${apart})
foreach(golden plain odd deep)
  install(DIRECTORY tests/golden/${golden} DESTINATION share/golden ${apart})
endforeach()
