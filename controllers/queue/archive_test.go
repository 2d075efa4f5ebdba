// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/queue"
)

func claim(name string, modes ...corev1.PersistentVolumeAccessMode) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: modes},
	}
}

// archived has an archive on one claim and is made of what is on another.
func archived(s *v1alpha1.QueueSpec) {
	s.Archive = &v1alpha1.QueueArchive{
		PersistentVolumeClaim: v1alpha1.QueueArchiveClaim{ClaimName: "archives"},
		Interval:              &metav1.Duration{Duration: time.Hour},
		MaxRangeSize:          ptr.To(resource.MustParse("8Mi")), Retention: &metav1.Duration{Duration: 48 * time.Hour},
	}
	s.Restore = &v1alpha1.QueueRestore{
		PersistentVolumeClaim: v1alpha1.QueueArchiveClaim{ClaimName: "rescued"}, Queue: "orders",
		Messages: v1alpha1.QueueRestoreAll,
	}
}

func TestArchiveClaims(t *testing.T) {
	one := func(*v1alpha1.QueueSpec) {}
	three := func(s *v1alpha1.QueueSpec) { s.Replicas = 3 }
	for name, test := range map[string]struct {
		change func(*v1alpha1.QueueSpec)
		claims []corev1.PersistentVolumeClaim
		reason string
		says   string
	}{
		"both": {
			one, []corev1.PersistentVolumeClaim{claim("archives", corev1.ReadWriteOnce), claim("rescued", corev1.ReadOnlyMany)},
			"", "",
		},
		"of one pod": {
			one,
			[]corev1.PersistentVolumeClaim{claim("archives", corev1.ReadWriteOncePod), claim("rescued", corev1.ReadWriteOnce)},
			"", "",
		},
		"no archive": {
			one, []corev1.PersistentVolumeClaim{claim("rescued", corev1.ReadOnlyMany)}, v1alpha1.ReasonDestinationNotFound,
			`"archives"`,
		},
		"nothing to read": {
			one, []corev1.PersistentVolumeClaim{claim("archives", corev1.ReadWriteOnce)}, v1alpha1.ReasonSourceNotFound,
			`"rescued"`,
		},
		"not to be written": {
			one, []corev1.PersistentVolumeClaim{claim("archives", corev1.ReadOnlyMany), claim("rescued", corev1.ReadOnlyMany)},
			v1alpha1.ReasonClaimNotShared, "ReadWriteOnce or ReadWriteMany",
		},
		"shared": {
			three,
			[]corev1.PersistentVolumeClaim{claim("archives", corev1.ReadWriteMany), claim("rescued", corev1.ReadOnlyMany)}, "",
			"",
		},
		"not shared": {
			three,
			[]corev1.PersistentVolumeClaim{claim("archives", corev1.ReadWriteOnce), claim("rescued", corev1.ReadOnlyMany)},
			v1alpha1.ReasonClaimNotShared, "name a claim that is ReadWriteMany",
		},
		"not shared to be read": {
			three,
			[]corev1.PersistentVolumeClaim{claim("archives", corev1.ReadWriteMany), claim("rescued", corev1.ReadWriteOnce)},
			v1alpha1.ReasonClaimNotShared, "spec.restore",
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(func(s *v1alpha1.QueueSpec) { archived(s); test.change(s) })
			_, problem := queue.Want(q, nil, nil, queue.Neighbours{Claims: test.claims}, false, now)
			if test.reason == "" && problem != nil || test.reason != "" && (problem == nil || problem.Reason != test.reason ||
				!strings.Contains(problem.Message, test.says)) {
				t.Errorf("problem %+v", problem)
			}
		})
	}
}

func wantArchived(t *testing.T, change func(*v1alpha1.QueueSpec)) queue.Wanted {
	t.Helper()
	q := newQueue(func(s *v1alpha1.QueueSpec) { archived(s); change(s) })
	wanted, problem := queue.Want(q, nil, nil, queue.Neighbours{Claims: []corev1.PersistentVolumeClaim{
		claim("archives", corev1.ReadWriteMany), claim("rescued", corev1.ReadOnlyMany),
	}}, false, now)
	if problem != nil {
		t.Fatal(problem.Message)
	}
	return wanted
}

func TestArchiveOfMembers(t *testing.T) {
	wanted := wantArchived(t, func(*v1alpha1.QueueSpec) {})
	a, r := wanted.Config.GetArchive(), wanted.Config.GetRestore()
	if a.GetInterval().AsDuration() != time.Hour || a.GetMaxRangeBytes() != 8<<20 ||
		a.GetRetention().AsDuration() != 48*time.Hour || r.GetQueue() != "orders" || !r.GetEverything() {
		t.Errorf("members are told %v, %v", a, r)
	}
	// Each directory is that of its claim, and nothing is written to what is restored.
	mounted := func(wanted queue.Wanted) map[string]corev1.VolumeMount {
		pod := statefulSet(t, wanted, nil).Spec.Template.Spec
		claims, at := map[string]string{}, map[string]corev1.VolumeMount{}
		for _, v := range pod.Volumes {
			if v.PersistentVolumeClaim != nil {
				claims[v.Name] = v.PersistentVolumeClaim.ClaimName
			}
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if claims[m.Name] != "" {
				m.Name = claims[m.Name]
				at[m.MountPath] = m
			}
		}
		return at
	}
	got := mounted(wanted)
	if len(got) != 2 || got[a.GetDirectory()].Name != "archives" || got[a.GetDirectory()].ReadOnly ||
		got[r.GetDirectory()].Name != "rescued" || !got[r.GetDirectory()].ReadOnly {
		t.Errorf("mounts %v", got)
	}
	same := wantArchived(t, func(s *v1alpha1.QueueSpec) { s.Restore.PersistentVolumeClaim.ClaimName = "archives" })
	if got := mounted(same); got[a.GetDirectory()].Name != "archives" || got[r.GetDirectory()].Name != "archives" ||
		got[a.GetDirectory()].ReadOnly || !got[r.GetDirectory()].ReadOnly {
		t.Errorf("mounts of one claim %v", got)
	}
	volumes := 0
	for _, v := range statefulSet(t, same, nil).Spec.Template.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			volumes++
		}
	}
	if volumes != 1 {
		t.Errorf("one claim is %d volumes", volumes)
	}
}

