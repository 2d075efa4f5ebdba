// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage serves PersistentVolumeClaims of the local clusters with folders
// and with tmpfs mounts of this machine.
//
// Volumes are of the type local: the kubelet gives those the pod's fsGroup, which
// it does not for hostPath. The process runs on the host; nodes share its mounts.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// Provisioner is the name that the StorageClasses give.
	Provisioner = "lighterage.dev/local"
	// MediumParameter of a StorageClass chooses a folder or a tmpfs.
	MediumParameter = "medium"
	// MediumTmpfs makes each volume a tmpfs of the size that was asked for.
	MediumTmpfs = "tmpfs"

	provisionedBy = "pv.kubernetes.io/provisioned-by"
	selectedNode  = "volume.kubernetes.io/selected-node"
)

// Controller makes and deletes the volumes of one cluster.
type Controller struct {
	// Client reaches the cluster.
	Client kubernetes.Interface
	// Dir holds one folder a volume.
	Dir string
	// Mount and Unmount make and remove a tmpfs.
	Mount   func(dir string, size int64) error
	Unmount func(dir string) error
}

// New makes a Controller that mounts for real.
func New(client kubernetes.Interface, dir string) *Controller {
	return &Controller{Client: client, Dir: dir, Mount: mountTmpfs, Unmount: unmount}
}

func mountTmpfs(dir string, size int64) error {
	if mounted, err := isMountPoint(dir); err != nil || mounted {
		return err
	}
	return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0777,size="+strconv.FormatInt(size, 10))
}

func unmount(dir string) error {
	if mounted, err := isMountPoint(dir); err != nil || !mounted {
		return err
	}
	return unix.Unmount(dir, unix.MNT_DETACH)
}

func isMountPoint(dir string) (bool, error) {
	var own, parent unix.Stat_t
	if err := unix.Lstat(dir, &own); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return false, nil
		}
		return false, err
	}
	if err := unix.Lstat(filepath.Dir(dir), &parent); err != nil {
		return false, err
	}
	return own.Dev != parent.Dev, nil
}

// Run serves until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of volumes: %w", err)
	}
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[item](100*time.Millisecond, 30*time.Second),
		workqueue.TypedRateLimitingQueueConfig[item]{Name: "volumes"})
	defer queue.ShutDown()

	claims := factory.Core().V1().PersistentVolumeClaims()
	volumes := factory.Core().V1().PersistentVolumes()
	classes := factory.Storage().V1().StorageClasses()
	if err := enqueue(claims.Informer(), queue, false); err != nil {
		return err
	}
	if err := enqueue(volumes.Informer(), queue, true); err != nil {
		return err
	}
	classes.Informer()
	factory.Start(ctx.Done())
	for kind, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return fmt.Errorf("listing %s: %w", kind, context.Cause(ctx))
		}
	}
	log.Printf("Serving claims with volumes in %s", c.Dir)

	context.AfterFunc(ctx, queue.ShutDown)
	for {
		it, stopped := queue.Get()
		if stopped {
			return nil
		}
		if err := c.sync(ctx, factory, it); err != nil {
			log.Printf("%s: %v", it, err)
			queue.AddRateLimited(it)
		} else {
			queue.Forget(it)
		}
		queue.Done(it)
	}
}

// item is a claim (namespace and name) or a volume (name alone).
type item struct {
	volume          bool
	namespace, name string
}

func (i item) String() string {
	if i.volume {
		return "PersistentVolume " + i.name
	}
	return "PersistentVolumeClaim " + i.namespace + "/" + i.name
}

func enqueue(informer cache.SharedIndexInformer, queue workqueue.TypedRateLimitingInterface[item], volume bool) error {
	add := func(obj any) {
		if m, ok := obj.(metav1.Object); ok {
			queue.Add(item{volume: volume, namespace: m.GetNamespace(), name: m.GetName()})
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, obj any) { add(obj) },
	})
	return err
}

