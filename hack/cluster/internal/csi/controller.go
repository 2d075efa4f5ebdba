// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	csiv1 "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/hack/cluster/internal/loop"
	"github.com/lighterage/lighterage/hack/cluster/internal/mounts"
	"github.com/lighterage/lighterage/hack/cluster/internal/pool"
)

type controller struct {
	csiv1.UnimplementedControllerServer
	*Driver
}

func (c *controller) ControllerGetCapabilities(
	context.Context, *csiv1.ControllerGetCapabilitiesRequest,
) (*csiv1.ControllerGetCapabilitiesResponse, error) {
	resp := &csiv1.ControllerGetCapabilitiesResponse{}
	for _, t := range []csiv1.ControllerServiceCapability_RPC_Type{
		csiv1.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csiv1.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csiv1.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csiv1.ControllerServiceCapability_RPC_GET_CAPACITY,
		csiv1.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csiv1.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csiv1.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csiv1.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csiv1.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		resp.Capabilities = append(resp.Capabilities, &csiv1.ControllerServiceCapability{
			Type: &csiv1.ControllerServiceCapability_Rpc{Rpc: &csiv1.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return resp, nil
}

func (c *controller) CreateVolume(
	_ context.Context, req *csiv1.CreateVolumeRequest,
) (*csiv1.CreateVolumeResponse, error) {
	if err := required("name", req.GetName()); err != nil {
		return nil, err
	}
	if len(req.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "volume_capabilities are missing")
	}
	for _, capability := range req.GetVolumeCapabilities() {
		if err := supported(capability); err != nil {
			return nil, err
		}
	}
	var source string
	if s := req.GetVolumeContentSource(); s != nil {
		source = cmp.Or(s.GetSnapshot().GetSnapshotId(), s.GetVolume().GetVolumeId())
		if source == "" {
			return nil, status.Error(codes.InvalidArgument, "volume_content_source is neither a snapshot nor a volume")
		}
	}
	size, err := sizeOf(req.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if err := c.sync(source); err != nil {
		return nil, answer(err)
	}
	v, err := c.pool.CreateVolume(req.GetName(), size, source)
	if err != nil {
		return nil, answer(err)
	}
	return &csiv1.CreateVolumeResponse{Volume: &csiv1.Volume{
		VolumeId: v.ID, CapacityBytes: v.Size, ContentSource: req.GetVolumeContentSource(),
	}}, nil
}

// sizeOf is the size of a volume of a range.
func sizeOf(r *csiv1.CapacityRange) (int64, error) {
	if r.GetRequiredBytes() < 0 || r.GetLimitBytes() < 0 {
		return 0, status.Error(codes.InvalidArgument, "capacity_range is negative")
	}
	size := pool.Round(cmp.Or(r.GetRequiredBytes(), min(defaultSize, cmp.Or(r.GetLimitBytes(), defaultSize))))
	if limit := r.GetLimitBytes(); limit > 0 && size > limit {
		return 0, status.Errorf(codes.OutOfRange, "the volume would have %d bytes, more than %d", size, limit)
	}
	return size, nil
}

func (c *controller) DeleteVolume(
	_ context.Context, req *csiv1.DeleteVolumeRequest,
) (*csiv1.DeleteVolumeResponse, error) {
	if err := required("volume_id", req.GetVolumeId()); err != nil {
		return nil, err
	}
	if err := c.pool.DeleteVolume(req.GetVolumeId()); err != nil {
		return nil, answer(err)
	}
	return &csiv1.DeleteVolumeResponse{}, nil
}

func (c *controller) ControllerPublishVolume(
	_ context.Context, req *csiv1.ControllerPublishVolumeRequest,
) (*csiv1.ControllerPublishVolumeResponse, error) {
	if err := required("volume_id", req.GetVolumeId(), "node_id", req.GetNodeId()); err != nil {
		return nil, err
	}
	if err := supported(req.GetVolumeCapability()); err != nil {
		return nil, err
	}
	mode := modes[req.GetVolumeCapability().GetAccessMode().GetMode()]
	want := pool.Attachment{Node: req.GetNodeId(), ReadOnly: req.GetReadonly() || mode.readOnly, Shared: mode.shared}
	err := c.pool.Change(req.GetVolumeId(), func(v *pool.Volume) error {
		if !slices.ContainsFunc(c.nodes, func(n Node) bool { return n.Name == want.Node }) {
			return status.Errorf(codes.NotFound, "there is no node %q", want.Node)
		}
		for _, a := range v.Attached {
			switch {
			case a == want:
				return nil
			case a.Node == want.Node:
				return status.Errorf(codes.AlreadyExists, "volume %s is attached to %s in another way", v.ID, a.Node)
			case !a.Shared || !want.Shared:
				return status.Errorf(codes.FailedPrecondition, "volume %s is attached to node %s", v.ID, a.Node)
			}
		}
		v.Attached = append(v.Attached, want)
		return nil
	})
	if err != nil {
		return nil, answer(err)
	}
	return &csiv1.ControllerPublishVolumeResponse{}, nil
}

func (c *controller) ControllerUnpublishVolume(
	_ context.Context, req *csiv1.ControllerUnpublishVolumeRequest,
) (*csiv1.ControllerUnpublishVolumeResponse, error) {
	if err := required("volume_id", req.GetVolumeId()); err != nil {
		return nil, err
	}
	err := c.pool.Change(req.GetVolumeId(), func(v *pool.Volume) error {
		v.Attached = slices.DeleteFunc(v.Attached, func(a pool.Attachment) bool {
			return req.GetNodeId() == "" || a.Node == req.GetNodeId()
		})
		return nil
	})
	// A volume that is gone is attached to no node.
	if err = answer(err); err != nil && status.Code(err) != codes.NotFound {
		return nil, err
	}
	return &csiv1.ControllerUnpublishVolumeResponse{}, nil
}

func (c *controller) ValidateVolumeCapabilities(
	_ context.Context, req *csiv1.ValidateVolumeCapabilitiesRequest,
) (*csiv1.ValidateVolumeCapabilitiesResponse, error) {
	if err := required("volume_id", req.GetVolumeId()); err != nil {
		return nil, err
	}
	if len(req.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "volume_capabilities are missing")
	}
	if _, err := c.pool.Volume(req.GetVolumeId()); err != nil {
		return nil, answer(err)
	}
	for _, capability := range req.GetVolumeCapabilities() {
		if err := supported(capability); err != nil {
			return &csiv1.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil //nolint:nilerr // It is the answer.
		}
	}
	return &csiv1.ValidateVolumeCapabilitiesResponse{Confirmed: &csiv1.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(),
		Parameters: req.GetParameters(),
	}}, nil
}

func (c *controller) GetCapacity(
	context.Context, *csiv1.GetCapacityRequest,
) (*csiv1.GetCapacityResponse, error) {
	free, err := c.pool.Free()
	if err != nil {
		return nil, answer(err)
	}
	return &csiv1.GetCapacityResponse{AvailableCapacity: free}, nil
}

func (c *controller) ControllerExpandVolume(
	_ context.Context, req *csiv1.ControllerExpandVolumeRequest,
) (*csiv1.ControllerExpandVolumeResponse, error) {
	if err := required("volume_id", req.GetVolumeId()); err != nil {
		return nil, err
	}
	if req.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "capacity_range is missing")
	}
	size, err := sizeOf(req.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	size, err = c.pool.Expand(req.GetVolumeId(), size)
	if err != nil {
		return nil, answer(err)
	}
	return &csiv1.ControllerExpandVolumeResponse{CapacityBytes: size}, nil
}

func (c *controller) CreateSnapshot(
	_ context.Context, req *csiv1.CreateSnapshotRequest,
) (*csiv1.CreateSnapshotResponse, error) {
	if err := required("name", req.GetName(), "source_volume_id", req.GetSourceVolumeId()); err != nil {
		return nil, err
	}
	if err := c.sync(req.GetSourceVolumeId()); err != nil {
		return nil, answer(err)
	}
	s, err := c.pool.CreateSnapshot(req.GetName(), req.GetSourceVolumeId())
	if err != nil {
		return nil, answer(err)
	}
	return &csiv1.CreateSnapshotResponse{Snapshot: describe(s)}, nil
}

// sync has the image of a volume in use hold everything that was written before, as file systems do that take snapshots
// themselves. What has no image yet, or is no volume, needs nothing.
func (c *controller) sync(volume string) error {
	v, err := c.pool.Volume(volume)
	if errors.Is(err, pool.ErrNotFound) || err == nil && len(v.Staged) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, place := range v.Staged {
		mounted, err := mounts.Is(place.Path)
		if err != nil {
			return err
		}
		if !mounted {
			continue // A device.
		}
		if err := flush(place.Path, func(f *os.File) error { return unix.Syncfs(int(f.Fd())) }); err != nil {
			return err
		}
	}
	return c.flushImage(v)
}

// flushImage has the image of a volume hold what was written to its device.
func (d *Driver) flushImage(v pool.Volume) error {
	device, err := loop.Find(d.pool.Image(v.ID))
	if err != nil || device == "" {
		return err
	}
	return flush(device, (*os.File).Sync)
}

// flush calls sync with a file, unless that is gone.
func flush(path string, sync func(*os.File) error) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("syncing a volume: %w", err)
	}
	defer f.Close()
	if err := sync(f); err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}

