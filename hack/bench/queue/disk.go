// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

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
	// diskSpeed is what the disk is limited to, in bytes a second each way.
	diskSpeed = 50_000_000
	// diskSize in bytes.
	diskSize = 1 << 30
	// diskCache is how many bytes may wait in memory to be written to it, as on a machine
	// that has worked for long; else some seconds of puts would fit into memory.
	diskCache = 8 << 20
	// probeSize is what is written to see whether the limit holds, in bytes.
	probeSize = 24 << 20
)

// disk is a file system of its own in a file, with a limited speed.
type disk struct {
	directory string
	// measured is the speed in bytes a second at which it was seen to be written.
	measured float64
	undo     []func() error
}

// openDisk makes one of a file below parent. It needs root, loop devices and a control
// group that limits all who write to a device.
func openDisk(ctx context.Context, parent string) (*disk, error) {
	d := &disk{}
	if err := d.open(ctx, parent); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *disk) open(ctx context.Context, parent string) error {
	work, err := os.MkdirTemp(parent, "lighterage-queue-")
	if err != nil {
		return err
	}
	d.undo = append(d.undo, func() error { return os.RemoveAll(work) })
	image := filepath.Join(work, "image")
	if err := allocate(image, diskSize); err != nil {
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
	d.directory = filepath.Join(work, "mount")
	if err := os.Mkdir(d.directory, 0o700); err != nil {
		return err
	}
	if err := harness.Command(ctx, "mount", "-o", "noatime", device, d.directory); err != nil {
		return err
	}
	//nolint:contextcheck // also when the context has ended
	d.undo = append(d.undo, func() error {
		return harness.Command(context.Background(), "umount", d.directory)
	})
	var stat unix.Stat_t
	if err := unix.Stat(device, &stat); err != nil {
		return fmt.Errorf("look at %s: %w", device, err)
	}
	number := fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev))
	if err := d.limit(number); err != nil {
		return err
	}
	if d.measured, err = d.probe(); err != nil {
		return fmt.Errorf("see whether the limit holds: %w", err)
	}
	if !holds(d.measured) {
		return fmt.Errorf("a limit of %d MB/s does not hold: %.0f MB/s were written", int(diskSpeed/1e6), d.measured/1e6)
	}
	return nil
}

// holds reports whether a speed is that of the limit, more or less.
func holds(measured float64) bool { return measured > diskSpeed/2 && measured < diskSpeed*1.3 }

// limit holds everybody who reads or writes the device to its speed. Pages are written
// back by threads of the kernel, which are in the root group: hence it is the limit of
// that group, for this device alone.
func (d *disk) limit(number string) error {
	const root = "/sys/fs/cgroup/blkio"
	for _, file := range []string{"blkio.throttle.write_bps_device", "blkio.throttle.read_bps_device"} {
		path := filepath.Join(root, file)
		if err := os.WriteFile(path, fmt.Appendf(nil, "%s %d", number, diskSpeed), 0o644); err != nil {
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
func (d *disk) probe() (float64, error) {
	if err := d.sync(); err != nil {
		return 0, err
	}
	path := filepath.Join(d.directory, "probe")
	begin := time.Now()
	if err := os.WriteFile(path, make([]byte, probeSize), 0o600); err != nil {
		return 0, err
	}
	if err := d.sync(); err != nil {
		return 0, err
	}
	took := time.Since(begin).Seconds()
	return probeSize / took, os.Remove(path)
}

// sync waits until everything is on the disk.
func (d *disk) sync() error {
	f, err := os.Open(d.directory)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("wait for the disk: %w", err)
	}
	return nil
}

// forget takes what files hold out of memory, so that who reads it reads the disk.
func (d *disk) forget() error {
	if err := d.sync(); err != nil {
		return err
	}
	return filepath.WalkDir(d.directory, func(path string, entry fs.DirEntry, err error) error {
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

// close removes it.
func (d *disk) close() error {
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
