// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/queue"
)

// vault is an ObjectStore with a reason of its condition Ready.
func vault(reason string) v1alpha1.ObjectStore {
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: "of the probe",
		ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(now),
	}
	if reason == v1alpha1.ReasonPromisesKept {
		ready.Status = metav1.ConditionTrue
	}
	return v1alpha1.ObjectStore{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "vault", Generation: 2},
		Spec: v1alpha1.ObjectStoreSpec{
			Endpoint: "https://s3.example:9443", Bucket: "cargo", Prefix: "east",
			Credentials: &v1alpha1.StoreCredentials{SecretName: "vault-keys"},
		},
		Status: v1alpha1.ObjectStoreStatus{Conditions: []metav1.Condition{ready}},
	}
}

// stored has its archive in an object store.
func stored(s *v1alpha1.QueueSpec) {
	s.Archive = &v1alpha1.QueueArchive{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/queues"}}
}

// refilled is made of what is in one.
func refilled(s *v1alpha1.QueueSpec) {
	s.Restore = &v1alpha1.QueueRestore{
		ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}, Queue: "orders",
	}
}

func TestArchiveStores(t *testing.T) {
	kept := vault(v1alpha1.ReasonPromisesKept)
	changed := *kept.DeepCopy()
	changed.Generation++
	going := *kept.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: now}
	for name, test := range map[string]struct {
		change func(*v1alpha1.QueueSpec)
		stores []v1alpha1.ObjectStore
		reason string
	}{
		"ready":           {stored, []v1alpha1.ObjectStore{kept}, ""},
		"to be read":      {refilled, []v1alpha1.ObjectStore{kept}, ""},
		"none":            {stored, nil, v1alpha1.ReasonDestinationNotFound},
		"none to be read": {refilled, nil, v1alpha1.ReasonSourceNotFound},
		"being deleted":   {stored, []v1alpha1.ObjectStore{going}, v1alpha1.ReasonDestinationNotFound},
		"changed":         {stored, []v1alpha1.ObjectStore{changed}, v1alpha1.ReasonProbing},
		"under its first probe": {
			stored, []v1alpha1.ObjectStore{vault(v1alpha1.ReasonProbing)}, v1alpha1.ReasonProbing,
		},
		"no store": {
			stored, []v1alpha1.ObjectStore{vault(v1alpha1.ReasonPromiseNotKept)}, v1alpha1.ReasonPromiseNotKept,
		},
		"away for the moment":  {stored, []v1alpha1.ObjectStore{vault(v1alpha1.ReasonStoreUnreachable)}, ""},
		"credentials come yet": {stored, []v1alpha1.ObjectStore{vault(v1alpha1.ReasonStoreDenied)}, ""},
		"nowhere": {
			func(s *v1alpha1.QueueSpec) { s.Archive = &v1alpha1.QueueArchive{} }, nil, v1alpha1.ReasonInvalidSpec,
		},
		"from nowhere": {
			func(s *v1alpha1.QueueSpec) { s.Restore = &v1alpha1.QueueRestore{Queue: "orders"} }, nil, v1alpha1.ReasonInvalidSpec,
		},
		"a path out of it": {
			func(s *v1alpha1.QueueSpec) { stored(s); s.Archive.ObjectStore.Path = "/../others" },
			[]v1alpha1.ObjectStore{kept}, v1alpha1.ReasonInvalidSpec,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, problem := queue.Want(newQueue(test.change), nil, nil, queue.Neighbours{Stores: test.stores}, false, now)
			if test.reason == "" && problem != nil || test.reason != "" && (problem == nil || problem.Reason != test.reason) {
				t.Errorf("problem %+v", problem)
			}
		})
	}
}

func TestArchiveStoreOfMembers(t *testing.T) {
	both := func(s *v1alpha1.QueueSpec) { stored(s); refilled(s) }
	wanted := wantWith(t, newQueue(both), queue.Neighbours{
		Stores: []v1alpha1.ObjectStore{vault(v1alpha1.ReasonPromisesKept)},
	})
	a, r := wanted.Config.GetArchive(), wanted.Config.GetRestore()
	if a.GetDirectory() != "" || r.GetDirectory() != "" || a.GetStore().GetPrefix() != "east/queues" ||
		r.GetStore().GetPrefix() != "east" || a.GetStore().GetBucket() != "cargo" {
		t.Errorf("members are told %v, %v", a, r)
	}
	pod := statefulSet(t, wanted, nil).Spec.Template
	mounted := map[string]string{}
	for _, v := range pod.Spec.Volumes {
		if v.Secret == nil || v.Secret.SecretName != "vault-keys" {
			continue
		}
		var keys []string
		for _, item := range v.Secret.Items {
			keys = append(keys, item.Key)
		}
		if !slices.Equal(keys, wirev1.ObjectStoreKeys()) || v.Secret.Optional == nil || !*v.Secret.Optional {
			t.Errorf("volume %+v", v.Secret)
		}
		for _, m := range pod.Spec.Containers[0].VolumeMounts {
			if m.Name == v.Name && m.ReadOnly {
				mounted[m.MountPath] = v.Name
			}
		}
	}
	if len(mounted) != 2 || mounted[a.GetStore().GetCredentialsDirectory()] == "" ||
		mounted[r.GetStore().GetCredentialsDirectory()] == "" {
		t.Errorf("mounted %v", mounted)
	}
	// Members begin again when what counts at their start only changes, and not otherwise.
	moved := vault(v1alpha1.ReasonPromisesKept)
	moved.Spec.Bucket = "others"
	again := wantWith(t, newQueue(both), queue.Neighbours{Stores: []v1alpha1.ObjectStore{moved}})
	slower := vault(v1alpha1.ReasonStoreUnreachable)
	same := wantWith(t, newQueue(both), queue.Neighbours{Stores: []v1alpha1.ObjectStore{slower}})
	digest := func(w queue.Wanted) string {
		return statefulSet(t, w, nil).Spec.Template.Annotations["lighterage.dev/start-digest"]
	}
	if digest(again) == digest(wanted) || digest(same) != digest(wanted) {
		t.Errorf("digests %s, %s, %s", digest(wanted), digest(again), digest(same))
	}
}

