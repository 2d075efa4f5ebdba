// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mounts lists and removes mounts of this machine.
package mounts

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Is is whether something is mounted at path, which has no symbolic links and may be a file.
func Is(path string) (bool, error) {
	all, err := Below(path)
	return slices.Contains(all, path), err
}

// Unmount removes what is mounted at path, if anything is.
func Unmount(path string) error {
	mounted, err := Is(path)
	if err != nil || !mounted {
		return err
	}
	if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmounting %s: %w", path, err)
	}
	return nil
}

// DetachBelow detaches every mount at or below dir, the innermost first, and makes sure that none is left: what is
// removed next must not reach beyond dir.
func DetachBelow(dir string) error {
	for range 3 {
		mounts, err := Below(dir)
		if err != nil {
			return err
		}
		if len(mounts) == 0 {
			return nil
		}
		slices.Reverse(mounts)
		for _, m := range mounts {
			if err := unix.Unmount(m, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) &&
				!errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("unmounting %s: %w", m, err)
			}
		}
	}
	left, err := Below(dir)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("still mounted below %s: %s", dir, strings.Join(left, ", "))
	}
	return err
}

// Below lists the mount points at or below dir, an outer mount before those inside it.
func Below(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	mounts := parse(lines, dir)
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	return mounts, nil
}

// parse lists the mount points at or below dir in the order of a mountinfo file, in which an outer mount comes before
// those inside it.
func parse(lines *bufio.Scanner, dir string) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var mounts []string
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if point := unescape.Replace(fields[4]); point == dir || strings.HasPrefix(point, dir+"/") {
			mounts = append(mounts, point)
		}
	}
	return mounts
}
