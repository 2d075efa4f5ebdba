# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Adds dfltcc_witness.c to zlib-ng without a change to its files: build.sh makes
# cmake include this after project(), and the calls wait for the targets.
set(DFLTCC_WITNESS "${CMAKE_CURRENT_LIST_DIR}/dfltcc_witness")
cmake_language(DEFER CALL target_sources zlib-ng PRIVATE "${DFLTCC_WITNESS}.c")
cmake_language(DEFER CALL install FILES "${DFLTCC_WITNESS}.h" DESTINATION include)
