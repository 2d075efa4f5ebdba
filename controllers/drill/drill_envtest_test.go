// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package drill_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/drillplan"
)

func newDrill(namespace string) *v1alpha1.Drill {
	return &v1alpha1.Drill{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ledger"},
		Spec: v1alpha1.DrillSpec{
			Source:    v1alpha1.DrillSource{ObjectStore: v1alpha1.ObjectStorePath{Name: "vault", Path: "/ledger"}},
			Volume:    v1alpha1.EphemeralVolume{Size: ptr.To(resource.MustParse("10Gi"))},
			Inflate:   v1alpha1.InflateSoftware,
			Objective: &v1alpha1.DrillObjective{MaxAge: &metav1.Duration{Duration: time.Hour}},
		},
	}
}

func expect(t *testing.T, drill *v1alpha1.Drill, condition, reason string) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(drill), drill); err != nil {
			return err
		}
		if drill.Status.ObservedGeneration != drill.Generation {
			return errors.New("the spec has not been looked at")
		}
		return controllertest.Expect(drill.Status.Conditions, condition, reason)
	})
}

// transferOf waits for the Transfer of the drill under way.
func transferOf(t *testing.T, drill *v1alpha1.Drill) *v1alpha1.Transfer {
	t.Helper()
	transfer := &v1alpha1.Transfer{}
	controllertest.Eventually(t, func() error {
		key := client.ObjectKey{Namespace: drill.Namespace, Name: drillplan.TransferName(drill)}
		if err := cluster.Client.Get(context.Background(), key, transfer); err != nil {
			return err
		}
		if transfer.Labels[v1alpha1.RunLabel] != drill.Status.Run.ID {
			return errors.New("it is that of another drill")
		}
		return nil
	})
	return transfer
}

func gone(t *testing.T, object client.Object) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s is still there: %w", object.GetName(), err)
		}
		return nil
	})
}

// say has a Transfer's status say what its controller, which does not run here, would.
func say(t *testing.T, transfer *v1alpha1.Transfer, phase v1alpha1.TransferPhase, wanted []metav1.Condition) {
	t.Helper()
	wanted = append(wanted, conditions.New(v1alpha1.ConditionComplete, phase == v1alpha1.TransferComplete,
		wanted[0].Reason, ""))
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	transfer.Status.Phase, transfer.Status.ObservedGeneration = phase, transfer.Generation
	transfer.Status.Conditions = conditions.Merge(nil, wanted, transfer.Generation, now.Time)
	transfer.Status.Progress = &v1alpha1.Progress{Files: 3, Bytes: 300, BytesPerSecond: 100}
	transfer.Status.Run = &v1alpha1.RunStatus{ID: "aaaaa", Attempt: 1, CopyTime: &now}
	if phase == v1alpha1.TransferComplete {
		transfer.Status.Run.CompletionTime = &now
	}
	if err := cluster.Client.Status().Update(context.Background(), transfer); err != nil {
		t.Fatal(err)
	}
}

