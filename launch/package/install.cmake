# What `cmake --install` puts where people look for programs: the program, what it writes of itself (its manual page, and
# completions for three shells), configurations, examples and documents.

install(TARGETS recollect RUNTIME DESTINATION bin)
install(DIRECTORY configs DESTINATION share/recollect)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION share/doc/recollect)
install(DIRECTORY docs examples DESTINATION share/doc/recollect USE_SOURCE_PERMISSIONS)
install(CODE [[
  function(install_printed folder name)  # what the program prints, given the words that follow
    set(made "${CMAKE_CURRENT_LIST_DIR}/printed/${folder}/${name}")
    file(MAKE_DIRECTORY "${CMAKE_CURRENT_LIST_DIR}/printed/${folder}")
    execute_process(COMMAND "$<TARGET_FILE:recollect>" ${ARGN} OUTPUT_FILE "${made}" COMMAND_ERROR_IS_FATAL ANY)
    file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/share/${folder}" TYPE FILE FILES "${made}")
  endfunction()
  install_printed(man/man1 recollect.1 man)
  install_printed(bash-completion/completions recollect completion bash)
  install_printed(fish/vendor_completions.d recollect.fish completion fish)
  install_printed(zsh/site-functions _recollect completion zsh)
  if("${CMAKE_INSTALL_PREFIX}" MATCHES "/usr$")  # where Debian's zsh looks
    install_printed(zsh/vendor-completions _recollect completion zsh)
  endif()]])
