// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package disk makes file systems with a limited speed, for benchmarks.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

const (
	// diskCache is how many bytes may wait in memory to be written to it, as on a machine
	// that has worked for long; else some seconds of puts would fit into memory.
	diskCache = 8 << 20
	// probeSize is what is written to see whether the limit holds, in bytes.
	probeSize = 24 << 20
)

// Disk is a file system of its own in a file, with a limited speed.
type Disk struct {
	Directory string
	// Measured is the speed in bytes a second at which it was seen to be written.
	Measured float64
	speed    int
	undo     []func() error
}

// Open makes one of a file of so many bytes below parent, limited to so many bytes a second each way. It needs root,
// loop devices and a control group that limits all who write to a device.
func Open(ctx context.Context, parent string, size int64, speed int) (*Disk, error) {
	d := &Disk{speed: speed}
	if err := d.open(ctx, parent, size); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Disk) open(ctx context.Context, parent string, size int64) error {
	work, err := os.MkdirTemp(parent, "lighterage-disk-")
	if err != nil {
		return err
	}
	d.undo = append(d.undo, func() error { return os.RemoveAll(work) })
	image := filepath.Join(work, "image")
	if err := allocate(image, size); err != nil {
		return fmt.Errorf("make a file for a disk: %w", err)
	}
	// Past the page cache of what is below, so that a write is one of the disk's.
	device, err := harness.Output(ctx, "losetup", "--find", "--show", "--direct-io=on", image)
	if err != nil {
		return err
	}
	//nolint:contextcheck // also when the context has ended
	d.undo = append(d.undo, func() error {
		return harness.Command(context.Background(), "losetup", "--detach", device)
	})
	// Nothing is initialised later, in the time of a contender.
	if err := harness.Command(ctx, "mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device); err != nil {
		return err
	}
	d.Directory = filepath.Join(work, "mount")
	if err := os.Mkdir(d.Directory, 0o700); err != nil {
		return err
	}
	if err := harness.Command(ctx, "mount", "-o", "noatime", device, d.Directory); err != nil {
		return err
	}
	//nolint:contextcheck // also when the context has ended
	d.undo = append(d.undo, func() error {
		return harness.Command(context.Background(), "umount", d.Directory)
	})
	var stat unix.Stat_t
	if err := unix.Stat(device, &stat); err != nil {
		return fmt.Errorf("look at %s: %w", device, err)
	}
	number := fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev))
	if err := d.limit(number); err != nil {
		return err
	}
	if d.Measured, err = d.probe(); err != nil {
		return fmt.Errorf("see whether the limit holds: %w", err)
	}
	if !d.holds() {
		return fmt.Errorf("a limit of %d MB/s does not hold: %.0f MB/s were written", d.speed/1e6, d.Measured/1e6)
	}
	return nil
}

// holds reports whether the speed is that of the limit, more or less.
func (d *Disk) holds() bool {
	return d.Measured > float64(d.speed)/2 && d.Measured < float64(d.speed)*1.3
}

// limit holds everybody who reads or writes the device to its speed. Pages are written
// back by threads of the kernel, which are in the root group: hence it is the limit of
// that group, for this device alone.
func (d *Disk) limit(number string) error {
	const root = "/sys/fs/cgroup/blkio"
	for _, file := range []string{"blkio.throttle.write_bps_device", "blkio.throttle.read_bps_device"} {
		path := filepath.Join(root, file)
		if err := os.WriteFile(path, fmt.Appendf(nil, "%s %d", number, d.speed), 0o644); err != nil {
			return fmt.Errorf("limit a disk by the control group blkio (version 1): %w", err)
		}
		d.undo = append(d.undo, func() error { return os.WriteFile(path, []byte(number+" 0"), 0o644) })
	}
	device := filepath.Join("/sys/dev/block", number, "bdi")
	for _, setting := range []struct{ file, value, saved string }{
		{"strict_limit", "1", "strict_limit"},
		// which is the same as a share of memory, and can be written as it is read
		{"max_bytes", strconv.Itoa(diskCache), "max_ratio"},
	} {
		saved := filepath.Join(device, setting.saved)
		before, err := os.ReadFile(saved)
		if err != nil {
			return fmt.Errorf("limit what waits to be written: %w", err)
		}
		if err := os.WriteFile(filepath.Join(device, setting.file), []byte(setting.value), 0o644); err != nil {
			return fmt.Errorf("limit what waits to be written (this needs Linux 6.2): %w", err)
		}
		d.undo = append(d.undo, func() error { return os.WriteFile(saved, before, 0o644) })
	}
	return nil
}

// probe returns how fast it is written, in bytes a second.
func (d *Disk) probe() (float64, error) {
	if err := d.Sync(); err != nil {
		return 0, err
	}
	path := filepath.Join(d.Directory, "probe")
	begin := time.Now()
	if err := os.WriteFile(path, make([]byte, probeSize), 0o600); err != nil {
		return 0, err
	}
	if err := d.Sync(); err != nil {
		return 0, err
	}
	took := time.Since(begin).Seconds()
	return probeSize / took, os.Remove(path)
}

// Sync waits until everything is on the disk.
func (d *Disk) Sync() error {
	f, err := os.Open(d.Directory)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("wait for the disk: %w", err)
	}
	return nil
}

// Forget takes what files hold out of memory, so that who reads it reads the disk.
func (d *Disk) Forget() error {
	if err := d.Sync(); err != nil {
		return err
	}
	return filepath.WalkDir(d.Directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}

// Close removes it.
func (d *Disk) Close() error {
	var errs []error
	for _, undo := range slices.Backward(d.undo) {
		errs = append(errs, undo())
	}
	d.undo = nil
	return errors.Join(errs...)
}

// allocate makes a file that has its blocks already.
func allocate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, size), f.Close())
}
