// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bufio"
	"context"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
)

//go:embed peers
var loopSources embed.FS

// loop is a program in C that uses a library as its authors would.
type loop struct {
	library, path, version string
	// level is the library's own for one of ours, and whether it has one.
	level func(codec.Level) (int, bool)
}

// buildLoops compiles the loops over the libraries that are installed, with what
// pkg-config says of them, as our engines are.
func buildLoops(ctx context.Context, dir string) ([]loop, error) {
	if err := os.CopyFS(dir, loopSources); err != nil {
		return nil, fmt.Errorf("write the sources of the loops in C: %w", err)
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	var all []loop
	for _, l := range []loop{
		// Those of the engine: equal output proves that they are.
		{library: "zlib-ng", level: func(l codec.Level) (int, bool) {
			return map[codec.Level]int{codec.Fast: 1, codec.Balanced: 4, codec.High: 7}[l], true
		}},
		{library: "isa-l", level: func(l codec.Level) (int, bool) { return 1, l == codec.Fast }},
	} {
		module := map[string]string{"zlib-ng": "zlib-ng", "isa-l": "libisal"}[l.library]
		version, err := exec.CommandContext(ctx, "pkg-config", "--modversion", module).Output()
		if err != nil {
			fmt.Fprintf(os.Stderr, "left out: a loop in C over %s, which pkg-config does not find\n", l.library)
			continue
		}
		l.version = strings.TrimSpace(string(version))
		flags, err := exec.CommandContext(ctx, "pkg-config", "--cflags", "--libs", module).Output()
		if err != nil {
			return nil, fmt.Errorf("ask pkg-config for %s: %w", module, err)
		}
		l.path = filepath.Join(dir, l.library+"-loop")
		args := []string{"-O2", "-Wall", "-Wextra", "-Werror", "-o", l.path, filepath.Join(dir, "peers", l.library+".c")}
		if out, err := exec.CommandContext(ctx, compiler, append(args,
			strings.Fields(string(flags))...)...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("compile the loop over %s: %w\n%s", l.library, err, out)
		}
		all = append(all, l)
	}
	return all, nil
}

func (l loop) name() string { return l.library + " in C" }

func (l loop) compressing(ctx context.Context, level codec.Level, d data, block int) (contender, error) {
	n, _ := l.level(level)
	return l.start(
		ctx, fmt.Sprintf("%s %v", l.name(), level), int64(len(d.plain)), "deflate", strconv.Itoa(n), strconv.Itoa(block),
		d.path,
	)
}

func (l loop) inflating(ctx context.Context, pack string, size int64, block int) (contender, error) {
	return l.start(ctx, l.name(), size, "inflate", "0", strconv.Itoa(block), pack)
}

// start runs the program, which makes a pass for each line that it gets.
func (l loop) start(ctx context.Context, name string, in int64, args ...string) (contender, error) {
	cmd := exec.CommandContext(ctx, l.path, args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return contender{}, fmt.Errorf("start %s: %w", name, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return contender{}, fmt.Errorf("start %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return contender{}, fmt.Errorf("start %s: %w", name, err)
	}
	answers := bufio.NewReader(stdout)
	return contender{
		name: name,
		pass: func(context.Context) (sample, error) {
			if _, err := io.WriteString(stdin, "\n"); err != nil {
				return sample{}, fmt.Errorf("ask for a pass: %w", err)
			}
			var cpu, wall, out int64
			if _, err := fmt.Fscanln(answers, &cpu, &wall, &out); err != nil {
				return sample{}, fmt.Errorf("read what a pass took: %w", err)
			}
			return sample{cpu: time.Duration(cpu), wall: time.Duration(wall), in: in, out: out}, nil
		},
		close: func() error {
			return errors.Join(stdin.Close(), cmd.Wait())
		},
	}, nil
}

// writePack writes compressed blocks in the form that the loops read.
func writePack(path string, blocks []packed) error {
	var all []byte
	for _, b := range blocks {
		all = binary.NativeEndian.AppendUint32(all, uint32(b.plain))
		all = binary.NativeEndian.AppendUint32(all, uint32(len(b.bytes)))
		all = append(all, b.bytes...)
	}
	if err := os.WriteFile(path, all, 0o600); err != nil {
		return fmt.Errorf("write a pack for the loops: %w", err)
	}
	return nil
}