func TestDrills(t *testing.T) {
	ctx, namespace := context.Background(), cluster.Namespace(t)
	drill := newDrill(namespace)
	cluster.Create(t, drill)
	expect(t, drill, v1alpha1.ConditionReconciling, v1alpha1.ReasonDrilling)
	transfer := transferOf(t, drill)
	if s := transfer.Spec; s.Destination.Ephemeral.Size.String() != "10Gi" || s.Source.ObjectStore.Path != "/ledger" ||
		s.Inflate != v1alpha1.InflateSoftware || s.Verify != v1alpha1.VerifyDigest ||
		drill.Status.TransferName != transfer.Name {
		t.Errorf("%+v", s)
	}
	say(t, transfer, v1alpha1.TransferTransferring, conditions.Reconciling(v1alpha1.ReasonTransferring, "attempt 1"))
	// The manager is killed and comes back: nothing is made twice, and nothing is forgotten.
	stopManager()
	say(t, transfer, v1alpha1.TransferComplete, conditions.Ready(v1alpha1.ReasonSucceeded, "done"))
	if err := startManager(); err != nil {
		t.Fatal(err)
	}
	expect(t, drill, v1alpha1.ConditionReady, v1alpha1.ReasonRecovered)
	gone(t, transfer)
	h := drill.Status.History
	if len(h) != 1 || h[0].Files != 3 || h[0].CopyTime == nil || drill.Status.LastRecoverableTime == nil ||
		drill.Status.TransferName != "" {
		t.Errorf("%+v", drill.Status)
	}

	// The annotation has it drill again. This time the credentials are wrong.
	change := client.MergeFrom(drill.DeepCopy())
	metav1.SetMetaDataAnnotation(&drill.ObjectMeta, v1alpha1.RunAnnotation, "again")
	if err := cluster.Client.Patch(ctx, drill, change); err != nil {
		t.Fatal(err)
	}
	expect(t, drill, v1alpha1.ConditionReconciling, v1alpha1.ReasonDrilling)
	transfer = transferOf(t, drill)
	say(t, transfer, v1alpha1.TransferPending, conditions.Stalled(v1alpha1.ReasonStoreDenied, "the store denies access"))
	expect(t, drill, v1alpha1.ConditionStalled, v1alpha1.ReasonStoreDenied)
	gone(t, transfer)
	if err := controllertest.Expect(drill.Status.Conditions, v1alpha1.ConditionRecoverable,
		v1alpha1.ReasonStoreDenied); err == nil || len(drill.Status.History) != 2 {
		t.Errorf("it is Recoverable: %+v", drill.Status)
	}
	// Nothing happens and nothing is written until somebody asks, or the schedule does.
	written := drill.ResourceVersion
	stopManager()
	if err := startManager(); err != nil {
		t.Fatal(err)
	}
	other := newDrill(namespace)
	other.Name, other.Spec.Suspend = "other", true
	cluster.Create(t, other)
	suspended(t, other)
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(drill), drill); err != nil ||
		drill.ResourceVersion != written {
		t.Errorf("it was written again: %v, %+v", err, drill.Status)
	}
	if list := (&v1alpha1.TransferList{}); cluster.Client.List(ctx, list, client.InNamespace(namespace)) != nil ||
		len(list.Items) != 0 {
		t.Errorf("%d Transfers are left", len(list.Items))
	}
}

// suspended waits until a Drill that is was looked at.
func suspended(t *testing.T, drill *v1alpha1.Drill) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(drill), drill); err != nil {
			return err
		}
		if c := drill.Status.Conditions; len(c) == 0 || c[0].Reason != v1alpha1.ReasonSuspended {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
}

// TestRefusedTransfers: what the API server says is in the condition, and one attempt follows when it admits it.
func TestRefusedTransfers(t *testing.T) {
	ctx, namespace := context.Background(), cluster.Namespace(t)
	example := drillplan.Transfer(&v1alpha1.Drill{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "example", UID: "u"}, Spec: newDrill(namespace).Spec,
		Status: v1alpha1.DrillStatus{Run: &v1alpha1.DrillRecord{ID: "a"}},
	})
	quota := cluster.NoneOf(t, "count/transfers.lighterage.dev", example)
	drill := newDrill(namespace)
	cluster.Create(t, drill)
	expect(t, drill, v1alpha1.ConditionReconciling, v1alpha1.ReasonRefused)
	if err := cluster.Client.Delete(ctx, quota); err != nil {
		t.Fatal(err)
	}
	transferOf(t, drill)
	if err := cluster.Client.Delete(ctx, drill); err != nil {
		t.Fatal(err)
	}
}

// ofClaim is a source of files that rest in a form.
func ofClaim(form v1alpha1.RestingForm) v1alpha1.DrillSource {
	return v1alpha1.DrillSource{
		PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "cargo"}, Form: form,
	}
}

// TestScrubs: the API server takes the Transfer of a scrub, whose findings are shown, and nothing is written twice.
func TestScrubs(t *testing.T) {
	ctx, namespace := context.Background(), cluster.Namespace(t)
	drill := newDrill(namespace)
	drill.Spec = v1alpha1.DrillSpec{
		Source: ofClaim(v1alpha1.RestingGzip), Scrub: v1alpha1.ScrubInflate, Inflate: v1alpha1.InflateSoftware,
	}
	cluster.Create(t, drill)
	expect(t, drill, v1alpha1.ConditionReconciling, v1alpha1.ReasonDrilling)
	transfer := transferOf(t, drill)
	if s := transfer.Spec; s.Destination.Scrub != v1alpha1.ScrubInflate || s.Source.Form != v1alpha1.RestingGzip ||
		s.Source.PersistentVolumeClaim.ClaimName != "cargo" || s.Inflate != v1alpha1.InflateSoftware {
		t.Errorf("%+v", s)
	}
	transfer.Status.Omissions = []v1alpha1.Omission{{What: "Damaged", Count: 2, Examples: []string{"a.gz"}}}
	say(t, transfer, v1alpha1.TransferComplete, conditions.Ready(v1alpha1.ReasonSucceeded, "done"))
	expect(t, drill, v1alpha1.ConditionStalled, v1alpha1.ReasonDataDamaged)
	gone(t, transfer)
	if f := drill.Status.Run.Findings; len(f) != 1 || f[0].Count != 2 || f[0].Examples[0] != "a.gz" {
		t.Errorf("%+v", drill.Status.Run)
	}
	written := drill.ResourceVersion
	stopManager()
	if err := startManager(); err != nil {
		t.Fatal(err)
	}
	other := newDrill(namespace)
	other.Name, other.Spec.Suspend = "other", true
	cluster.Create(t, other)
	suspended(t, other)
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(drill), drill); err != nil ||
		drill.ResourceVersion != written {
		t.Errorf("it was written again: %v, %+v", err, drill.Status)
	}
}

