#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: env=$(test/dfltcc/env.sh) && eval "$env" && go test -tags "$LIGHTERAGE_TAGS" ...
#
# Prints the environment in which a test program for s390x contains the software
# model of DFLTCC: that of hack/engines/env.sh, with a copy of zlib-ng that finds
# the instruction and brings the model along. Never for what is released.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
cc=s390x-linux-gnu-gcc

die() {
	echo "dfltcc: $*" >&2
	exit 1
}

"$root/hack/ensure-tools.sh" s390x qemu >&2
env=$("$root/hack/engines/env.sh" --all s390x)
eval "$env"
library=$("$root/hack/zlib-ng/build.sh" s390x | tail -n 1)

key=$({ cat "$here"/env.sh "$here"/model/*; echo "$library"; "$cc" --version | head -n 1; } | sha256sum | cut -c 1-12)
prefix=${LIGHTERAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lighterage}/dfltcc-model-$key

# mark_stfle OBJECT puts the mark that the model knows, b2ff, where a disassembler
# sees STFLE, b2b0. A search for the bytes would find them in other instructions.
mark_stfle() {
	local object=$1 section address offset
	while read -r section address; do
		offset=$(s390x-linux-gnu-readelf -SW "$object" | sed 's/^ *\[ *[0-9]*\] *//' |
			awk -v s="$section" '$1 == s { print $4 }')
		offset=$((0x$offset + 0x$address))
		[ "$(od -An -tx1 -j "$offset" -N 2 "$object")" = " b2 b0" ] || die "no STFLE at byte $offset of $object"
		printf '\262\377' | dd of="$object" bs=1 seek="$offset" conv=notrunc status=none
		echo "$object"
	done < <(s390x-linux-gnu-objdump -d "$object" | awk '
		/^Disassembly of section/ { section = $4; sub(/:$/, "", section) }
		$6 == "stfle" { sub(/:$/, "", $1); print section, $1 }')
}

if [ ! -e "$prefix" ]; then
	mkdir -p "$(dirname "$prefix")"
	work=$(mktemp -d "$prefix.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	mkdir "$work/objects"
	cp -r "$library" "$work/prefix"

	cd "$work/objects"
	s390x-linux-gnu-ar x "$work/prefix/lib/libz-ng.a"
	marked=$(for object in *.o; do mark_stfle "$object"; done)
	[ -n "$marked" ] || die "zlib-ng in $library does not ask for the instruction"
	s390x-linux-gnu-ar r "$work/prefix/lib/libz-ng.a" $(sort -u <<<"$marked") 2>/dev/null

	for source in "$here"/model/*.c; do
		"$cc" -std=gnu11 -O2 -Wall -Wextra -Werror -c "$source" -o "$work/$(basename "$source" .c).o"
	done
	s390x-linux-gnu-ar rcs "$work/prefix/lib/libdfltcc-model.a" "$work"/*.o
	cp "$here/model/dfltcc_model.h" "$work/prefix/include/"

	sed -i "s|^prefix=.*|prefix=$prefix|" "$work/prefix/lib/pkgconfig/zlib-ng.pc"
	mv -T "$work/prefix" "$prefix" 2>/dev/null || [ -e "$prefix" ] || die "could not put the library into $prefix"
fi

# The option --wrap is also what pulls the model out of its archive; see
# model/signal.c. Go's build cache tells builds apart by these variables, and does
# not look at what pkg-config says.
echo "export CGO_CFLAGS='-O2 -g -I$prefix/include'"
echo "export CGO_LDFLAGS='-O2 -g -L$prefix/lib -lz-ng -ldfltcc-model -Wl,--wrap=x_cgo_notify_runtime_init_done'"
grep -v -e PKG_CONFIG_PATH -e LIGHTERAGE_TAGS <<<"$env"
printf 'export PKG_CONFIG_PATH=%q\n' "$prefix/lib/pkgconfig:$PKG_CONFIG_PATH"
printf 'export LIGHTERAGE_TAGS=%q\n' "$LIGHTERAGE_TAGS,netgo,osusergo,dfltcc"
