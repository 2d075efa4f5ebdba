// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
)

// program is a compressor as users run it, on files in memory. It reads its input
// through the system and computes a checksum, which our engines leave to frame.
type program struct {
	command string
	args    []string
	// like is the level of ours that it is compared with, codec its format.
	like  codec.Level
	codec codec.ID
	// threads makes it use several.
	threads func(n int) []string
	inflate []string
}

func programs() []program {
	single := func(flag string) func(int) []string {
		return func(n int) []string { return []string{fmt.Sprint(flag, n)} }
	}
	igzip := func(n int) []string { return []string{"-T", fmt.Sprint(n)} }
	all := []program{
		{
			command: "igzip", args: []string{"-1"}, like: codec.Fast, codec: codec.Deflate, threads: igzip,
			inflate: []string{"-d"},
		},
		{
			command: "pigz", args: []string{"-1"}, like: codec.Fast, codec: codec.Deflate, threads: single("-p"),
			inflate: []string{"-d"},
		},
		{command: "pigz", args: []string{"-6"}, like: codec.Balanced, codec: codec.Deflate, threads: single("-p")},
		{
			command: "zstd", args: []string{"-1"}, like: codec.Fast, codec: codec.Zstd, threads: single("-T"),
			inflate: []string{"-d"},
		},
		{command: "zstd", args: []string{"-3"}, like: codec.Balanced, codec: codec.Zstd, threads: single("-T")},
	}
	return slices.DeleteFunc(all, func(p program) bool {
		_, err := exec.LookPath(p.command)
		return err != nil
	})
}

func (p program) name() string { return p.command + " " + strings.Join(p.args, " ") }

// mostCopies is how often a program may be given the same file, so that it works long
// enough for its start not to matter.
const mostCopies = 64

// compressing runs the program with so many threads.
func (p program) compressing(ctx context.Context, d data, threads int, least time.Duration) (contender, error) {
	args := append(append(slices.Clone(p.args), p.threads(threads)...), "-c", "-q")
	out, err := countOutput(ctx, p.command, append(args, d.path))
	if err != nil {
		return contender{}, err
	}
	return p.running(p.name(), args, d.path, int64(len(d.plain)), out, least), nil
}

// inflating runs the program on a file that it compressed itself.
func (p program) inflating(ctx context.Context, d data, dir string, least time.Duration) (contender, error) {
	path := fmt.Sprintf("%s/%s.%s", dir, d.name, map[codec.ID]string{codec.Deflate: "gz", codec.Zstd: "zst"}[p.codec])
	file, err := os.Create(path)
	if err != nil {
		return contender{}, fmt.Errorf("make a file for %s: %w", p.command, err)
	}
	defer file.Close()
	compress := exec.CommandContext(ctx, p.command, append(slices.Clone(p.args), "-c", "-q", d.path)...)
	compress.Stdout = file
	if err := compress.Run(); err != nil {
		return contender{}, fmt.Errorf("%s: %w", compress, err)
	}
	info, err := file.Stat()
	if err != nil {
		return contender{}, fmt.Errorf("look at the output of %s: %w", compress, err)
	}
	args := append(append(slices.Clone(p.inflate), p.threads(1)...), "-c", "-q")
	return p.running(p.command+" -d", args, path, info.Size(), int64(len(d.plain)), least), nil
}

// running is the program on copies of one file, of which each gives out bytes; as many
// copies as take it the least time.
func (p program) running(name string, args []string, path string, in, out int64, least time.Duration) contender {
	copies := 1
	warm := false
	return contender{name: name, pass: func(ctx context.Context) (sample, error) {
		for {
			cmd := exec.CommandContext(ctx, p.command, append(slices.Clone(args), slices.Repeat([]string{path}, copies)...)...)
			var complaint bytes.Buffer
			cmd.Stderr = &complaint
			start := time.Now()
			if err := cmd.Run(); err != nil {
				return sample{}, fmt.Errorf("%s: %w\n%s", cmd, err, complaint.String())
			}
			s := sample{
				wall: time.Since(start), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), in: in * int64(copies),
				out: out * int64(copies),
			}
			if warm || s.cpu >= least || copies == mostCopies {
				warm = true
				return s, nil
			}
			copies = min(max(copies*2, int(float64(copies)*float64(least)/float64(max(s.cpu, time.Millisecond)))+1), mostCopies)
		}
	}}
}

// countOutput returns how many bytes a command writes.
func countOutput(ctx context.Context, command string, args []string) (int64, error) {
	cmd := exec.CommandContext(ctx, command, args...)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", cmd, err)
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%s: %w", cmd, err)
	}
	n, err := io.Copy(io.Discard, pipe)
	if err != nil {
		return 0, fmt.Errorf("read the output of %s: %w", cmd, err)
	}
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%s: %w", cmd, err)
	}
	return n, nil
}
