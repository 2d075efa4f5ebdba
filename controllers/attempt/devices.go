// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// deviceDirectory is where devices are in a pod, at the paths of volumes below it.
const deviceDirectory = "/dev"

// IsBlock reports whether a claim is of a block volume; false if it is nil.
func IsBlock(claim *corev1.PersistentVolumeClaim) bool {
	return claim != nil && ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) ==
		corev1.PersistentVolumeBlock
}

// UseDevices has the agent find devices in place of directories where a claim is of a block volume.
func (a *Attempt) UseDevices(source, destination bool) {
	switch config := a.spec.Config.(type) {
	case *wirev1.SendConfig:
		a.sendDevice(config, source)
	case *wirev1.HandOffConfig:
		a.sendDevice(config.Send, source)
	case *wirev1.ReceiveConfig:
		a.receiveDevice(config, destination)
	case *wirev1.LocalConfig:
		if config.SourceStore == nil {
			a.sendDevice(config.Send, source)
		}
		if config.DestinationStore == nil {
			a.receiveDevice(config.Receive, destination)
		}
	}
}

// UseImage has the agent keep a block volume as a file, or make one of that; nil: it does not.
func (a *Attempt) UseImage(image *wirev1.Image) {
	if config, ok := a.spec.Config.(*wirev1.LocalConfig); ok {
		config.Image = image
	}
}

func (a *Attempt) sendDevice(config *wirev1.SendConfig, block bool) {
	if block {
		config.Block, config.Volume = true, a.device(config.Volume)
	}
}

func (a *Attempt) receiveDevice(config *wirev1.ReceiveConfig, block bool) {
	if block {
		config.Block, config.Volume = true, a.device(config.Volume)
	}
}

// device turns the mount at a path into a device, and returns where that is.
func (a *Attempt) device(path string) string {
	for i := range a.spec.Mounts {
		if mount := &a.spec.Mounts[i]; mount.Path == path {
			mount.Block, mount.Path = true, deviceDirectory+path
			return mount.Path
		}
	}
	return path
}
