// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=objectstores,verbs=get;list;watch

// storeUse is an object store that a Queue names.
type storeUse struct {
	field string
	at    *v1alpha1.ObjectStorePath
	// volume with the credentials, and where it is mounted.
	volume, directory string
	// missing is the reason if there is none.
	missing string
}

// storeUses are the object stores that a Queue names.
func storeUses(spec v1alpha1.QueueSpec) []storeUse {
	var uses []storeUse
	if spec.Archive != nil && spec.Archive.ObjectStore != nil {
		uses = append(uses, storeUse{
			"spec.archive", spec.Archive.ObjectStore, "archive-store", "/etc/lighterage-archive-store",
			v1alpha1.ReasonDestinationNotFound,
		})
	}
	if spec.Restore != nil && spec.Restore.ObjectStore != nil {
		uses = append(uses, storeUse{
			"spec.restore", spec.Restore.ObjectStore, "restore-store", "/etc/lighterage-restore-store",
			v1alpha1.ReasonSourceNotFound,
		})
	}
	return uses
}

// find returns the ObjectStore, nil if there is none.
func (u storeUse) find(stores []v1alpha1.ObjectStore) *v1alpha1.ObjectStore {
	i := slices.IndexFunc(stores, func(s v1alpha1.ObjectStore) bool { return s.Name == u.at.Name })
	if i < 0 {
		return nil
	}
	return &stores[i]
}

// gatherStores looks at the object stores that a Queue names.
func (r *Reconciler) gatherStores(ctx context.Context, queue *v1alpha1.Queue) ([]v1alpha1.ObjectStore, error) {
	var stores []v1alpha1.ObjectStore
	for _, use := range storeUses(queue.Spec) {
		store := v1alpha1.ObjectStore{}
		found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Namespace: queue.Namespace, Name: use.at.Name}, &store)
		if err != nil {
			return nil, err
		}
		if found && use.find(stores) == nil {
			stores = append(stores, store)
		}
	}
	return stores, nil
}

// unfitStore are the reasons of an ObjectStore with which members do not begin to use it. With others, such as a server
// that does not answer, they begin, try again, and say how it is.
var unfitStore = []string{v1alpha1.ReasonPromiseNotKept, v1alpha1.ReasonStoreUnfit}

// checkArchiveStores is why object stores of archives cannot be used.
func checkArchiveStores(queue *v1alpha1.Queue, stores []v1alpha1.ObjectStore) *agentpod.Problem {
	for _, use := range storeUses(queue.Spec) {
		store := use.find(stores)
		if store == nil || store.DeletionTimestamp != nil {
			return &agentpod.Problem{Reason: use.missing, Message: fmt.Sprintf(
				"ObjectStore %q, which %s names, does not exist in namespace %q; create it, or name another",
				use.at.Name, use.field, queue.Namespace,
			)}
		}
		ready := meta.FindStatusCondition(store.Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case ready == nil || ready.ObservedGeneration != store.Generation || ready.Reason == v1alpha1.ReasonProbing:
			return &agentpod.Problem{Reason: v1alpha1.ReasonProbing, Message: fmt.Sprintf(
				"ObjectStore %q, which %s names, has not been probed yet", use.at.Name, use.field)}
		case ready.Status != metav1.ConditionTrue && slices.Contains(unfitStore, ready.Reason):
			return &agentpod.Problem{Reason: ready.Reason, Message: fmt.Sprintf(
				"ObjectStore %q, which %s names, is not ready: %s", use.at.Name, use.field, ready.Message)}
		}
	}
	return nil
}

