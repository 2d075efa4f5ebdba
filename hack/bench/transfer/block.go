// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

//go:embed block.md.tmpl
var blockTemplate string

const (
	asFile, asDevice = "file", "block volume"
	// fileSystemMiB is what a file system takes beside the file.
	fileSystemMiB = 200
)

// Block measures block volumes beside a file of their size.
func Block() harness.Benchmark {
	o := &options{}
	return harness.Benchmark{
		Name:  "block",
		About: "a block volume beside a file of its size; needs root, loop devices and four times -size in -work",
		Flags: func(f *flag.FlagSet) {
			o.flags(f, "/dev/shm")
			f.IntVar(&o.runs, "runs", 11, "runs of each")
			f.IntVar(&o.size, "size", 2048, "MiB of the volume")
		},
		Run: o.in(o.blocks),
	}
}

// volume is a loop device over a file, with or without a file system.
type volume struct{ image, device, mount string }

func newVolume(ctx context.Context, image string, mib int) (*volume, error) {
	file, err := os.Create(image)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(file.Truncate(int64(mib)<<20), file.Close()); err != nil {
		return nil, err
	}
	device, err := harness.Output(ctx, "losetup", "--find", "--show", image)
	if err != nil {
		return nil, err
	}
	return &volume{image: image, device: device}, nil
}

// format gives it an empty file system, and returns where that is mounted.
func (v *volume) format(ctx context.Context) (string, error) {
	v.mount = v.image + ".mount"
	err := harness.Command(ctx, "mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", v.device)
	if err == nil {
		err = os.MkdirAll(v.mount, 0o755)
	}
	if err == nil {
		err = harness.Command(ctx, "mount", "-o", "noatime", v.device, v.mount)
	}
	return v.mount, err
}

// remount drops what the kernel has cached of the file system, as it does of a device that nobody has open.
func (v *volume) remount(ctx context.Context) (string, error) {
	if err := harness.Command(ctx, "umount", v.mount); err != nil {
		return "", err
	}
	return v.mount, harness.Command(ctx, "mount", "-o", "noatime", v.device, v.mount)
}

// empty gives all that it holds back, so that each run begins with a new volume.
func (v *volume) empty(ctx context.Context) error {
	if v.mount != "" {
		if err := harness.Command(ctx, "umount", v.mount); err != nil {
			return err
		}
		v.mount = ""
	}
	return harness.Command(ctx, "blkdiscard", v.device)
}

// close also works when the context has ended.
func (v *volume) close() error {
	ctx := context.Background()
	var err error
	if v.mount != "" {
		err = harness.Command(ctx, "umount", v.mount)
	}
	return errors.Join(err, harness.Command(ctx, "losetup", "--detach", v.device))
}

// shapes are the two ways in which the same bytes are moved.
type shapes struct {
	options
	file, device, toFile, toDevice *volume
}

func (s *shapes) close() (err error) {
	for _, v := range []*volume{s.file, s.device, s.toFile, s.toDevice} {
		if v != nil {
			err = errors.Join(err, v.close())
		}
	}
	return err
}

func (o *options) blocks(ctx context.Context, r *harness.Run) (err error) {
	if r.Quick {
		o.runs, o.size = 1, min(o.size, 200)
	}
	s := &shapes{options: *o}
	//nolint:contextcheck // also when the context has ended
	defer func() { err = errors.Join(err, s.close()) }()
	for i, v := range []**volume{&s.file, &s.device, &s.toFile, &s.toDevice} {
		mib := o.size
		if i%2 == 0 {
			mib += fileSystemMiB
		}
		if *v, err = newVolume(ctx, filepath.Join(o.work, fmt.Sprintf("volume-%d", i)), mib); err != nil {
			return fmt.Errorf("make a volume: %w", err)
		}
	}
	if err := s.fill(ctx); err != nil {
		return fmt.Errorf("fill the sources: %w", err)
	}
	samples := map[string][]sample{}
	err = r.Rounds(o.runs, func(round int) error {
		for _, i := range harness.Order(round, 2) {
			name := []string{asFile, asDevice}[i]
			one, err := s.run(ctx, name)
			if err != nil {
				return fmt.Errorf("move the %s: %w", name, err)
			}
			harness.Log("run %d: %s: %.2f s wall, %.2f s CPU", round+1, name, one.wall.Seconds(), one.cpu.Seconds())
			samples[name] = append(samples[name], one)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.Publish(ctx, blockReport(o.size, samples))
}

// fill writes the same bytes to the file and to the device.
func (s *shapes) fill(ctx context.Context) error {
	directory, err := s.file.format(ctx)
	if err != nil {
		return err
	}
	path := filepath.Join(directory, "disk.img")
	if err := makeNoise(path, s.size); err != nil {
		return err
	}
	return harness.Command(ctx, "dd", "if="+path, "of="+s.device.device, "bs=1M", "conv=fsync", "status=none")
}

// run moves one of the two and compares what arrived.
func (s *shapes) run(ctx context.Context, name string) (got sample, err error) {
	from, to, destination := s.device, s.toDevice, s.toDevice.device
	source := from.device
	compared := []string{source, destination}
	if err := errors.Join(s.toFile.empty(ctx), s.toDevice.empty(ctx)); err != nil {
		return got, err
	}
	if name == asFile {
		if source, err = s.file.remount(ctx); err != nil {
			return got, err
		}
		if destination, err = s.toFile.format(ctx); err != nil {
			return got, err
		}
		compared = []string{filepath.Join(source, "disk.img"), filepath.Join(destination, "disk.img")}
		to = s.toFile
	}
	dir, err := os.MkdirTemp("", "lighterage-bench-")
	if err != nil {
		return got, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bench{dir: dir, agent: s.agent, block: name == asDevice}
	never := settings(wirev1.CompressionMode_COMPRESSION_MODE_NEVER, wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST)
	if err := b.prepare(ctx, source, destination, true, never); err != nil {
		return got, err
	}
	busy, err := s.cpu.read()
	if err != nil {
		return got, err
	}
	start := time.Now()
	if got.moved, err = b.move(ctx); err != nil {
		return got, err
	}
	got.wall = time.Since(start)
	after, err := s.cpu.read()
	if err != nil {
		return got, err
	}
	got.cpu = after - busy
	if err := harness.Command(ctx, "cmp", compared...); err != nil {
		return got, fmt.Errorf("compare what arrived in %s: %w", to.device, err)
	}
	return got, nil
}

func blockReport(mib int, samples map[string][]sample) harness.Report {
	var rows [][]string
	for _, name := range []string{asFile, asDevice} {
		r := result{name, samples[name]}
		rows = append(rows, []string{name, fmt.Sprintf("%.2f", r.median(wall)), fmt.Sprintf("%.2f", r.median(cpu)),
			known("%.0f", r.median(wire)), known("%.2f", r.median(send)), known("%.2f", r.median(receive))})
	}
	ratio := func(of func(sample) float64) harness.Estimate {
		return harness.RatioOf(samples[asDevice], samples[asFile], of)
	}
	return harness.Report{
		Name: "block", Template: blockTemplate,
		Data: map[string]any{"MiB": mib, "Table": harness.Table([]string{
			"source and destination", "wall s", "system CPU s", "bytes on the wire", "send CPU s", "receive CPU s",
		}, rows)},
		Targets: []harness.Target{
			{Name: "block-wall-vs-file", What: "block volume by file, wall", Digits: 2, Bound: 1.1, Measured: ratio(wall)},
		},
	}
}
