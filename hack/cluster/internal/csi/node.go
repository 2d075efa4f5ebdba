// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	csiv1 "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/hack/cluster/internal/loop"
	"github.com/lighterage/lighterage/hack/cluster/internal/mounts"
	"github.com/lighterage/lighterage/hack/cluster/internal/pool"
)

type node struct {
	csiv1.UnimplementedNodeServer
	*Driver
	name string
}

func (n *node) NodeGetInfo(context.Context, *csiv1.NodeGetInfoRequest) (*csiv1.NodeGetInfoResponse, error) {
	return &csiv1.NodeGetInfoResponse{NodeId: n.name}, nil
}

func (n *node) NodeGetCapabilities(
	context.Context, *csiv1.NodeGetCapabilitiesRequest,
) (*csiv1.NodeGetCapabilitiesResponse, error) {
	resp := &csiv1.NodeGetCapabilitiesResponse{}
	for _, t := range []csiv1.NodeServiceCapability_RPC_Type{
		csiv1.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csiv1.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csiv1.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		resp.Capabilities = append(resp.Capabilities, &csiv1.NodeServiceCapability{
			Type: &csiv1.NodeServiceCapability_Rpc{Rpc: &csiv1.NodeServiceCapability_RPC{Type: t}},
		})
	}
	return resp, nil
}

// NodeStageVolume gives the volume a loop device, and mounts that unless the volume is used as a device.
func (n *node) NodeStageVolume(
	ctx context.Context, req *csiv1.NodeStageVolumeRequest,
) (*csiv1.NodeStageVolumeResponse, error) {
	if err := required("volume_id", req.GetVolumeId(), "staging_target_path", req.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	if err := supported(req.GetVolumeCapability()); err != nil {
		return nil, err
	}
	place := pool.Place{Node: n.name, Path: filepath.Clean(req.GetStagingTargetPath())}
	err := n.pool.Change(req.GetVolumeId(), func(v *pool.Volume) error {
		if !slices.ContainsFunc(v.Attached, func(a pool.Attachment) bool { return a.Node == n.name }) {
			return status.Errorf(codes.FailedPrecondition, "volume %s is not attached to node %s", v.ID, n.name)
		}
		device, err := loop.Attach(n.pool.Image(v.ID))
		if err != nil {
			return err
		}
		if !slices.Contains(v.Staged, place) {
			v.Staged = append(v.Staged, place)
		}
		if req.GetVolumeCapability().GetBlock() == nil {
			if err := mountDevice(ctx, device, place.Path, v, req.GetVolumeCapability()); err != nil {
				return errors.Join(err, n.release(v, place))
			}
		}
		v.Blank = false
		return nil
	})
	if err != nil {
		return nil, answer(err)
	}
	return &csiv1.NodeStageVolumeResponse{}, nil
}

// mountDevice mounts the file system of the device, which it makes if nothing was ever written to it, and gives it all
// of the device. That is done before it is mounted, because the kernel lets only processes with CAP_SYS_RESOURCE do so
// later, which even root may lack.
func mountDevice(ctx context.Context, device, path string, v *pool.Volume, c *csiv1.VolumeCapability) error {
	if mounted, err := mounts.Is(path); err != nil || mounted {
		return err
	}
	// Without a reserve for root, so that a claim holds what it says.
	steps := [][]string{{"mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard", device}}
	if !v.Blank {
		steps = nil
		// One that is mounted at another node has all of its device already.
		if v.FileSystem > 0 && v.FileSystem < v.Size {
			steps = [][]string{{"e2fsck", "-f", "-p", device}, {"resize2fs", device}}
		}
	}
	for _, step := range steps {
		if err := run(ctx, step[0], step[1:]...); err != nil {
			return err
		}
		v.FileSystem = v.Size
	}
	if err := os.MkdirAll(path, 0o750); err != nil {
		return fmt.Errorf("making the place of a mount: %w", err)
	}
	var flags uintptr
	if modes[c.GetAccessMode().GetMode()].readOnly || slices.Contains(c.GetMount().GetMountFlags(), "ro") {
		flags = unix.MS_RDONLY
	}
	// What is deleted becomes a hole of the image again.
	if err := unix.Mount(device, path, fsType, flags, "discard"); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", device, path, err)
	}
	if !v.Blank || flags != 0 {
		return nil
	}
	// As for other volumes of the local clusters: any user may write to a fresh one.
	if err := os.Chmod(path, 0o777); err != nil {
		return errors.Join(fmt.Errorf("opening a volume to all users: %w", err), mounts.Unmount(path))
	}
	return nil
}

