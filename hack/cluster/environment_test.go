// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"testing"
)

func TestEnvironmentIsReadByAShell(t *testing.T) {
	e := environment{
		mode: "local", registry: "10.0.0.1:5000", kubectl: "/a folder/it's/kubectl",
		nodes:         map[string][]string{"east": {"10.0.0.2", "10.0.0.3"}, "west": {"10.0.0.4"}},
		snapshotClass: "fast",
		store: map[string]string{
			storeEndpoint: "https://10.0.0.1:7070", storeBucket: "lighterage", storeKey: "a$b c",
		},
	}
	script := e.render() + `printf '%s|' "$MODE" "$REGISTRY" "$EAST_NODES" "$WEST_NODES" "$KUBECTL" ` +
		`"$OBJECTSTORE_ENDPOINT" "$OBJECTSTORE_BUCKET" "$OBJECTSTORE_SECRET_ACCESS_KEY" "$OBJECTSTORE_CA_FILE" ` +
		`"$SNAPSHOT_STORAGE_CLASS"`
	got, err := exec.Command("/bin/sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	want := "local|10.0.0.1:5000|10.0.0.2,10.0.0.3|10.0.0.4|/a folder/it's/kubectl|" +
		"https://10.0.0.1:7070|lighterage|a$b c||fast|"
	if string(got) != want {
		t.Errorf("a shell reads %s, want %s", got, want)
	}
}
