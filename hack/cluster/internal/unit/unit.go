// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package unit starts, finds and stops the long-running processes of the
// clusters. A unit outlives the command that started it.
package unit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Unit is one process.
type Unit struct {
	// Name is unique on the machine: east-1.kubelet.
	Name string
	// Args are the program, as an absolute path, and its arguments.
	Args []string
	// Env is what its environment has beside the path: NAME=value. It is not logged.
	Env []string
	// NetNS is the network namespace to run in; empty is the host's.
	NetNS string
	// Procs are the cgroup.procs files of the cgroup to run in.
	Procs string
	// Configs are files whose content matters: when one has changed since the
	// unit was started, the unit is started again.
	Configs []string
}

// Set is where units keep their files.
type Set struct {
	// Self is the program that has the command `enter`: this one.
	Self string
	// Pids and Logs are folders.
	Pids, Logs string
	// Path is the PATH of the units.
	Path string
	// Out is told what is waited for, if it takes long; nil: nobody is.
	Out io.Writer
}

// LogFile is where the unit's output goes.
func (s Set) LogFile(name string) string { return filepath.Join(s.Logs, name+".log") }

// PidFile is where the unit's Record is kept.
func (s Set) PidFile(name string) string { return filepath.Join(s.Pids, name+".pid") }

// Digest sums up everything a unit was started with.
func (u Unit) Digest() (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q", u.Args, u.Env, u.NetNS)
	for _, path := range u.Configs {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("reading configuration of %s: %w", u.Name, err)
		}
		fmt.Fprintf(h, " %x", sha256.Sum256(data))
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// Alive is whether the unit runs.
func (s Set) Alive(name string) bool {
	r, err := ReadRecord(s.PidFile(name))
	return err == nil && r.Alive()
}

// Ensure starts the unit unless it runs already as it should. It reports whether
// it started it.
func (s Set) Ensure(u Unit) (bool, error) {
	digest, err := u.Digest()
	if err != nil {
		return false, err
	}
	if r, err := ReadRecord(s.PidFile(u.Name)); err == nil && r.Alive() {
		if r.Digest == digest {
			return false, nil
		}
		if err := r.Kill(); err != nil {
			return false, fmt.Errorf("stopping outdated %s: %w", u.Name, err)
		}
	}
	return true, s.start(u, digest)
}

func (s Set) start(u Unit, digest string) error {
	for _, dir := range []string{s.Logs, s.Pids} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("starting %s: %w", u.Name, err)
		}
	}
	log, err := os.OpenFile(s.LogFile(u.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("starting %s: %w", u.Name, err)
	}
	defer log.Close()
	fmt.Fprintf(log, "---- %s: starting %s\n", time.Now().Format(time.RFC3339), strings.Join(u.Args, " "))

	cmd := exec.Command(s.Self, EnterArgs(u)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=" + s.Path, "HOME=/root", "TMPDIR=/tmp"}, u.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", u.Name, err)
	}
	start, _, err := processStart(cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("starting %s: %w", u.Name, err)
	}
	return Record{PID: cmd.Process.Pid, Start: start, Digest: digest}.Write(s.PidFile(u.Name))
}

// KillAll ends every unit by its pid file.
func (s Set) KillAll() error {
	files, err := filepath.Glob(filepath.Join(s.Pids, "*.pid"))
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		// A file that is damaged names nobody to kill.
		if r, err := ReadRecord(f); err == nil {
			errs = append(errs, r.Kill())
		}
	}
	return errors.Join(errs...)
}

// Wait polls ready until it is nil. It gives up when one of the named units has
// ended, when timeout has passed, or with ctx; the error then carries the last
// lines of the log of the unit to blame (the first named, if all run).
func (s Set) Wait(
	ctx context.Context, what string, timeout time.Duration, names []string, ready func(context.Context) error,
) error {
	began := time.Now()
	deadline, sayAt := began.Add(timeout), began.Add(5*time.Second)
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := ready(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
		for _, name := range names {
			if !s.Alive(name) {
				return fmt.Errorf("waiting for %s: %s has ended\n%s", what, name, s.Tail(name))
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for %s: not there after %s: %w\n%s", what, timeout, err, s.Tail(names[0]))
		}
		if now := time.Now(); s.Out != nil && now.After(sayAt) {
			fmt.Fprintf(
				s.Out, "Waiting for %s (%s), %.0f s of at most %.0f\n", what, names[0], now.Sub(began).Seconds(), timeout.Seconds(),
			)
			sayAt = now.Add(10 * time.Second)
		}
		time.Sleep(150 * time.Millisecond)
	}
}

// Tail is the end of the unit's log, with the file's name before it.
func (s Set) Tail(name string) string {
	const lines, maxBytes = 15, 16 << 10
	f, err := os.Open(s.LogFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("(%s has written no log)", name)
	}
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	var offset int64
	if st, err := f.Stat(); err == nil && st.Size() > maxBytes {
		offset = st.Size() - maxBytes
	}
	buf := make([]byte, maxBytes)
	n, _ := f.ReadAt(buf, offset)
	all := bytes.Split(bytes.TrimRight(buf[:n], "\n"), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return fmt.Sprintf("last lines of %s:\n  %s", s.LogFile(name), bytes.Join(all, []byte("\n  ")))
}
