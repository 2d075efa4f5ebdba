// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/control"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const most = 1<<64 - 1

// largest is a report in which every number is as long as it gets.
func largest() *wirev1.Report {
	operations := func() *wirev1.Operations { return &wirev1.Operations{Operations: most, Bytes: most} }
	return &wirev1.Report{
		State:        wirev1.AgentState_AGENT_STATE_TRANSFERRING,
		Version:      "v0.0.0-20310203040506-0123456789ab+dirty",
		Architecture: "s390x",
		StartTime:    timestamppb.Now(),
		EndTime:      timestamppb.Now(),
		Progress: &wirev1.Progress{
			Files: most, Bytes: most, FilesTotal: most, BytesTotal: most, Scanned: true, UnchangedFiles: most,
			UnchangedBytes: most,
		},
		Compression: &wirev1.Compression{
			Codec: "deflate", Engine: "zlib-ng", Reason: "SoftwareDisabled", UncompressedBytes: most, CompressedBytes: most,
			Hardware: operations(), Software: operations(), Stored: operations(), Skipped: map[string]uint64{},
		},
		Decompression: &wirev1.Decompression{Hardware: operations(), Software: operations(), Fallback: operations()},
		Cpu:           &wirev1.CPU{SendNanos: most, ReceiveNanos: most, CompressNanos: most, DecompressNanos: most},
		WireBytes:     most,
	}
}

func TestTerminationFits(t *testing.T) {
	examples := func(r *wirev1.Report, kinds, length int) {
		for i := range kinds {
			o := &wirev1.Omission{What: fmt.Sprintf("Kind%d", i), Count: most}
			for range 5 {
				o.Examples = append(o.Examples, strings.Repeat("é", length/2))
			}
			r.Omissions = append(r.Omissions, o)
		}
	}
	tests := map[string]func(*wirev1.Report){
		"Plain":        func(*wirev1.Report) {},
		"Failure":      func(r *wirev1.Report) { r.Failure = &wirev1.Failure{Message: strings.Repeat("\x01", 1024)} },
		"LongFailure":  func(r *wirev1.Report) { r.Failure = &wirev1.Failure{Message: strings.Repeat("<é\">", 100_000)} },
		"NotUTF8":      func(r *wirev1.Report) { r.Failure = &wirev1.Failure{Message: strings.Repeat("\xff", 5000)} },
		"Examples":     func(r *wirev1.Report) { examples(r, 7, 256) },
		"LongExamples": func(r *wirev1.Report) { examples(r, 7, 100_000) },
		"ManyKinds":    func(r *wirev1.Report) { examples(r, 5000, 256) },
		"ManyReasons": func(r *wirev1.Report) {
			for i := range 5000 {
				r.Compression.Skipped[fmt.Sprintf("Reason%d", i)] = most
			}
		},
		"Everything": func(r *wirev1.Report) {
			examples(r, 500, 5000)
			r.Failure = &wirev1.Failure{Message: strings.Repeat("x", 50_000)}
			r.Detail = strings.Repeat("y", 50_000)
			r.Version = strings.Repeat("z", 50_000)
			for i := range 5000 {
				r.Compression.Skipped[fmt.Sprintf("Reason%d", i)] = most
			}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			r := largest()
			change(r)
			before := proto.CloneOf(r)
			path := filepath.Join(t.TempDir(), "termination-log")
			if err := control.WriteTermination(path, r); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(r, before) {
				t.Error("the report was changed")
			}
			b, err := os.ReadFile(path)
			if err != nil || len(b) > control.MaxTermination {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
			var got wirev1.Report
			if err := protojson.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			if got.State != r.State || got.WireBytes != r.WireBytes || !proto.Equal(got.Progress, r.Progress) ||
				!proto.Equal(got.Cpu, r.Cpu) {
				t.Errorf("the message is %s", b)
			}
			if r.Failure != nil && got.Failure.GetMessage() == "" {
				t.Error("the failure is lost")
			}
		})
	}
}

// However many receivers there are, how each ended is in the message as long as names are of a usual length.
func TestTerminationOfSeveral(t *testing.T) {
	for _, n := range []int{1, 8, 64} {
		r := &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Receivers: map[string][]byte{}}
		for i := range n {
			one := largest()
			one.State = wirev1.AgentState_AGENT_STATE_FAILED
			one.Failure = &wirev1.Failure{
				Reason: wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, Message: strings.Repeat("x", 900),
			}
			encoded, err := proto.Marshal(one)
			if err != nil {
				t.Fatal(err)
			}
			r.Receivers[fmt.Sprintf("cluster-%d", i)] = encoded
		}
		message, err := control.Termination(r)
		if err != nil || len(message) > control.MaxTermination {
			t.Fatalf("%d receivers: %d bytes, %v", n, len(message), err)
		}
		got := &wirev1.Report{}
		if err := protojson.Unmarshal(message, got); err != nil {
			t.Fatal(err)
		}
		if len(got.GetReceivers()) != n {
			t.Errorf("%d of %d receivers are left", len(got.GetReceivers()), n)
		}
		for name, encoded := range got.GetReceivers() {
			one := &wirev1.Report{}
			if err := proto.Unmarshal(encoded, one); err != nil {
				t.Fatal(err)
			}
			if one.GetFailure().GetReason() != wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST ||
				n == 1 && one.GetProgress().GetBytes() != most {
				t.Errorf("%d receivers: %s ended with %v", n, name, one)
			}
		}
	}
}
