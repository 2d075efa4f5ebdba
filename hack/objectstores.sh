#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: env=$(objectstores.sh PROGRAM...) && eval "$env"
#
# Prepares programs that speak S3, once, in ${XDG_CACHE_HOME:-~/.cache}/lighterage/objectstores, and prints where they
# are. PROGRAM is versitygw, a server, or rclone or restic, clients, which are Go modules; or moto, a server in Python.
set -euo pipefail

versitygw=v1.8.0
moto=5.2.5
rclone=v1.76.0
restic=v0.18.1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lighterage/objectstores

# module NAME VERSION PACKAGE
module() {
	if [ ! -x "$cache/$1-$2/$1" ]; then
		echo "Building $1 $2, which takes some minutes" >&2
		CGO_ENABLED=0 GOBIN=$cache/$1-$2 go install -trimpath "$3@$2" >&2
	fi
	echo "export LIGHTERAGE_${1^^}='$cache/$1-$2/$1'"
}

for program in "$@"; do
	case $program in
	versitygw) module versitygw "$versitygw" github.com/versity/versitygw/cmd/versitygw ;;
	rclone) module rclone "$rclone" github.com/rclone/rclone ;;
	restic) module restic "$restic" github.com/restic/restic/cmd/restic ;;
	moto)
		if [ ! -x "$cache/moto-$moto/bin/moto_server" ]; then
			"$(dirname "${BASH_SOURCE[0]}")/ensure-tools.sh" python
			echo "Installing moto $moto" >&2
			rm -rf "$cache/moto-$moto"
			python3 -m venv "$cache/moto-$moto" >&2
			"$cache/moto-$moto/bin/pip" install --quiet --disable-pip-version-check "moto[server]==$moto" >&2
		fi
		echo "export LIGHTERAGE_MOTO='$cache/moto-$moto/bin/moto_server'"
		;;
	*)
		echo "objectstores: unknown program $program" >&2
		exit 1
		;;
	esac
done
