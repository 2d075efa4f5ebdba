// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/lighterage/lighterage/hack/cluster/internal/storage"
)

func class(name, provisioner, medium string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: name},
		Provisioner: provisioner,
		Parameters:  map[string]string{storage.MediumParameter: medium},
	}
}

func claim(name, class, node string) *corev1.PersistentVolumeClaim {
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")},
			},
		},
	}
	if node != "" {
		pvc.Annotations = map[string]string{"volume.kubernetes.io/selected-node": node}
	}
	return pvc
}

// eventually fails the test when ok does not become true within a minute.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// watched closes the channel it returns when somebody watches the volumes of a fake cluster, which tells nobody of what
// happened between a list and a watch.
func watched(client *fake.Clientset) <-chan struct{} {
	started := make(chan struct{})
	var once sync.Once
	client.PrependWatchReactor("persistentvolumes", func(action k8stesting.Action) (bool, watch.Interface, error) {
		var options metav1.ListOptions
		if with, ok := action.(k8stesting.WatchActionImpl); ok {
			options = with.ListOptions
		}
		events, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace(), options)
		once.Do(func() { close(started) })
		return true, events, err
	})
	return started
}

func TestClaimsGetVolumesAndLoseThem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volumes")
	client := fake.NewClientset(
		class("disk", storage.Provisioner, ""), class("memory", storage.Provisioner, storage.MediumTmpfs),
		class("foreign", "example.org/x", ""),
		claim("foreign", "foreign", "n1"), claim("unscheduled", "disk", ""), claim("disk", "disk", "n1"),
		claim("memory", "memory", "n2"),
	)
	watching := watched(client)
	var mu sync.Mutex
	mounted := map[string]int64{}
	c := &storage.Controller{
		Client: client, Dir: dir,
		Mount:   func(d string, size int64) error { mu.Lock(); defer mu.Unlock(); mounted[d] = size; return nil },
		Unmount: func(d string) error { mu.Lock(); defer mu.Unlock(); delete(mounted, d); return nil },
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	volume := func(name string) *corev1.PersistentVolume {
		pv, err := client.CoreV1().PersistentVolumes().Get(ctx, "pvc-"+name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return pv
	}

	eventually(t, "both claims have a volume", func() bool { return volume("disk") != nil && volume("memory") != nil })
	if volume("foreign") != nil || volume("unscheduled") != nil {
		t.Error("a claim of another provisioner, or of no node yet, got a volume")
	}
	path := filepath.Join(dir, "pvc-disk")
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o777 {
		t.Errorf("folder of the volume: %v, %v; want mode 0777", st, err)
	}
	mu.Lock()
	if size := mounted[filepath.Join(dir, "pvc-memory")]; size != 64<<20 || len(mounted) != 1 {
		t.Errorf("mounted %v, want one tmpfs of 64 MiB", mounted)
	}
	mu.Unlock()
	node := volume("memory").Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	if node.Key != "kubernetes.io/hostname" || node.Values[0] != "n2" {
		t.Errorf("node affinity %v", node)
	}

	<-watching
	for _, name := range []string{"disk", "memory"} {
		pv := volume(name)
		pv.Status.Phase = corev1.VolumeReleased
		if _, err := client.CoreV1().PersistentVolumes().UpdateStatus(ctx, pv, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both volumes are gone", func() bool { return volume("disk") == nil && volume("memory") == nil })
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the data of a deleted volume: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(mounted) != 0 {
		t.Errorf("still mounted: %v", mounted)
	}
}

// A PersistentVolume is the word of whoever may write one: it must not name a
// folder to delete.
func TestForeignPathIsNotDeleted(t *testing.T) {
	precious, dir := t.TempDir(), t.TempDir()
	released := func(name string) *corev1.PersistentVolume {
		pv := storage.Volume(claim(name, "disk", "n1"), class("disk", storage.Provisioner, ""), "n1", dir)
		pv.Status.Phase = corev1.VolumeReleased
		return pv
	}
	foreign := released("foreign")
	foreign.Spec.Local.Path = precious
	client := fake.NewClientset(foreign)
	watching := watched(client)
	asked := make(chan string, 10)
	c := &storage.Controller{
		Client: client, Dir: dir,
		Mount:   func(string, int64) error { return nil },
		Unmount: func(dir string) error { asked <- filepath.Base(dir); return nil },
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	// One volume after the other is looked at: when a later one is gone, the foreign one was.
	<-watching
	if _, err := client.CoreV1().PersistentVolumes().Create(ctx, released("ours"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the volume with a path of ours is gone", func() bool {
		_, err := client.CoreV1().PersistentVolumes().Get(ctx, "pvc-ours", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("the folder was deleted: %v", err)
	}
	if first := <-asked; first != "pvc-ours" || len(asked) != 0 {
		t.Errorf("%s was unmounted, and %d others", first, len(asked))
	}
}
