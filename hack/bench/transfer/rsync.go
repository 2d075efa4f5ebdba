// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// rsync pushes to an rsync daemon without TLS on loopback.
func rsync(name string, options ...string) contender {
	return contender{name: name, setUp: func(
		ctx context.Context, source, destination string,
	) (func(context.Context) (moved, error), func(), error) {
		dir, err := os.MkdirTemp("", "bench-rsync-")
		if err != nil {
			return nil, nil, fmt.Errorf("make a directory for the daemon: %w", err)
		}
		port, err := freePort()
		if err != nil {
			return nil, nil, err
		}
		config := filepath.Join(dir, "rsyncd.conf")
		text := fmt.Sprintf(
			"use chroot = no\nuid = %d\ngid = %d\n[data]\npath = %s\nread only = false\n", os.Getuid(), os.Getgid(), destination,
		)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, nil, fmt.Errorf("write the daemon's configuration: %w", err)
		}
		daemon := exec.CommandContext(
			ctx, "rsync", "--daemon", "--no-detach", "--address=127.0.0.1", "--port="+strconv.Itoa(port), "--config="+config,
		) //nolint:gosec // a benchmark's own arguments
		var log bytes.Buffer
		daemon.Stderr = &log
		if err := daemon.Start(); err != nil {
			return nil, nil, fmt.Errorf("start an rsync daemon (apt-get install rsync): %w", err)
		}
		tearDown := func() {
			_ = daemon.Process.Kill()
			_ = daemon.Wait()
			_ = os.RemoveAll(dir)
		}
		if err := waitForPort(port); err != nil {
			tearDown()
			return nil, nil, fmt.Errorf("%w: %s", err, log.String())
		}
		move := func(ctx context.Context) (moved, error) {
			args := append(
				append([]string{}, options...), "--stats", source+"/", fmt.Sprintf("rsync://127.0.0.1:%d/data/", port),
			)
			out, err := exec.CommandContext(ctx, "rsync", args...).CombinedOutput() //nolint:gosec // a benchmark's own arguments
			if err != nil {
				return moved{}, fmt.Errorf("rsync %s: %w\n%s", strings.Join(args, " "), err, out)
			}
			wire, err := rsyncBytes(out)
			return moved{wire: wire}, err
		}
		return move, tearDown, nil
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

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func waitForPort(port int) error {
	for range 200 {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		if err == nil {
			return conn.Close()
		}
		time.Sleep(25 * time.Millisecond)
	}
	return errors.New("nothing listens on port " + strconv.Itoa(port))
}
