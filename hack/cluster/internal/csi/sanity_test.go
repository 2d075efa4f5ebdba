// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build csi

package csi_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	csiv1 "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/hack/cluster/internal/csi"
	"github.com/lighterage/lighterage/hack/cluster/internal/loop"
	"github.com/lighterage/lighterage/hack/cluster/internal/mounts"
	"github.com/lighterage/lighterage/hack/cluster/internal/pool"
)

const (
	// dir holds everything that tests mount. It is always the same, so that a run removes what one that was killed left.
	dir = "/var/tmp/lighterage-test-csi"
	// diskSize is of the sparse file under all volumes, in bytes.
	diskSize = 512 << 20
	nodeName = "node-1"
	size     = 32 * pool.Unit
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if os.Geteuid() != 0 {
			fmt.Fprintln(os.Stderr, "These tests mount: run them as root")
			return 1
		}
		// One run at a time: the other one would remove what this one mounts. The lock ends with the process.
		lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err == nil {
			err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		}
		if err == nil {
			err = pool.Remove(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, os.Interrupt, unix.SIGTERM)
		go func() {
			<-ended
			if err := pool.Remove(dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			os.Exit(1)
		}()
		code := m.Run()
		if err := pool.Remove(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// start serves a driver on a pool of its own and returns its socket. The pool is gone when the test has ended.
func start(t *testing.T, name string) string {
	t.Helper()
	work := filepath.Join(dir, name)
	if err := pool.Supported(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clean(t, work) })
	p, err := pool.Mount(t.Context(), work, diskSize)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(work, "csi.sock")
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- csi.New(p, []csi.Node{{Name: nodeName, Socket: socket}}).Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
			return socket
		}
		select {
		case err := <-served:
			t.Fatalf("the driver has ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// clean removes everything and checks that no mount and no loop device is left.
func clean(t *testing.T, work string) {
	if err := pool.Remove(work); err != nil {
		t.Error(err)
	}
	left, err := mounts.Below(work)
	if err != nil || len(left) > 0 {
		t.Errorf("mounts that are left: %q, %v", left, err)
	}
	// The kernel frees a device when the last mount of it has ended, which is a moment after umount(2) has returned.
	for range 500 {
		if left, err = loop.Below(work); err != nil || len(left) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil || len(left) > 0 {
		t.Errorf("loop devices that are left: %q, %v", left, err)
	}
}

func TestSanity(t *testing.T) {
	work := filepath.Join(dir, "sanity")
	config := sanity.NewTestConfig()
	config.Address = "unix://" + start(t, "sanity")
	config.TargetPath, config.StagingPath = filepath.Join(work, "target"), filepath.Join(work, "staging")
	config.TestVolumeSize, config.TestVolumeExpandSize = size, 2*size
	sanity.Test(t, config)
}

// clients of one driver.
type clients struct {
	t *testing.T
	csiv1.ControllerClient
	csiv1.NodeClient
	csiv1.GroupControllerClient
	work string
}

func connect(t *testing.T, name string) clients {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+start(t, name), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return clients{
		t, csiv1.NewControllerClient(conn), csiv1.NewNodeClient(conn), csiv1.NewGroupControllerClient(conn),
		filepath.Join(dir, name),
	}
}

func capability(block bool) *csiv1.VolumeCapability {
	c := &csiv1.VolumeCapability{
		AccessMode: &csiv1.VolumeCapability_AccessMode{Mode: csiv1.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csiv1.VolumeCapability_Mount{Mount: &csiv1.VolumeCapability_MountVolume{}},
	}
	if block {
		c.AccessType = &csiv1.VolumeCapability_Block{Block: &csiv1.VolumeCapability_BlockVolume{}}
	}
	return c
}

// volume makes a volume and publishes it, and returns its ID and the path.
func (c clients) volume(name string, bytes int64, block bool, source *csiv1.VolumeContentSource) (id, target string) {
	c.t.Helper()
	ctx := c.t.Context()
	v, err := c.CreateVolume(ctx, &csiv1.CreateVolumeRequest{
		Name: name, CapacityRange: &csiv1.CapacityRange{RequiredBytes: bytes}, VolumeContentSource: source,
		VolumeCapabilities: []*csiv1.VolumeCapability{capability(block)},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return v.GetVolume().GetVolumeId(), c.use(name, v.GetVolume().GetVolumeId(), block)
}

// use publishes a volume and returns the path.
func (c clients) use(name, id string, block bool) string {
	c.t.Helper()
	ctx := c.t.Context()
	staging, target := filepath.Join(c.work, "staging-"+name), filepath.Join(c.work, "target-"+name)
	_, err := c.ControllerPublishVolume(ctx, &csiv1.ControllerPublishVolumeRequest{
		VolumeId: id, NodeId: nodeName, VolumeCapability: capability(block),
	})
	if err == nil {
		_, err = c.NodeStageVolume(ctx, &csiv1.NodeStageVolumeRequest{
			VolumeId: id, StagingTargetPath: staging, VolumeCapability: capability(block),
		})
	}
	if err == nil {
		_, err = c.NodePublishVolume(ctx, &csiv1.NodePublishVolumeRequest{
			VolumeId: id, StagingTargetPath: staging, TargetPath: target, VolumeCapability: capability(block),
		})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return target
}

// release undoes use.
func (c clients) release(name, id string) {
	c.t.Helper()
	ctx := c.t.Context()
	_, err := c.NodeUnpublishVolume(ctx, &csiv1.NodeUnpublishVolumeRequest{
		VolumeId: id, TargetPath: filepath.Join(c.work, "target-"+name),
	})
	if err == nil {
		_, err = c.NodeUnstageVolume(ctx, &csiv1.NodeUnstageVolumeRequest{
			VolumeId: id, StagingTargetPath: filepath.Join(c.work, "staging-"+name),
		})
	}
	if err == nil {
		_, err = c.ControllerUnpublishVolume(ctx, &csiv1.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: nodeName})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c clients) snapshot(name, volume string) *csiv1.VolumeContentSource {
	c.t.Helper()
	s, err := c.CreateSnapshot(c.t.Context(), &csiv1.CreateSnapshotRequest{Name: name, SourceVolumeId: volume})
	if err != nil {
		c.t.Fatal(err)
	}
	return &csiv1.VolumeContentSource{Type: &csiv1.VolumeContentSource_Snapshot{
		Snapshot: &csiv1.VolumeContentSource_SnapshotSource{SnapshotId: s.GetSnapshot().GetSnapshotId()},
	}}
}

func clone(volume string) *csiv1.VolumeContentSource {
	return &csiv1.VolumeContentSource{Type: &csiv1.VolumeContentSource_Volume{
		Volume: &csiv1.VolumeContentSource_VolumeSource{VolumeId: volume},
	}}
}

// write writes and syncs, as a database does.
func write(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, path string, want []byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s begins with %.20q, want %.20q (%v)", path, got, want, err)
	}
}

// A snapshot and a clone of a volume in use hold what was written before, and not what was written after, and a volume
// that is larger than what it is made from has a larger file system.
func TestSnapshotAndCloneOfMountedVolume(t *testing.T) {
	c := connect(t, "mounted")
	id, path := c.volume("source", size, false, nil)
	write(t, filepath.Join(path, "file"), []byte("before"))
	// Not synced.
	if err := os.WriteFile(filepath.Join(path, "unsynced"), []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := c.snapshot("s", id)
	_, cloned := c.volume("cloned", size, false, clone(id))
	write(t, filepath.Join(path, "file"), []byte("after!"))
	_, restored := c.volume("restored", 2*size, false, source)
	holds(t, filepath.Join(restored, "file"), []byte("before"))
	holds(t, filepath.Join(restored, "unsynced"), []byte("before"))
	holds(t, filepath.Join(cloned, "file"), []byte("before"))
	holds(t, filepath.Join(path, "file"), []byte("after!"))
	if small, large := space(t, path), space(t, restored); large < small*3/2 {
		t.Errorf("the file system of a volume of twice the size has %d bytes, the other one %d", large, small)
	}
}

func space(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Blocks) * st.Bsize
}

// A volume grows when nobody uses it, with the file system and what is in it.
func TestExpansion(t *testing.T) {
	c := connect(t, "expanded")
	id, path := c.volume("v", size, false, nil)
	write(t, filepath.Join(path, "file"), []byte("kept"))
	before := space(t, path)
	expand := &csiv1.ControllerExpandVolumeRequest{
		VolumeId: id, CapacityRange: &csiv1.CapacityRange{RequiredBytes: 2 * size},
	}
	if _, err := c.ControllerExpandVolume(t.Context(), expand); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("expanding a volume in use: %v", err)
	}
	c.release("v", id)
	if _, err := c.ControllerExpandVolume(t.Context(), expand); err != nil {
		t.Fatal(err)
	}
	c.use("v", id, false)
	if after := space(t, path); after < before*3/2 {
		t.Errorf("the file system has %d bytes after, %d before", after, before)
	}
	holds(t, filepath.Join(path, "file"), []byte("kept"))
}

// A block volume is a device of its size, whose snapshot is a device again.
func TestBlockVolume(t *testing.T) {
	c := connect(t, "block")
	id, path := c.volume("v", size, true, nil)
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode()&os.ModeDevice == 0 {
		t.Fatalf("%s is %s, no device", path, st.Mode())
	}
	data := bytes.Repeat([]byte("x"), 1<<20)
	write(t, path, data)
	source := c.snapshot("s", id)
	write(t, path, []byte("yyyy"))
	_, restored := c.volume("restored", size, true, source)
	holds(t, restored, data)
	holds(t, path, []byte("yyyyxxxx"))
	f, err := os.Open(restored)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if end, err := f.Seek(0, 2); err != nil || end != size {
		t.Errorf("the device has %d bytes (%v), want %d", end, err, int64(size))
	}
}

// A volume that is attached to a node is kept from being removed.
func TestVolumeInUse(t *testing.T) {
	c := connect(t, "used")
	id, _ := c.volume("v", size, false, nil)
	if _, err := c.DeleteVolume(t.Context(), &csiv1.DeleteVolumeRequest{VolumeId: id}); err == nil {
		t.Error("a volume was deleted that is in use")
	}
}

// A group of snapshots of volumes in use is of one moment: of what is written to one volume and then to the other,
// nothing is in the second that is not in the first, and at most one write is in the first alone. Whoever writes goes
// on afterwards.
func TestGroupOfMountedVolumes(t *testing.T) {
	c := connect(t, "group")
	first, one := c.volume("first", size, false, nil)
	second, two := c.volume("second", size, false, nil)
	var files []*os.File
	for _, path := range []string{one, two} {
		f, err := os.Create(filepath.Join(path, "number"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	var last atomic.Int64
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		defer files[1].Close()
		defer files[0].Close()
		for i := int64(1); ; i++ {
			for _, f := range files {
				if _, err := f.WriteAt(fmt.Appendf(nil, "%08d", i), 0); err != nil {
					stopped <- err
					return
				}
			}
			last.Store(i)
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
		}
	}()
	end := sync.OnceValue(func() error {
		close(stop)
		return <-stopped
	})
	defer func() { _ = end() }()
	read := func(path string) (number int64) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(path, "number"))
		if err == nil {
			_, err = fmt.Sscanf(string(text), "%d", &number)
		}
		if err != nil {
			t.Fatal(err)
		}
		return number
	}
	goesOn := func() {
		t.Helper()
		before := last.Load()
		for wait := time.Now(); last.Load() == before; time.Sleep(time.Millisecond) {
			if time.Since(wait) > 10*time.Second {
				t.Fatal("whoever writes does not go on")
			}
		}
	}
	goesOn()
	c.use("again", first, false) // as by the kubelets of two nodes
	var releases []func()
	defer func() {
		for _, release := range releases {
			release()
		}
	}()
	const rounds = 3
	for i := range rounds {
		taken, err := c.CreateVolumeGroupSnapshot(t.Context(), &csiv1.CreateVolumeGroupSnapshotRequest{
			Name: fmt.Sprintf("g%d", i), SourceVolumeIds: []string{first, second},
		})
		if err != nil {
			t.Fatal(err)
		}
		group, restored := taken.GetGroupSnapshot(), map[string]string{}
		for _, s := range group.GetSnapshots() {
			source := &csiv1.VolumeContentSource{Type: &csiv1.VolumeContentSource_Snapshot{
				Snapshot: &csiv1.VolumeContentSource_SnapshotSource{SnapshotId: s.GetSnapshotId()},
			}}
			name := fmt.Sprintf("restored-%d-%s", i, s.GetSnapshotId())
			id, path := c.volume(name, size, false, source)
			restored[s.GetSourceVolumeId()] = path
			releases = append(releases, func() { c.release(name, id) })
		}
		if a, b := read(restored[first]), read(restored[second]); a != b && a != b+1 {
			t.Errorf("the first has %d and the second %d", a, b)
		}
		goesOn()
		again, err := c.CreateVolumeGroupSnapshot(t.Context(), &csiv1.CreateVolumeGroupSnapshotRequest{
			Name: fmt.Sprintf("g%d", i), SourceVolumeIds: []string{second, first},
		})
		if err != nil || again.GetGroupSnapshot().GetGroupSnapshotId() != group.GetGroupSnapshotId() ||
			!again.GetGroupSnapshot().GetCreationTime().AsTime().Equal(group.GetCreationTime().AsTime()) {
			t.Errorf("asked again: %v, %v", again, err)
		}
		got, err := c.GetVolumeGroupSnapshot(t.Context(), &csiv1.GetVolumeGroupSnapshotRequest{
			GroupSnapshotId: group.GetGroupSnapshotId(),
		})
		if err != nil || len(got.GetGroupSnapshot().GetSnapshots()) != 2 {
			t.Errorf("%v, %v", got, err)
		}
		remove := &csiv1.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId()}
		for range 2 {
			if _, err := c.DeleteVolumeGroupSnapshot(t.Context(), remove); err != nil {
				t.Error(err)
			}
		}
	}
	left, err := c.ListSnapshots(t.Context(), &csiv1.ListSnapshotsRequest{})
	if err != nil || len(left.GetEntries()) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	device, _ := c.volume("device", size, true, nil)
	if _, err := c.CreateVolumeGroupSnapshot(t.Context(), &csiv1.CreateVolumeGroupSnapshotRequest{
		Name: "devices", SourceVolumeIds: []string{device},
	}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("of a device in use: %v", err)
	}
}
