#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: build.sh GOARCH
#
# Provides zlib-ng's native API for GOARCH as a static library and prints, as its
# last line, the prefix that holds it. README.md says which library is chosen.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
name=zlib-ng arch=${1:?usage: build.sh amd64|arm64|s390x}
# shellcheck source=hack/engines/library.sh
. "$here/../engines/library.sh"

# The oldest zlib-ng whose native API the Go binding is written for.
oldest=2.2.0

# What hack/engines/env.sh put into the search path earlier is ours, not the distribution's.
PKG_CONFIG_PATH=$(tr : '\n' <<<"${PKG_CONFIG_PATH:-}" | grep -v '/zlib-ng-[^/]*/[^/]*/lib/pkgconfig$' | paste -sd :) || true
export PKG_CONFIG_PATH

# For a sanitizer, whose build is one of its own.
extra=${LIGHTERAGE_ZLIBNG_CFLAGS:-}

# A library of the distribution serves when it is new enough and static. On s390x
# it does not: which levels reach the accelerator is fixed when it is compiled.
if [ "${LIGHTERAGE_ZLIBNG:-}" != bundled ] && [ -z "$extra" ] && [ "$arch" = "$host" ] && [ "$arch" != s390x ] &&
	command -v pkg-config >/dev/null && pkg-config --atleast-version="$oldest" zlib-ng 2>/dev/null &&
	[ -e "$(pkg-config --variable=libdir zlib-ng)/libz-ng.a" ]; then
	say "using the system's $(pkg-config --modversion zlib-ng)"
	pkg-config --variable=prefix zlib-ng
	exit
fi

ensure cmake cmake
ensure ninja ninja-build
ensure_toolchain

crate=$(sed -n 's/^libz-ng-sys = "=\(.*\)"$/\1/p' "$here/Cargo.toml")
begin "$crate" zlib-ng "$extra" "$here"/dfltcc_witness.*
vendor libz-ng-sys "$crate" src/zlib-ng CMakeLists.txt

options=(
	-DCMAKE_BUILD_TYPE=Release
	-DCMAKE_C_COMPILER="$cc"
	-DCMAKE_PROJECT_zlib_INCLUDE="$here/dfltcc_witness.cmake"
	-DCMAKE_POSITION_INDEPENDENT_CODE=ON
	-DCMAKE_INSTALL_PREFIX="$prefix"
	-DCMAKE_INSTALL_LIBDIR=lib
	-DBUILD_SHARED_LIBS=OFF
	-DBUILD_TESTING=OFF
	-DZLIB_COMPAT=OFF
	-DWITH_GZFILEOP=OFF
)
[ "$arch" = "$host" ] || options+=(-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$processor")
# Every level but 0 may use the accelerator; upstream's default is level 1 alone. And
# it gets a table of codes made for the data from a stream's first byte: upstream's
# default is fixed codes for the first call, and a block here is one call.
[ "$arch" = s390x ] && options+=(
	-DWITH_DFLTCC_DEFLATE=ON
	-DWITH_DFLTCC_INFLATE=ON
)
flags=$extra
[ "$arch" = s390x ] && flags="-DDFLTCC_LEVEL_MASK=0x3fe -DDFLTCC_FIRST_FHT_BLOCK_SIZE=0${extra:+ $extra}"
options+=(-DCMAKE_C_FLAGS="$flags")

library() {
	cmake -G Ninja -S "$source" -B "$work/build" "${options[@]}" &&
		DESTDIR=$work/root cmake --build "$work/build" --target install
}
compile library
finish "$work/root$prefix"
