#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Shows a Transfer's progress, a line for each change, until it is Complete or Failed, or needs somebody.
#   progress.sh CLUSTER NAMESPACE NAME [SECONDS]

# shellcheck source=hack/demo/lib.sh
. "$(dirname "$0")/lib.sh"
cluster=$1 namespace=$2 name=$3 deadline=$((SECONDS + ${4:-900})) last=

fields='{.status.phase}|{.status.progress.percent}|{.status.progress.files}|{.status.progress.filesTotal}|{.status.progress.bytes}|{.status.progress.bytesTotal}|{.status.progress.bytesPerSecond}|{.status.progress.eta}|{.status.compression.savedPercent}|{.status.compression.engine}|{.status.run.node}|{.status.conditions[?(@.type=="Complete")].status}|{.status.conditions[?(@.type=="Failed")].status}|{.status.conditions[?(@.type=="Stalled")].status}|{.status.conditions[?(@.type=="Ready")].message}'

while :; do
  line=$("$cluster" -n "$namespace" get transfer "$name" -o jsonpath="$fields")
  IFS='|' read -r phase percent files files_total bytes bytes_total rate eta saved engine node complete failed stalled message <<<"$line"
  if [ "$line" != "$last" ]; then
    if [ -n "$files_total" ] && [ "${phase:-}" != Starting ] && [ "${phase:-}" != Opening ]; then
      filled=$((${percent:-0} * 30 / 100))
      bar=$(printf '%*s' "$filled" '' | tr ' ' '#')$(printf '%*s' $((30 - filled)) '' | tr ' ' '.')
      compression="saved ${saved:-0}% by ${engine:--}"
      case $saved in -*) compression="grew by ${saved#-}%" ;; esac
      if [ "$engine" = none ]; then compression='not compressed'; fi
      printf '%s  %-12s [%s] %3d%%  %6d/%d files  %5d/%d MiB  %4d MiB/s  eta %-5s %s on %s\n' "$(date +%T)" "$phase" "$bar" \
        "${percent:-0}" "${files:-0}" "$files_total" $((${bytes:-0} / 1048576)) $((${bytes_total:-0} / 1048576)) $((${rate:-0} / 1048576)) \
        "${eta:--}" "$compression" "${node:--}"
    else
      printf '%s  %-12s %s\n' "$(date +%T)" "${phase:-Pending}" "$message"
    fi
    last=$line
  fi
  [ "$complete" != True ] || exit 0
  if [ "$failed" = True ] || [ "$stalled" = True ]; then
    echo "The Transfer needs somebody: $message" >&2
    exit 1
  fi
  if [ $SECONDS -ge $deadline ]; then
    echo "Not complete in time: $message" >&2
    exit 1
  fi
  sleep 0.5
done
