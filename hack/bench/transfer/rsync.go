// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

// rsync pushes to an rsync daemon without TLS on loopback.
func rsync(name string, options ...string) contender {
	return contender{name, func(
		ctx context.Context, dir, source, destination string,
	) (func(context.Context) (moved, error), error) {
		address, err := harness.FreeAddress()
		if err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(address)
		config := filepath.Join(dir, "rsyncd.conf")
		text := fmt.Sprintf(
			"use chroot = no\nuid = %d\ngid = %d\n[data]\npath = %s\nread only = false\n", os.Getuid(), os.Getgid(), destination,
		)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("write the daemon's configuration: %w", err)
		}
		if _, err := harness.StartListening(ctx, exec.CommandContext(
			ctx, "rsync", "--daemon", "--no-detach", "--address=127.0.0.1", "--port="+port, "--config="+config,
		), address); err != nil {
			return nil, err
		}
		return func(ctx context.Context) (moved, error) {
			args := append(slices.Clone(options), "--stats", source+"/", "rsync://"+address+"/data/")
			out, err := exec.CommandContext(ctx, "rsync", args...).CombinedOutput()
			if err != nil {
				return moved{}, fmt.Errorf("rsync %s: %w\n%s", strings.Join(args, " "), err, out)
			}
			wire, err := rsyncBytes(out)
			return moved{wire: wire}, err
		}, nil
	}}
}

var rsyncTotals = regexp.MustCompile(`Total bytes (?:sent|received): ([0-9,]+)`)

func rsyncBytes(out []byte) (int64, error) {
	var total int64
	found := rsyncTotals.FindAllSubmatch(out, -1)
	if len(found) != 2 {
		return 0, fmt.Errorf("rsync's statistics lack the totals:\n%s", out)
	}
	for _, match := range found {
		n, err := strconv.ParseInt(strings.ReplaceAll(string(match[1]), ",", ""), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read rsync's totals: %w", err)
		}
		total += n
	}
	return total, nil
}