func TestArchiveCopies(t *testing.T) {
	failed := func(reason wirev1.FailureReason) *wirev1.QueueArchiveStatus {
		return &wirev1.QueueArchiveStatus{LastError: &wirev1.Failure{Reason: reason, Message: "correct the keys"}}
	}
	for name, test := range map[string]struct {
		claim, store *wirev1.QueueArchiveStatus
		archived     string
		condition    string
		says         string
	}{
		"both": {
			&wirev1.QueueArchiveStatus{Path: "orders.1", Sequence: 30, LastTime: timestamppb.New(now)},
			&wirev1.QueueArchiveStatus{Path: "orders.1", Sequence: 28, LastTime: timestamppb.New(now)},
			"True ArchiveFollows", v1alpha1.ConditionReady, "",
		},
		"the store refuses": {
			&wirev1.QueueArchiveStatus{Path: "orders.1", Sequence: 30, LastTime: timestamppb.New(now)},
			failed(wirev1.FailureReason_FAILURE_REASON_STORE_DENIED),
			"False StoreDenied", v1alpha1.ConditionStalled, "in ObjectStore vault",
		},
		"the store is away": {
			&wirev1.QueueArchiveStatus{Path: "orders.1", Sequence: 30, LastTime: timestamppb.New(now)},
			failed(wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE),
			"False StoreUnreachable", v1alpha1.ConditionReconciling, "in ObjectStore vault",
		},
		"the store is away and the claim full": {
			failed(wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL),
			failed(wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE),
			"False DestinationFull", v1alpha1.ConditionStalled, "on claim archives",
		},
		"not yet": {
			&wirev1.QueueArchiveStatus{Path: "orders.1", Sequence: 30, LastTime: timestamppb.New(now)}, nil,
			"False ArchivePending", v1alpha1.ConditionReady, "",
		},
		"neither": {nil, nil, "False ArchivePending", v1alpha1.ConditionReady, ""},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := wantWith(t, newQueue(func(s *v1alpha1.QueueSpec) {
				archived(s)
				s.Restore, s.Archive.ObjectStore = nil, &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}
			}), queue.Neighbours{
				Claims: []corev1.PersistentVolumeClaim{claim("archives", corev1.ReadWriteOnce)},
				Stores: []v1alpha1.ObjectStore{vault(v1alpha1.ReasonPromisesKept)},
			})
			facts := well(wanted)
			report := facts.Members[0].Report
			report.Content.Leader, report.Content.LastSequence = facts.Members[0].Pod.Name, 30
			report.Archive, report.StoreArchive = test.claim, test.store
			status := queue.Observe(wanted.Queue, &wanted, facts)
			if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionArchived); c == nil ||
				string(c.Status)+" "+c.Reason != test.archived || !strings.Contains(c.Message, test.says) {
				t.Errorf("%s is %+v", v1alpha1.ConditionArchived, c)
			}
			if c := meta.FindStatusCondition(status.Conditions, test.condition); c == nil ||
				c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, test.says) {
				t.Errorf("conditions %+v", status.Conditions)
			}
			if name != "both" {
				return
			}
			if status.Archive.Behind != 0 || status.StoreArchive.Behind != 2 || status.StoreArchive.Path != "orders.1" {
				t.Errorf("archives %+v, %+v", status.Archive, status.StoreArchive)
			}
			// The copy that is taken away is not shown any more.
			wanted.Queue.Status = status
			wanted.Queue.Spec.Archive.ObjectStore = nil
			if status = queue.Observe(wanted.Queue, &wanted, facts); status.StoreArchive != nil || status.Archive == nil {
				t.Errorf("archives %+v, %+v", status.Archive, status.StoreArchive)
			}
		})
	}
}

// TestArchiveStoreNetwork: members may dial the store and nothing of the cluster's, and a second look changes nothing.
func TestArchiveStoreNetwork(t *testing.T) {
	store := vault(v1alpha1.ReasonPromisesKept)
	r := kind.Begin(t, newQueue(stored), &store, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1"}},
	})
	for port, want := range map[int32]bool{9443: true, 443: false, 4222: false} {
		if got := r.Dials(intstr.FromInt32(port)); got != want {
			t.Errorf("port %d: %v", port, got)
		}
	}
	if p := dialPolicy(r); p == nil || !slices.Equal(p.GetNever(), []string{"10.96.0.1/32"}) {
		t.Errorf("dial policy %v", p)
	}
	version := r.Secret().ResourceVersion
	r.Look()
	if got := r.Secret().ResourceVersion; got != version {
		t.Errorf("a second look wrote the Secret: %s, %s", version, got)
	}
}