func TestDrillsAreValidated(t *testing.T) {
	namespace := cluster.Namespace(t)
	for says, change := range map[string]func(*v1alpha1.DrillSpec){
		"deadline": func(s *v1alpha1.DrillSpec) {
			s.Objective.MaxDuration = &metav1.Duration{Duration: 7 * time.Hour}
		},
		"size":                            func(s *v1alpha1.DrillSpec) { s.Volume.Size = ptr.To(resource.MustParse("1")) },
		"maxAge":                          func(s *v1alpha1.DrillSpec) { s.Objective.MaxAge.Duration = time.Second },
		"include":                         func(s *v1alpha1.DrillSpec) { s.Include = []string{"!a"} },
		"path":                            func(s *v1alpha1.DrillSpec) { s.Source.ObjectStore.Path = "/a/../b" },
		"inflate":                         func(s *v1alpha1.DrillSpec) { s.Inflate = "Hardware" },
		"cron":                            func(s *v1alpha1.DrillSpec) { s.Schedule = &v1alpha1.TransferSchedule{Cron: "often"} },
		"exactly one of volume and scrub": func(s *v1alpha1.DrillSpec) { s.Scrub = v1alpha1.ScrubInflate },
		"scrub verifies everything": func(s *v1alpha1.DrillSpec) {
			s.Volume, s.Scrub, s.Include = v1alpha1.EphemeralVolume{}, v1alpha1.ScrubInflate, []string{"a"}
		},
		"nothing is inflated": func(s *v1alpha1.DrillSpec) {
			s.Volume, s.Scrub = v1alpha1.EphemeralVolume{}, v1alpha1.ScrubChecksums
		},
		"set scrub": func(s *v1alpha1.DrillSpec) { s.Source = ofClaim(v1alpha1.RestingGzip) },
		"exactly one of objectStore": func(s *v1alpha1.DrillSpec) {
			s.Source.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "cargo"}
		},
		"needs no identity": func(s *v1alpha1.DrillSpec) {
			s.Volume, s.Scrub, s.Inflate = v1alpha1.EphemeralVolume{}, v1alpha1.ScrubChecksums, v1alpha1.InflateAny
			s.Source.Encryption = &v1alpha1.ArchiveDecryption{IdentitySecretName: "identity"}
		},
		"set it to Gzip, Zstd or Archive": func(s *v1alpha1.DrillSpec) { s.Source = ofClaim("") },
		"set one of these":                func(s *v1alpha1.DrillSpec) { s.Source = ofClaim(v1alpha1.RestingFiles) },
		"remove objective.maxAge": func(s *v1alpha1.DrillSpec) {
			s.Volume, s.Scrub = v1alpha1.EphemeralVolume{}, v1alpha1.ScrubInflate
			s.Source = ofClaim(v1alpha1.RestingGzip)
		},
		"maxCPUSeconds": func(s *v1alpha1.DrillSpec) {
			s.Objective.MaxCPUSecondsPerGiB = ptr.To(resource.MustParse("0"))
		},
		"minBytes": func(s *v1alpha1.DrillSpec) { s.Objective.MinBytesPerSecond = ptr.To(resource.MustParse("0")) },
	} {
		drill := newDrill(namespace)
		change(&drill.Spec)
		err := cluster.Client.Create(context.Background(), drill, client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	drill := newDrill(namespace)
	drill.Spec.Suspend = true
	cluster.Create(t, drill)
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(drill), drill); err != nil {
			return err
		}
		drill.Spec.Source.ObjectStore.Path = "/other"
		if err := cluster.Client.Update(context.Background(), drill); !apierrors.IsInvalid(err) {
			return fmt.Errorf("source can be changed: %w", err)
		}
		return nil
	})
}
