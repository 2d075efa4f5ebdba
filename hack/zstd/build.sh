#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: build.sh GOARCH
#
# Provides libzstd for GOARCH as a static library and prints, as its last line,
# the prefix that holds it. README.md says where it comes from.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
name=zstd arch=${1:?usage: build.sh amd64|arm64|s390x}
# shellcheck source=hack/engines/library.sh
. "$here/../engines/library.sh"
ensure_toolchain

# Of the formats older than the standard none is read. One thread works on a
# block; the agent runs several blocks at once.
flags=(-O3 -fPIC -DNDEBUG -DZSTD_LEGACY_SUPPORT=0 -DXXH_NAMESPACE=ZSTD_)
# For a sanitizer, whose build is one of its own.
extra=${LIGHTERAGE_ZSTD_CFLAGS:-}

crate=$(sed -n '/^name = "zstd-sys"$/{n;s/^version = "\(.*\)"$/\1/p;}' "$here/Cargo.lock")
version=${crate#*+zstd.}
begin "$version" libzstd "$extra"
vendor zstd-sys "$crate" zstd/lib zstd.h

mkdir -p "$work/objects" "$work/root/include" "$work/root/lib/pkgconfig"
library() {
	# shellcheck disable=SC2086 # a list of flags
	printf '%s\0' "$source"/{common,compress,decompress}/*.c "$source"/decompress/*.S |
		xargs -0 -P "$(nproc)" -I FILE sh -c 'object=$1/$(basename "$2").o; shift 2; exec "$@" -o "$object"' - \
			"$work/objects" FILE "$cc" "${flags[@]}" $extra -c FILE &&
		"${tools}ar" rcs "$work/root/lib/libzstd.a" "$work/objects"/*.o
}
compile library

cp "$source/zstd.h" "$source/zstd_errors.h" "$work/root/include/"
cat >"$work/root/lib/pkgconfig/libzstd.pc" <<END
prefix=$prefix

Name: libzstd
Description: Zstandard, static
Version: $version
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -lzstd
END
finish "$work/root"
