// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/movers"
)

// rsync pushes to an rsync daemon without TLS on loopback.
func rsync(name string, options ...string) contender {
	return contender{name, func(
		ctx context.Context, dir, source, destination string,
	) (func(context.Context) (moved, error), error) {
		address, err := rsyncDaemon(ctx, dir, destination)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (moved, error) {
			return runRsync(ctx, append(slices.Clone(options), source+"/", "rsync://"+address+"/data/")...)
		}, nil
	}}
}

// tunnelled pushes to an rsync daemon through two stunnels, as VolSync's mover does.
func tunnelled(name string, options ...string) contender {
	return contender{name, func(
		ctx context.Context, dir, source, destination string,
	) (func(context.Context) (moved, error), error) {
		daemon, err := rsyncDaemon(ctx, dir, destination)
		if err != nil {
			return nil, err
		}
		var entrance, middle string
		for _, address := range []*string{&entrance, &middle} {
			if *address, err = harness.FreeAddress(); err != nil {
				return nil, err
			}
		}
		client, server, err := movers.Tunnel(dir, entrance, middle, daemon)
		if err != nil {
			return nil, err
		}
		for _, end := range []struct{ config, address string }{{server, middle}, {client, entrance}} {
			if _, err := harness.StartListening(
				ctx, exec.CommandContext(ctx, "stunnel", end.config), end.address,
			); err != nil {
				return nil, err
			}
		}
		return func(ctx context.Context) (moved, error) {
			return runRsync(ctx, append(slices.Clone(options), source+"/", "rsync://"+entrance+"/data/")...)
		}, nil
	}}
}

// overSSH pushes through OpenSSH, whose server starts the other rsync.
func overSSH(name string, options ...string) contender {
	return contender{name, func(
		ctx context.Context, dir, source, destination string,
	) (func(context.Context) (moved, error), error) {
		address, key, who, err := sshd(ctx, dir)
		if err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(address)
		return func(ctx context.Context) (moved, error) {
			return runRsync(ctx, append(slices.Clone(options), "-e", movers.Shell(port, key), source+"/",
				who+"@127.0.0.1:"+destination+"/")...)
		}, nil
	}}
}

// rclone pushes 16 files at once to OpenSSH's server.
func rclone(name, program string) contender {
	return contender{name, func(
		ctx context.Context, dir, source, destination string,
	) (func(context.Context) (moved, error), error) {
		address, key, who, err := sshd(ctx, dir)
		if err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(address)
		return func(ctx context.Context) (moved, error) {
			return moved{}, harness.Command(ctx, program, "copy", source, ":sftp:"+destination, "--sftp-host", "127.0.0.1",
				"--sftp-port", port, "--sftp-user", who, "--sftp-key-file", key, "--config", "/dev/null", "--links",
				"--create-empty-src-dirs", "--transfers", "16", "--checkers", "16")
		}, nil
	}}
}

// sshd starts OpenSSH's server, for a user with a key.
func sshd(ctx context.Context, dir string) (address, key, who string, err error) {
	if address, err = harness.FreeAddress(); err != nil {
		return "", "", "", err
	}
	config, key, err := movers.SSH(ctx, dir, address)
	if err != nil {
		return "", "", "", err
	}
	current, err := user.Current()
	if err != nil {
		return "", "", "", fmt.Errorf("find the user for SSH: %w", err)
	}
	_, err = harness.StartListening(ctx, exec.CommandContext(ctx, movers.SSHD, "-D", "-e", "-f", config), address)
	return address, key, current.Username, err
}

// rsyncDaemon starts one that writes to the destination.
func rsyncDaemon(ctx context.Context, dir, destination string) (address string, err error) {
	if address, err = harness.FreeAddress(); err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(address)
	config, err := movers.RsyncDaemon(dir, destination)
	if err != nil {
		return "", err
	}
	_, err = harness.StartListening(ctx, exec.CommandContext(
		ctx, "rsync", "--daemon", "--no-detach", "--address=127.0.0.1", "--port="+port, "--config="+config,
	), address)
	return address, err
}

func runRsync(ctx context.Context, args ...string) (moved, error) {
	args = append([]string{"--stats"}, args...)
	out, err := exec.CommandContext(ctx, "rsync", args...).CombinedOutput()
	if err != nil {
		return moved{}, fmt.Errorf("rsync %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	wire, err := rsyncBytes(out)
	return moved{wire: wire}, err
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