// archiveStores fills in what members are told of object stores.
func archiveStores(config *wirev1.QueueConfig, queue *v1alpha1.Queue, stores []v1alpha1.ObjectStore) error {
	for _, use := range storeUses(queue.Spec) {
		store := use.find(stores)
		if store == nil {
			continue // checkArchiveStores has said so
		}
		if err := attempt.ValidatePath(use.field+".objectStore.path", use.at.Path); err != nil {
			return err
		}
		told := attempt.StoreConfig(store.Spec, use.at.Path)
		if store.Spec.Credentials != nil {
			told.CredentialsDirectory = use.directory
		}
		if use.missing == v1alpha1.ReasonSourceNotFound {
			config.Restore.Store = told
		} else {
			config.Archive.Store = told
		}
	}
	if r := config.GetRestore(); r != nil && (r.GetDirectory() == "") == (r.GetStore() == nil) {
		return &policy.InvalidError{
			Field: "spec.restore", Fix: "must have exactly one of persistentVolumeClaim and objectStore",
		}
	}
	if a := config.GetArchive(); a != nil && a.GetDirectory() == "" && a.GetStore() == nil {
		return &policy.InvalidError{Field: "spec.archive", Fix: "must have persistentVolumeClaim, objectStore or both"}
	}
	return nil
}

// toldStores are the object stores that members are told of.
func toldStores(config *wirev1.QueueConfig) []*wirev1.ObjectStoreConfig {
	var all []*wirev1.ObjectStoreConfig
	for _, store := range []*wirev1.ObjectStoreConfig{config.GetArchive().GetStore(), config.GetRestore().GetStore()} {
		if store != nil {
			all = append(all, store)
		}
	}
	return all
}

// toldUses are what members dial of them.
func toldUses(config *wirev1.QueueConfig) []egress.Use {
	var uses []egress.Use
	for _, store := range toldStores(config) {
		host, _ := attempt.WireStoreHost(store)
		uses = append(uses, egress.Use{Field: "the endpoint of the archive's ObjectStore", Written: host, Host: host})
	}
	return uses
}

// specUses are what members would dial of the object stores that a Queue names.
func specUses(stores []v1alpha1.ObjectStore) []egress.Use {
	var uses []egress.Use
	for i := range stores {
		host, _ := attempt.StoreHost(stores[i].Spec)
		uses = append(uses, egress.Use{Field: "spec.endpoint of ObjectStore " + stores[i].Name, Written: host, Host: host})
	}
	return uses
}

// digestStores writes what of object stores counts at the start only.
func digestStores(to io.Writer, config *wirev1.QueueConfig) {
	for _, s := range toldStores(config) {
		// A hash never fails to take what is written.
		_, _ = fmt.Fprintf(to, "store %q %q %q %q %t %q %q %q %t %q\n", s.GetEndpoint(), s.GetBucket(), s.GetPrefix(),
			s.GetRegion(), s.GetVirtualHost(), s.GetCaBundle(), s.GetCredentialsDirectory(), s.GetStorageClass(),
			s.GetEncryptS3(), s.GetKmsKeyId())
	}
}

// storeVolumes are those with the credentials of object stores, of which only the keys that are read are mounted.
func (w Wanted) storeVolumes() ([]corev1.Volume, []corev1.VolumeMount) {
	var volumes []corev1.Volume
	var mounts []corev1.VolumeMount
	for _, use := range storeUses(w.Queue.Spec) {
		store := use.find(w.neighbours.Stores)
		if store == nil || store.Spec.Credentials == nil {
			continue
		}
		volumes = append(volumes, replicas.OptionalSecretVolume(
			use.volume, store.Spec.Credentials.SecretName, wirev1.ObjectStoreKeys()...,
		))
		mounts = append(mounts, corev1.VolumeMount{Name: use.volume, MountPath: use.directory, ReadOnly: true})
	}
	return volumes, mounts
}

// ofStore wakes the Queues that name an ObjectStore.
func (r *Reconciler) ofStore(ctx context.Context, store client.Object) []reconcile.Request {
	return r.requests(ctx, func(q *v1alpha1.Queue) bool {
		return slices.ContainsFunc(storeUses(q.Spec), func(u storeUse) bool { return u.at.Name == store.GetName() })
	}, client.InNamespace(store.GetNamespace()))
}
