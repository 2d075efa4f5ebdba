// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	csiv1 "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/hack/cluster/internal/loop"
	"github.com/lighterage/lighterage/hack/cluster/internal/pool"
)

// What package unix does not name: ioctls that hold writers of a file system, and let them go on.
const (
	fiFreeze = 0xC0045877
	fiThaw   = 0xC0045878
)

// groups takes snapshots of several volumes at one moment: it holds those who write to them meanwhile.
type groups struct {
	csiv1.UnimplementedGroupControllerServer
	*Driver
}

func (g *groups) GroupControllerGetCapabilities(
	context.Context, *csiv1.GroupControllerGetCapabilitiesRequest,
) (*csiv1.GroupControllerGetCapabilitiesResponse, error) {
	return &csiv1.GroupControllerGetCapabilitiesResponse{Capabilities: []*csiv1.GroupControllerServiceCapability{{
		Type: &csiv1.GroupControllerServiceCapability_Rpc{Rpc: &csiv1.GroupControllerServiceCapability_RPC{
			Type: csiv1.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT,
		}},
	}}}, nil
}

func (g *groups) CreateVolumeGroupSnapshot(
	_ context.Context, req *csiv1.CreateVolumeGroupSnapshotRequest,
) (*csiv1.CreateVolumeGroupSnapshotResponse, error) {
	if err := required("name", req.GetName()); err != nil {
		return nil, err
	}
	volumes := slices.Compact(slices.Sorted(slices.Values(req.GetSourceVolumeIds())))
	if len(volumes) == 0 {
		return nil, status.Error(codes.InvalidArgument, "source_volume_ids are missing")
	}
	thaw, err := g.freeze(volumes)
	if err != nil {
		return nil, answer(err)
	}
	id, taken, err := g.pool.CreateGroup(req.GetName(), volumes)
	if err = errors.Join(err, thaw()); err != nil {
		return nil, answer(err)
	}
	return &csiv1.CreateVolumeGroupSnapshotResponse{GroupSnapshot: describeGroup(id, taken)}, nil
}

// freeze holds those who write to volumes, and has their images hold what was written before.
func (g *groups) freeze(volumes []string) (thaw func() error, err error) {
	var frozen []*os.File
	thaw = func() (failed error) {
		for _, f := range frozen {
			failed = errors.Join(failed, control(f, fiThaw), f.Close())
		}
		return failed
	}
	for _, volume := range volumes {
		v, err := g.pool.Volume(volume)
		if err != nil {
			return nil, errors.Join(err, thaw())
		}
		held, err := g.hold(v)
		if held != nil {
			frozen = append(frozen, held)
		}
		if err == nil {
			err = g.flushImage(v)
		}
		if err != nil {
			return nil, errors.Join(err, thaw())
		}
	}
	return thaw, nil
}

// hold holds those who write to a volume, and returns the file by which they are let go on; nil if none is held. The
// file system is one wherever it is mounted, and is held once.
func (g *groups) hold(v pool.Volume) (held *os.File, err error) {
	for _, place := range v.Staged {
		f, err := g.fileSystem(v, place.Path)
		switch {
		case err != nil:
		case f == nil:
			err = status.Errorf(codes.FailedPrecondition, "volume %s is used as a device, whose writers cannot be held", v.ID)
		case held != nil:
			err = f.Close()
		default:
			if err = control(f, fiFreeze); err == nil {
				held = f
			} else {
				f.Close()
			}
		}
		if err != nil {
			return held, err
		}
	}
	return held, nil
}

// fileSystem opens that of a volume where it is staged; nil if something else is there. While the file is open it
// cannot be unmounted, so that nobody's file system is frozen but the volume's.
func (d *Driver) fileSystem(v pool.Volume, path string) (*os.File, error) {
	device, err := loop.Find(d.pool.Image(v.ID))
	if err != nil || device == "" {
		return nil, err
	}
	var of, at unix.Stat_t
	if err := unix.Stat(device, &of); err != nil {
		return nil, fmt.Errorf("looking at %s: %w", device, err)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening volume %s: %w", v.ID, err)
	}
	if err = unix.Fstat(int(f.Fd()), &at); err == nil && at.Dev == of.Rdev {
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

func control(f *os.File, request uint) error {
	if err := unix.IoctlSetInt(int(f.Fd()), request, 0); err != nil {
		return fmt.Errorf("holding writers of %s: %w", f.Name(), err)
	}
	return nil
}

// thawAll lets those go on whom a driver that was killed has held.
func (d *Driver) thawAll() error {
	volumes, err := d.pool.Volumes()
	for _, v := range volumes {
		for _, place := range v.Staged {
			if f, _ := d.fileSystem(v, place.Path); f != nil {
				_ = control(f, fiThaw) // It fails where nobody is held.
				f.Close()
			}
		}
	}
	return err
}

func (g *groups) GetVolumeGroupSnapshot(
	_ context.Context, req *csiv1.GetVolumeGroupSnapshotRequest,
) (*csiv1.GetVolumeGroupSnapshotResponse, error) {
	if err := required("group_snapshot_id", req.GetGroupSnapshotId()); err != nil {
		return nil, err
	}
	taken, err := g.pool.Group(req.GetGroupSnapshotId())
	if err != nil {
		return nil, answer(err)
	}
	return &csiv1.GetVolumeGroupSnapshotResponse{GroupSnapshot: describeGroup(req.GetGroupSnapshotId(), taken)}, nil
}

func (g *groups) DeleteVolumeGroupSnapshot(
	_ context.Context, req *csiv1.DeleteVolumeGroupSnapshotRequest,
) (*csiv1.DeleteVolumeGroupSnapshotResponse, error) {
	if err := required("group_snapshot_id", req.GetGroupSnapshotId()); err != nil {
		return nil, err
	}
	taken, err := g.pool.Group(req.GetGroupSnapshotId())
	if errors.Is(err, pool.ErrNotFound) {
		return &csiv1.DeleteVolumeGroupSnapshotResponse{}, nil
	}
	for _, s := range taken {
		err = errors.Join(err, g.pool.DeleteSnapshot(s.ID))
	}
	if err != nil {
		return nil, answer(err)
	}
	return &csiv1.DeleteVolumeGroupSnapshotResponse{}, nil
}

func describeGroup(id string, taken []pool.Snapshot) *csiv1.VolumeGroupSnapshot {
	described := &csiv1.VolumeGroupSnapshot{GroupSnapshotId: id, ReadyToUse: true}
	for _, s := range taken {
		described.CreationTime = timestamppb.New(s.Created) // all have the same
		described.Snapshots = append(described.Snapshots, describe(s))
	}
	return described
}
