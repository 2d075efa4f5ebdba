// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/node"
)

// TestProve: this machine's accelerator is proved exactly if the exit code is 0, and the output has the evidence.
func TestProve(t *testing.T) {
	var out bytes.Buffer
	code := run(t.Context(), []string{"prove"}, &out, io.Discard)
	var p proof
	if err := json.Unmarshal(out.Bytes(), &p); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if p.State == "" || p.Reason == "" || p.Version == "" || p.Architecture == "" ||
		(code == exitOK) != (p.State == hardware.Verified) || code != exitOK && code != exitFailed {
		t.Errorf("exit code %d: %s", code, &out)
	}
}

func TestProofOf(t *testing.T) {
	verdict := hardware.Verdict{
		State: hardware.Verified, Reason: hardware.Proved, Message: "seen", Levels: []codec.Level{codec.Levels()[0]},
		Compress: []hardware.Speed{{Level: codec.Levels()[0], Hardware: 9e9, Software: 1e8, HardwareRatio: 3,
			SoftwareRatio: 4}},
		InflateMinSize: 512, InflateHardware: 8e9, InflateSoftware: 4e8,
	}
	written := func() string {
		text, err := json.Marshal(proofOf(verdict, node.Host{Kernel: "6.1", CPUModel: "8561"}, time.Unix(0, 0)))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, want := range []string{
		`"state":"Verified"`, `"bytesPerSecond":9000000000`, `"softwareRatio":4`, `"inflateMinSize":512`, `"cpuModel":"8561"`,
		`"time":"1970-01-01T00:00:00Z"`,
	} {
		if text := written(); !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	verdict.InflateMinSize = hardware.NeverInflate
	if text := written(); strings.Contains(text, "nflate") {
		t.Errorf("it does not inflate: %s", text)
	}
}
