#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: env=$(objectstores.sh) && eval "$env"
#
# Prepares the S3 servers that tests run against, once, in ${XDG_CACHE_HOME:-~/.cache}/lighterage/objectstores, and
# prints where they are: versitygw, a Go module, and moto, a Python package.
set -euo pipefail

versitygw=v1.8.0
moto=5.2.5
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lighterage/objectstores

if [ ! -x "$cache/versitygw-$versitygw/versitygw" ]; then
	echo "Building versitygw $versitygw, which takes some minutes" >&2
	CGO_ENABLED=0 GOBIN=$cache/versitygw-$versitygw go install -trimpath "github.com/versity/versitygw/cmd/versitygw@$versitygw" >&2
fi
if [ ! -x "$cache/moto-$moto/bin/moto_server" ]; then
	command -v python3 >/dev/null || { echo "objectstores: Python 3 is missing; install it: apt-get install python3 python3-venv" >&2; exit 1; }
	echo "Installing moto $moto" >&2
	rm -rf "$cache/moto-$moto"
	python3 -m venv "$cache/moto-$moto" >&2 || { echo "objectstores: Python cannot make an environment; install it: apt-get install python3-venv" >&2; exit 1; }
	"$cache/moto-$moto/bin/pip" install --quiet --disable-pip-version-check "moto[server]==$moto" >&2
fi
echo "export LIGHTERAGE_VERSITYGW='$cache/versitygw-$versitygw/versitygw' LIGHTERAGE_MOTO='$cache/moto-$moto/bin/moto_server'"
