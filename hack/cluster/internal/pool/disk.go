// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/hack/cluster/internal/loop"
	"github.com/lighterage/lighterage/hack/cluster/internal/mounts"
)

// reserved is the part of the file system that volumes and snapshots cannot have: its own records need room.
const reserved = 10 // percent

// Supported is nil if this machine can mount a Pool.
func Supported(ctx context.Context) error {
	if err := loop.Available(); err != nil {
		return err
	}
	if known, err := knowsBtrfs(); err != nil || known {
		return err
	}
	// Where it is a module that nobody has needed so far.
	_ = exec.CommandContext(ctx, "modprobe", "btrfs").Run()
	known, err := knowsBtrfs()
	if err == nil && !known {
		err = errors.New("the kernel has no btrfs")
	}
	return err
}

func knowsBtrfs() (bool, error) {
	data, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return false, fmt.Errorf("listing what file systems the kernel has: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[len(fields)-1] == "btrfs" {
			return true, nil
		}
	}
	return false, nil
}

// Mount opens the Pool of the btrfs in dir/disk, a sparse file of size bytes that it makes unless it is there.
func Mount(ctx context.Context, dir string, size int64) (*Pool, error) {
	disk, point := filepath.Join(dir, "disk"), filepath.Join(dir, "pool")
	if err := os.MkdirAll(point, 0o700); err != nil {
		return nil, fmt.Errorf("mounting the pool: %w", err)
	}
	if err := makeDisk(ctx, disk, size); err != nil {
		return nil, err
	}
	mounted, err := mounts.Is(point)
	if err != nil {
		return nil, err
	}
	if !mounted {
		device, err := loop.Attach(disk)
		if err != nil {
			return nil, err
		}
		// What is deleted becomes a hole of the disk again.
		if err := unix.Mount(device, point, "btrfs", unix.MS_NOATIME, "discard=async"); err != nil {
			return nil, fmt.Errorf("mounting %s at %s: %w", device, point, err)
		}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(point, &st); err != nil {
		return nil, fmt.Errorf("measuring the pool: %w", err)
	}
	return Open(point, int64(st.Blocks)*st.Bsize/100*(100-reserved)/Unit*Unit)
}

func makeDisk(ctx context.Context, disk string, size int64) error {
	if _, err := os.Stat(disk); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(disk+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("making the pool's disk: %w", err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return fmt.Errorf("making the pool's disk: %w", err)
	}
	out, err := exec.CommandContext(ctx, "mkfs.btrfs", "--quiet", "--force", disk+".new").CombinedOutput()
	if err != nil {
		return fmt.Errorf("making the pool's disk: mkfs.btrfs: %w\n%s", err, out)
	}
	return os.Rename(disk+".new", disk)
}

// Remove removes everything that Mount has made in dir and that was made of it, in use or not.
func Remove(dir string) error {
	if err := loop.DetachBelow(dir); err != nil {
		return err
	}
	if err := mounts.DetachBelow(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