func describe(s pool.Snapshot) *csiv1.Snapshot {
	return &csiv1.Snapshot{
		SnapshotId: s.ID, SourceVolumeId: s.Volume, SizeBytes: s.Size, CreationTime: timestamppb.New(s.Created),
		ReadyToUse: true, GroupSnapshotId: s.Group,
	}
}

func (c *controller) DeleteSnapshot(
	_ context.Context, req *csiv1.DeleteSnapshotRequest,
) (*csiv1.DeleteSnapshotResponse, error) {
	if err := required("snapshot_id", req.GetSnapshotId()); err != nil {
		return nil, err
	}
	if err := c.pool.DeleteSnapshot(req.GetSnapshotId()); err != nil {
		return nil, answer(err)
	}
	return &csiv1.DeleteSnapshotResponse{}, nil
}

func (c *controller) ListVolumes(
	_ context.Context, req *csiv1.ListVolumesRequest,
) (*csiv1.ListVolumesResponse, error) {
	list, err := c.pool.Volumes()
	if err != nil {
		return nil, answer(err)
	}
	list, next, err := page(list, req.GetStartingToken(), req.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	resp := &csiv1.ListVolumesResponse{NextToken: next}
	for _, v := range list {
		resp.Entries = append(resp.Entries, &csiv1.ListVolumesResponse_Entry{
			Volume: &csiv1.Volume{VolumeId: v.ID, CapacityBytes: v.Size},
		})
	}
	return resp, nil
}

func (c *controller) ListSnapshots(
	_ context.Context, req *csiv1.ListSnapshotsRequest,
) (*csiv1.ListSnapshotsResponse, error) {
	list, err := c.pool.Snapshots()
	if err != nil {
		return nil, answer(err)
	}
	list = slices.DeleteFunc(list, func(s pool.Snapshot) bool {
		return req.GetSnapshotId() != "" && s.ID != req.GetSnapshotId() ||
			req.GetSourceVolumeId() != "" && s.Volume != req.GetSourceVolumeId()
	})
	list, next, err := page(list, req.GetStartingToken(), req.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	resp := &csiv1.ListSnapshotsResponse{NextToken: next}
	for _, s := range list {
		resp.Entries = append(resp.Entries, &csiv1.ListSnapshotsResponse_Entry{Snapshot: describe(s)})
	}
	return resp, nil
}

// page is a part of a list, and the token of the next part if there is one. A token is how many entries came before.
func page[T any](list []T, token string, most int32) ([]T, string, error) {
	var begin int
	if token != "" {
		n, err := strconv.Atoi(token)
		if err != nil || n < 0 {
			return nil, "", status.Errorf(codes.Aborted, "starting_token %q was not given out", token)
		}
		begin = min(n, len(list))
	}
	if list = list[begin:]; most > 0 && int(most) < len(list) {
		return list[:most], strconv.Itoa(begin + int(most)), nil
	}
	return list, "", nil
}