func (c *Controller) sync(ctx context.Context, factory informers.SharedInformerFactory, it item) error {
	if it.volume {
		pv, err := factory.Core().V1().PersistentVolumes().Lister().Get(it.name)
		if err != nil {
			return ignoreNotFound(err)
		}
		return c.syncVolume(ctx, pv)
	}
	pvc, err := factory.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(it.namespace).Get(it.name)
	if err != nil {
		return ignoreNotFound(err)
	}
	if pvc.Spec.StorageClassName == nil || pvc.Spec.VolumeName != "" || pvc.DeletionTimestamp != nil {
		return nil
	}
	class, err := factory.Storage().V1().StorageClasses().Lister().Get(*pvc.Spec.StorageClassName)
	if err != nil {
		return ignoreNotFound(err)
	}
	node := pvc.Annotations[selectedNode]
	if class.Provisioner != Provisioner || node == "" {
		return nil
	}
	if _, err := factory.Core().V1().PersistentVolumes().Lister().Get(volumeName(pvc)); err == nil {
		return nil // made already; the claim is about to be bound
	}
	return c.provision(ctx, pvc, class, node)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// provision makes the folder, or the tmpfs, and then the volume.
func (c *Controller) provision(
	ctx context.Context, pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node string,
) error {
	pv := Volume(pvc, class, node, c.Dir)
	dir := pv.Spec.Local.Path
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the volume's folder: %w", err)
	}
	if class.Parameters[MediumParameter] == MediumTmpfs {
		size := pvc.Spec.Resources.Requests[corev1.ResourceStorage]
		if err := c.Mount(dir, size.Value()); err != nil {
			return fmt.Errorf("mounting a tmpfs of %s at %s: %w", size.String(), dir, err)
		}
	}
	// The mode of Mkdir is cut by the umask. Any user may write, as pods that set
	// no fsGroup expect of a fresh volume.
	if err := os.Chmod(dir, 0o777); err != nil {
		return fmt.Errorf("opening the volume's folder to all users: %w", err)
	}
	_, err := c.Client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating PersistentVolume %s: %w", pv.Name, err)
	}
	log.Printf("Made %s for PersistentVolumeClaim %s/%s on %s", dir, pvc.Namespace, pvc.Name, node)
	return nil
}

func volumeName(pvc *corev1.PersistentVolumeClaim) string { return "pvc-" + string(pvc.UID) }

// Volume is the PersistentVolume for a claim on a node, with its data below dir.
func Volume(
	pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node, dir string,
) *corev1.PersistentVolume {
	name := volumeName(pvc)
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	mode := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: pvc.Spec.Resources.Requests[corev1.ResourceStorage],
			},
			AccessModes:                   pvc.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: reclaim,
			StorageClassName:              class.Name,
			VolumeMode:                    &mode,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: pvc.Namespace, Name: pvc.Name, UID: pvc.UID, ResourceVersion: pvc.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: filepath.Join(dir, name)},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
				}}}},
			}},
		},
	}
}

// syncVolume deletes a volume whose claim is gone, data first: a crash in between
// leaves a volume to delete again rather than data that nobody knows of.
func (c *Controller) syncVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Annotations[provisionedBy] != Provisioner || pv.Spec.Local == nil ||
		pv.Status.Phase != corev1.VolumeReleased ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	// The path is the cluster's word; only what was made here is removed.
	dir := filepath.Join(c.Dir, pv.Name)
	if pv.Spec.Local.Path != dir {
		return fmt.Errorf("its path %s is not the %s that was made for it: delete it by hand", pv.Spec.Local.Path, dir)
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) && pv.DeletionTimestamp != nil {
		return nil // done; the cluster's own finalizer is about to go
	}
	if err := c.Unmount(dir); err != nil {
		return fmt.Errorf("unmounting %s: %w", dir, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("deleting the volume's data: %w", err)
	}
	err := c.Client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pv.UID},
	})
	if err != nil {
		return ignoreNotFound(fmt.Errorf("deleting PersistentVolume: %w", err))
	}
	log.Printf("Deleted %s", dir)
	return nil
}