func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if ended := (*exec.ExitError)(nil); name == "e2fsck" && errors.As(err, &ended) && ended.ExitCode() == 1 {
		return nil // It has corrected what it found, such as a journal to replay.
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// release forgets the place, and frees the volume's device if it was the last.
func (n *node) release(v *pool.Volume, place pool.Place) error {
	v.Staged = slices.DeleteFunc(v.Staged, func(p pool.Place) bool { return p == place })
	if len(v.Staged) > 0 {
		return nil
	}
	device, err := loop.Find(n.pool.Image(v.ID))
	if err != nil || device == "" {
		return err
	}
	return loop.Detach(device)
}

func (n *node) NodeUnstageVolume(
	_ context.Context, req *csiv1.NodeUnstageVolumeRequest,
) (*csiv1.NodeUnstageVolumeResponse, error) {
	if err := required("volume_id", req.GetVolumeId(), "staging_target_path", req.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	place := pool.Place{Node: n.name, Path: filepath.Clean(req.GetStagingTargetPath())}
	err := n.pool.Change(req.GetVolumeId(), func(v *pool.Volume) error {
		if err := mounts.Unmount(place.Path); err != nil {
			return err
		}
		return n.release(v, place)
	})
	if err != nil {
		return nil, answer(err)
	}
	return &csiv1.NodeUnstageVolumeResponse{}, nil
}

func (n *node) NodePublishVolume(
	_ context.Context, req *csiv1.NodePublishVolumeRequest,
) (*csiv1.NodePublishVolumeResponse, error) {
	err := required(
		"volume_id", req.GetVolumeId(), "staging_target_path", req.GetStagingTargetPath(), "target_path", req.GetTargetPath(),
	)
	if err != nil {
		return nil, err
	}
	if err := supported(req.GetVolumeCapability()); err != nil {
		return nil, err
	}
	staged := pool.Place{Node: n.name, Path: filepath.Clean(req.GetStagingTargetPath())}
	place := pool.Place{Node: n.name, Path: filepath.Clean(req.GetTargetPath())}
	err = n.pool.Change(req.GetVolumeId(), func(v *pool.Volume) error {
		if !slices.Contains(v.Staged, staged) {
			return status.Errorf(codes.FailedPrecondition, "volume %s is not staged at %s", v.ID, staged.Path)
		}
		single := req.GetVolumeCapability().GetAccessMode().GetMode() ==
			csiv1.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
		if single && slices.ContainsFunc(v.Published, func(p pool.Place) bool { return p != place }) {
			return status.Errorf(codes.FailedPrecondition, "volume %s is published elsewhere and has a single writer", v.ID)
		}
		source := staged.Path
		if req.GetVolumeCapability().GetBlock() != nil {
			var err error
			if source, err = n.device(v); err != nil {
				return err
			}
		}
		if err := bind(source, place.Path, req.GetVolumeCapability().GetBlock() != nil, req.GetReadonly()); err != nil {
			return err
		}
		if !slices.Contains(v.Published, place) {
			v.Published = append(v.Published, place)
		}
		return nil
	})
	if err != nil {
		return nil, answer(err)
	}
	return &csiv1.NodePublishVolumeResponse{}, nil
}

// device is that of a volume that is staged.
func (n *node) device(v *pool.Volume) (string, error) {
	device, err := loop.Find(n.pool.Image(v.ID))
	if err == nil && device == "" {
		err = fmt.Errorf("volume %s has lost its device: stage it again", v.ID)
	}
	return device, err
}

// bind makes source appear at target too, which is a file if source is a device.
func bind(source, target string, device, readOnly bool) error {
	if mounted, err := mounts.Is(target); err != nil || mounted {
		return err
	}
	if err := makeTarget(target, device); err != nil {
		return fmt.Errorf("making the place of a mount: %w", err)
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding %s to %s: %w", source, target, err)
	}
	// A device is kept from being written to by the container's permissions.
	if !readOnly || device {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("binding %s to %s for reading: %w", source, target, err), mounts.Unmount(target))
	}
	return nil
}

func makeTarget(target string, file bool) error {
	if !file {
		return os.MkdirAll(target, 0o750)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o640)
	if err != nil {
		return err
	}
	return f.Close()
}

func (n *node) NodeUnpublishVolume(
	_ context.Context, req *csiv1.NodeUnpublishVolumeRequest,
) (*csiv1.NodeUnpublishVolumeResponse, error) {
	if err := required("volume_id", req.GetVolumeId(), "target_path", req.GetTargetPath()); err != nil {
		return nil, err
	}
	place := pool.Place{Node: n.name, Path: filepath.Clean(req.GetTargetPath())}
	err := n.pool.Change(req.GetVolumeId(), func(v *pool.Volume) error {
		if err := mounts.Unmount(place.Path); err != nil {
			return err
		}
		// Not what is in it: it is empty, or not what was bound there.
		if err := os.Remove(place.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the place of a mount: %w", err)
		}
		v.Published = slices.DeleteFunc(v.Published, func(p pool.Place) bool { return p == place })
		return nil
	})
	if err != nil {
		return nil, answer(err)
	}
	return &csiv1.NodeUnpublishVolumeResponse{}, nil
}

// used finds a volume, and whether it is used as a device at path.
func (n *node) used(id, path string) (v pool.Volume, device bool, err error) {
	if err := required("volume_id", id, "volume_path", path); err != nil {
		return v, false, err
	}
	if v, err = n.pool.Volume(id); err != nil {
		return v, false, answer(err)
	}
	place := pool.Place{Node: n.name, Path: filepath.Clean(path)}
	if !slices.Contains(v.Staged, place) && !slices.Contains(v.Published, place) {
		return v, false, status.Errorf(codes.NotFound, "volume %s is not at %s", id, path)
	}
	st, err := os.Stat(path)
	if err != nil {
		return v, false, status.Error(codes.NotFound, err.Error())
	}
	return v, !st.IsDir(), nil
}

func (n *node) NodeGetVolumeStats(
	_ context.Context, req *csiv1.NodeGetVolumeStatsRequest,
) (*csiv1.NodeGetVolumeStatsResponse, error) {
	v, device, err := n.used(req.GetVolumeId(), req.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if device {
		return &csiv1.NodeGetVolumeStatsResponse{
			Usage: []*csiv1.VolumeUsage{{Unit: csiv1.VolumeUsage_BYTES, Total: v.Size}},
		}, nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(req.GetVolumePath(), &st); err != nil {
		return nil, answer(fmt.Errorf("measuring volume %s: %w", v.ID, err))
	}
	return &csiv1.NodeGetVolumeStatsResponse{Usage: []*csiv1.VolumeUsage{
		{
			Unit: csiv1.VolumeUsage_BYTES, Total: int64(st.Blocks) * st.Bsize,
			Available: int64(st.Bavail) * st.Bsize, Used: int64(st.Blocks-st.Bfree) * st.Bsize,
		},
		{
			Unit: csiv1.VolumeUsage_INODES, Total: int64(st.Files), Available: int64(st.Ffree), Used: int64(st.Files - st.Ffree),
		},
	}}, nil
}
