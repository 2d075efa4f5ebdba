#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: build.sh GOARCH
#
# Provides igzip, the deflate part of ISA-L, for GOARCH as a static library and
# prints, as its last line, the prefix that holds it. README.md says why no
# library of the distribution is used.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
name=isa-l arch=${1:?usage: build.sh amd64|arm64}
# shellcheck source=hack/engines/library.sh
. "$here/../engines/library.sh"
[ "$arch" != s390x ] || die "ISA-L is for amd64 and arm64; $arch has no assembly in it"
ensure make make
ensure_toolchain
[ "$arch" != amd64 ] || ensure nasm nasm

crate=$(sed -n 's/^isal-sys = "=\(.*\)"$/\1/p' "$here/Cargo.toml")
begin "$crate" libisal
vendor isal-sys "$crate" isa-l Makefile.unx

# Only what deflates is built. make takes the processor of the machine it runs on
# unless it is told.
variables=(units=igzip host_cpu="$processor" CC="$cc -fPIC" AR="${tools}ar")
if [ "$arch" = arm64 ]; then
	variables+=(arch=aarch64)
else
	variables+=(arch=)
fi

compile make -C "$source" -f Makefile.unx -j "$(nproc)" "${variables[@]}" lib isa-l.h

release=$(sed -n 's/^version ?= //p' "$source/make.inc")
root=$work/root
mkdir -p "$root/include/isa-l" "$root/lib/pkgconfig"
# Of its names only those with its prefix stay visible: zlib-ng, which is linked into the same program, has an
# adler32_neon too.
"${tools}ld" -r --whole-archive "$source/bin/isa-l.a" -o "$work/isal.o"
"${tools}objcopy" --wildcard --keep-global-symbol='isal_*' "$work/isal.o"
"${tools}ar" rcs "$root/lib/libisal.a" "$work/isal.o"
cp "$source/isa-l.h" "$root/include/"
cp "$source"/include/*.h "$root/include/isa-l/"
cat >"$root/lib/pkgconfig/libisal.pc" <<END
prefix=$prefix

Name: libisal
Description: igzip, the deflate part of ISA-L
Version: $release+${crate#*+}
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -lisal
END
finish "$root"
