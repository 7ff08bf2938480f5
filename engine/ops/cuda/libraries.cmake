# What cudnn_attention.cpp is compiled with: cuDNN's headers, and cudnn-frontend's, which are headers alone. Nothing is
# linked: the libraries are looked for while the program runs. Where headers are missing, cudnn_attention_absent.cpp
# takes its place, and attention is the backend's plain one.

include(${CMAKE_CURRENT_LIST_DIR}/cudnn_frontend.cmake)

find_program(RECOLLECT_PYTHON python3)
if(RECOLLECT_PYTHON)
  execute_process(COMMAND ${RECOLLECT_PYTHON} -c "import sysconfig; print(sysconfig.get_paths()['purelib'])"
                  OUTPUT_VARIABLE python_packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${python_packages}/nvidia/cudnn/include)
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend_version.h
          HINTS ${CMAKE_SOURCE_DIR}/build/third_party/cudnn-frontend-${RECOLLECT_CUDNN_FRONTEND_VERSION}/include
                ${python_packages}/include)

read_frontend_version(${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h found_frontend)
is_checked_frontend(${found_frontend} frontend_is_checked)

set(found_cudnn "")
set(fused ${CMAKE_SOURCE_DIR}/engine/ops/cuda/cudnn_attention.cpp)
set(absent ${CMAKE_SOURCE_DIR}/engine/ops/cuda/cudnn_attention_absent.cpp)
if(CUDNN_INCLUDE_DIR AND frontend_is_checked)
  message(STATUS "cudnn-frontend ${found_frontend}: ${CUDNN_FRONTEND_INCLUDE_DIR}")
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h found_cudnn REGEX "define CUDNN_(MAJOR|MINOR|PATCHLEVEL) +[0-9]+$")
  string(REGEX REPLACE "#define [A-Z_]+ +" "" found_cudnn "${found_cudnn}")
  string(REPLACE ";" "." found_cudnn "${found_cudnn}")
  set_source_files_properties(${absent} PROPERTIES HEADER_FILE_ONLY ON)
  set_source_files_properties(
    ${fused} PROPERTIES COMPILE_DEFINITIONS "NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING;CUDNN_FRONTEND_SKIP_JSON_LIB"
                        COMPILE_OPTIONS "-O1;-isystem;${CUDNN_FRONTEND_INCLUDE_DIR};-isystem;${CUDNN_INCLUDE_DIR}")
else()
  message(WARNING "no fused attention in this build. cudnn.h: ${CUDNN_INCLUDE_DIR}. cudnn-frontend: "
                  "${found_frontend}, needed is one from ${RECOLLECT_CUDNN_FRONTEND_VERSION} on and before "
                  "${RECOLLECT_CUDNN_FRONTEND_END}, whose workspace is known: launch/fetch_cudnn_frontend.sh fetches it "
                  "to build/third_party; then configure again, with -UCUDNN_FRONTEND_INCLUDE_DIR")
  set_source_files_properties(${fused} PROPERTIES HEADER_FILE_ONLY ON)
endif()

# What --version says.
set_source_files_properties(
  ${CMAKE_SOURCE_DIR}/engine/ops/cuda/versions.cpp
  PROPERTIES COMPILE_DEFINITIONS "RECOLLECT_CUDNN=\"${found_cudnn}\";RECOLLECT_CUDNN_FRONTEND=\"${found_frontend}\"")