func TestArchiveStates(t *testing.T) {
	failed := func(reason wirev1.FailureReason) *wirev1.Failure {
		return &wirev1.Failure{Reason: reason, Message: "make it larger"}
	}
	for name, test := range map[string]struct {
		change    func(queue.Facts)
		condition string
		reason    string
		says      string
		archived  string
		restored  string
	}{
		"well": {
			func(queue.Facts) {}, v1alpha1.ConditionReady, v1alpha1.ReasonServing, "", "True ArchiveFollows", "True Restored",
		},
		"full": {
			func(f queue.Facts) {
				f.Members[1].Report.Archive.LastError = failed(wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL)
			}, v1alpha1.ConditionStalled, v1alpha1.ReasonDestinationFull, "make it larger", "False DestinationFull",
			"True Restored",
		},
		"not yet": {
			func(f queue.Facts) { f.Members[1].Report.Archive.LastTime = nil }, v1alpha1.ConditionReady, v1alpha1.ReasonServing,
			"", "False ArchivePending", "True Restored",
		},
		"silent": {
			func(f queue.Facts) { f.Members[1].Report.Archive = nil }, v1alpha1.ConditionReady, v1alpha1.ReasonServing, "",
			"False ArchivePending", "True Restored",
		},
		"for a moment": {
			func(f queue.Facts) {
				f.Members[1].Report.Archive.LastError = failed(wirev1.FailureReason_FAILURE_REASON_INTERNAL)
			}, v1alpha1.ConditionReconciling, v1alpha1.ReasonInternal, "", "False Internal", "True Restored",
		},
		"being restored": {
			func(f queue.Facts) {
				f.Set.Status.ReadyReplicas = 0
				for _, m := range f.Members {
					m.Report.Restore = &wirev1.QueueRestoreStatus{Path: "orders.1", Messages: 7, Sequence: 9, LastSequence: 20}
				}
			}, v1alpha1.ConditionReconciling, v1alpha1.ReasonRestoring, "7 messages", "True ArchiveFollows", "False Restoring",
		},
		"damaged": {
			func(f queue.Facts) {
				f.Set.Status.ReadyReplicas = 0
				for _, m := range f.Members {
					m.Report.Restore = &wirev1.QueueRestoreStatus{Path: "orders.1"}
				}
				f.Members[2].Report.Restore.LastError = failed(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA)
			}, v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidData, "clients are not served", "True ArchiveFollows",
			"False InvalidData",
		},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := wantArchived(t, func(s *v1alpha1.QueueSpec) { s.Replicas = 3 })
			facts := well(wanted)
			for _, m := range facts.Members {
				m.Report.Content.Leader, m.Report.Content.LastSequence = wanted.Config.GetMembers()[1].GetName(), 30
				m.Report.Restore = &wirev1.QueueRestoreStatus{
					Done: true, Path: "orders.1", Messages: 20, Bytes: 40_000_000, Elapsed: durationpb.New(2 * time.Second),
					CpuNanos: 4e9,
				}
			}
			facts.Members[1].Report.Archive = &wirev1.QueueArchiveStatus{
				Path: "orders.2", Sequence: 28, PlainBytes: 300, WrittenBytes: 100, LastTime: timestamppb.New(now),
				Compression: &wirev1.Compression{Codec: "zstd", Reason: "SoftwareUsed"},
			}
			test.change(facts)
			status := queue.Observe(wanted.Queue, &wanted, facts)
			found := meta.FindStatusCondition(status.Conditions, test.condition)
			if found == nil || found.Status != "True" || found.Reason != test.reason ||
				!strings.Contains(found.Message, test.says) {
				t.Errorf("%s in place of %s: %+v", test.condition, test.reason, status.Conditions)
			}
			for condition, want := range map[string]string{
				v1alpha1.ConditionArchived: test.archived, v1alpha1.ConditionRestored: test.restored,
			} {
				if c := meta.FindStatusCondition(status.Conditions, condition); c == nil || string(c.Status)+" "+c.Reason != want {
					t.Errorf("%s is %+v", condition, c)
				}
			}
			if name != "well" {
				return
			}
			if a := status.Archive; a.Behind != 2 || a.Ratio != "3.00" || a.Codec != "zstd" || a.LastTime == nil ||
				a.LastError != nil {
				t.Errorf("archive %+v", a)
			}
			if r := status.Restore; r.State != "Restored" || r.MegabytesPerSecond != "20.00" ||
				r.CPUSecondsPerMegabyte != "0.100000" || r.Duration.Duration != 2*time.Second {
				t.Errorf("restore %+v", r)
			}
			// Taken away, nothing is said of them any more.
			bare := want(t, newQueue(nil))
			bare.Queue.Status = status
			status = queue.Observe(bare.Queue, &bare, well(bare))
			if status.Archive != nil || status.Restore != nil ||
				meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionArchived) != nil ||
				meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRestored) != nil {
				t.Errorf("status %+v", status)
			}
		})
	}
}
