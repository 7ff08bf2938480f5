# cmake -P: which versions of cudnn-frontend are taken, and that the one that is fetched is. FETCH is the script that
# fetches it.
include(${CMAKE_CURRENT_LIST_DIR}/../../engine/ops/cuda/cudnn_frontend.cmake)

function(expect version checked)
  is_checked_frontend(${version} found)
  if(NOT found STREQUAL checked)
    message(SEND_ERROR "cudnn-frontend ${version}: ${found}")
  endif()
endfunction()

expect(none FALSE)
expect(1.9.0 FALSE)
expect(1.31.9 FALSE)
expect(1.32.0 TRUE)
expect(1.32.7 TRUE)
expect(1.33.0 FALSE)
expect(1.100.0 FALSE)
expect(2.0.0 FALSE)

set(header ${CMAKE_CURRENT_BINARY_DIR}/cudnn_frontend_version_of_test.h)
file(WRITE ${header} "#define CUDNN_FRONTEND_MAJOR_VERSION 1\n#define CUDNN_FRONTEND_MINOR_VERSION 33\n"
                     "#define CUDNN_FRONTEND_PATCH_VERSION 2\n#define CUDNN_FRONTEND_VERSION (10000)\n")
read_frontend_version(${header} version)
file(REMOVE ${header})
if(NOT version STREQUAL "1.33.2")
  message(SEND_ERROR "a header says ${version}")
endif()
read_frontend_version(${header} version)
if(NOT version STREQUAL "none")
  message(SEND_ERROR "no header says ${version}")
endif()

file(READ ${CMAKE_CURRENT_LIST_DIR}/../../launch/fetch_cudnn_frontend.sh fetch)
if(NOT fetch MATCHES "[^0-9.]([0-9]+\\.[0-9]+\\.[0-9]+)[^0-9.]")
  message(SEND_ERROR "launch/fetch_cudnn_frontend.sh names no version")
endif()
expect(${CMAKE_MATCH_1} TRUE)
