// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	csiv1 "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/hack/cluster/internal/mounts"
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
	var frozen []string
	thaw = func() (failed error) {
		for _, path := range frozen {
			failed = errors.Join(failed, control(path, fiThaw))
		}
		return failed
	}
	for _, volume := range volumes {
		v, err := g.pool.Volume(volume)
		if err != nil {
			return nil, errors.Join(err, thaw())
		}
		for _, place := range v.Staged {
			mounted, err := mounts.Is(place.Path)
			if err == nil && !mounted {
				err = status.Errorf(codes.FailedPrecondition, "volume %s is used as a device, whose writers cannot be held", v.ID)
			}
			if err == nil {
				err = control(place.Path, fiFreeze)
			}
			if err != nil {
				return nil, errors.Join(err, thaw())
			}
			frozen = append(frozen, place.Path)
		}
		if err := g.flushImage(v); err != nil {
			return nil, errors.Join(err, thaw())
		}
	}
	return thaw, nil
}

func control(path string, request uint) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("holding writers: %w", err)
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), request, 0); err != nil {
		return fmt.Errorf("holding writers of %s: %w", path, err)
	}
	return nil
}

// thawAll lets those go on whom a driver that was killed has held.
func (d *Driver) thawAll() error {
	volumes, err := d.pool.Volumes()
	for _, v := range volumes {
		for _, place := range v.Staged {
			if mounted, _ := mounts.Is(place.Path); mounted {
				_ = control(place.Path, fiThaw) // It fails where nobody is held.
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
