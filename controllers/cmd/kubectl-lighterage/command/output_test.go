// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/check"
)

// hostile is what a tenant or another cluster may write into a name or a message.
const hostile = "evil\x1b]0;title\x07\x1b[2J\r\nok      forged \u202eline"

// outputs are what commands about clusters write, with hostile text wherever a cluster has a say.
func outputs(width int) map[string]func(io.Writer) error {
	state := v1alpha1.NodeProfileStatus{
		CPUModel: hostile, Kernel: hostile, AgentImage: hostile, Engines: []v1alpha1.EngineProfile{
			{Name: hostile}, {
				Name: "dfltcc", Verified: true, CompressBytesPerSecond: 12e9, DecompressBytesPerSecond: 15e9, Ratio: "3.14",
			},
		},
		Accelerator: &v1alpha1.NodeAccelerator{AcceleratorProfile: v1alpha1.AcceleratorProfile{
			State: hostile, Reason: hostile, Message: hostile,
		}},
	}
	return map[string]func(io.Writer) error{
		"check": func(to io.Writer) error {
			return writeChecked(to, &checked{Errors: 1, Results: []check.Result{
				{Category: "Trust", Check: "peers", Result: check.Error, Message: hostile, Hint: hostile, Docs: "docs/x.md"},
				{Category: "Trust", Check: "ca", Result: check.OK, Message: strings.Repeat("a long message of words ", 20)},
			}}, width)
		},
		"connect": func(to io.Writer) error {
			return writeJoined(to, []*joined{{
				From: hostile, To: hostile, Peer: hostile, Endpoint: hostile, Action: "created", Reason: hostile,
				KnownAs: hostile, Version: hostile, Grants: []string{hostile},
			}}, width)
		},
		"verify": func(to io.Writer) error {
			return writeFlows(to, []flow{{
				From: hostile, To: hostile, Duration: hostile, Engine: hostile, Inflated: hostile,
				Cost: &v1alpha1.CostStatus{Currency: hostile, CPU: hostile, Network: hostile},
			}, {From: hostile, To: hostile, Skipped: hostile}}, width)
		},
		"prove": func(to io.Writer) error { return writeProved(to, &proved{Node: "worker", Evidence: state}, width) },
	}
}

// TestHostileText: nothing that a cluster says commands a terminal, or looks like a line of the program. There is no
// colour either, whatever NO_COLOR and TERM are.
func TestHostileText(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm-256color")
	for name, write := range outputs(0) {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(strings.TrimSpace(line), "ok      forged") ||
				strings.ContainsFunc(line, func(r rune) bool { return !strconv.IsPrint(r) }) {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
}

// TestNarrow: at 40 columns no line is longer, and nothing is lost.
func TestNarrow(t *testing.T) {
	all := outputs(40)
	for name, write := range outputs(0) {
		var wide, narrow bytes.Buffer
		if err := errors.Join(write(&wide), all[name](&narrow)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(narrow.String()) {
			if utf8.RuneCountInString(line) > 41 {
				t.Errorf("%s: %q", name, line)
			}
		}
		words := func(b *bytes.Buffer) string { return strings.Join(strings.Fields(b.String()), " ") }
		if words(&wide) != words(&narrow) {
			t.Errorf("%s: wide\n%s\nnarrow\n%s", name, wide.String(), narrow.String())
		}
	}
}

// closedPipe is what a reader such as head leaves.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestPipe: a pipe that was closed ends a command with an error, and has no width.
func TestPipe(t *testing.T) {
	for name, write := range outputs(0) {
		if err := write(closedPipe{}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, format := range []string{"json", "yaml"} {
		c := choice{format}
		if err := c.write(closedPipe{}, checked{}, nil); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: %v", format, err)
		}
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer writer.Close()
	if width := columns(writer); width != 0 {
		t.Errorf("a pipe has %d columns", width)
	}
}
