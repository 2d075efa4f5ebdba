// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
)

// apart is the pod of a leg to an object store.
type apart struct {
	job    *batchv1.Job
	pod    *corev1.Pod
	report *wirev1.Report
	config *wirev1.LocalConfig
}

// lookAtApart has a leg with a pod of its own decided about.
func (f *family) lookAtApart(name string, facts plan.TransferFacts) {
	f.Helper()
	leg := f.legs[name]
	if a := f.apart[name]; a != nil && leg.Status.Run != nil && a.job.Name == jobOf(leg) {
		facts.Job, facts.Pod, facts.Report = a.job, a.pod, a.report
	}
	decision := plan.DecideTransfer(leg, facts, image)
	leg.Status = decision.Status
	if decision.Clear || decision.Retire && f.apart[name] != nil && f.apart[name].job.Name != jobOf(leg) {
		delete(f.apart, name)
	}
	if decision.Start == nil || f.apart[name] != nil {
		return
	}
	claims, _ := claimsOf(decision.Start.Job())
	f.tried = append(f.tried, claims...)
	if f.refused {
		leg.Status = plan.RefuseTransfer(leg, agentpod.Problem{
			Reason: v1alpha1.ReasonAgentNotStarted, Message: "exceeded quota",
		}, f.now).Status
		return
	}
	text, err := decision.Start.Config()
	if err != nil {
		f.Fatal(err)
	}
	a := &apart{job: decision.Start.Job(), config: &wirev1.LocalConfig{}}
	a.job.CreationTimestamp = metav1.NewTime(f.now)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, a.config); err != nil {
		f.Fatal(err)
	}
	f.apart[name] = a
	f.made[name]++
}

// toStores adds destinations in object stores.
func (f *family) toStores(form v1alpha1.RestingForm, names ...string) *family {
	for _, name := range names {
		f.whole.Spec.Destinations = append(f.whole.Spec.Destinations, v1alpha1.NamedDestination{
			Name: name, ObjectStore: storePath(name, "/"), Form: form,
		})
	}
	return f
}

// runApart has the pod of a leg run.
func (f *family) runApart(name string, report *wirev1.Report) {
	f.Helper()
	if f.apart[name] == nil {
		f.Fatalf("%s has no pod: %+v", name, f.legs[name].Status)
	}
	f.apart[name].pod, f.apart[name].report = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), report
	f.settle()
}

// endApart has it end.
func (f *family) endApart(name string, report *wirev1.Report) {
	f.Helper()
	text, err := protojson.Marshal(report)
	if err != nil {
		f.Fatal(err)
	}
	f.apart[name].pod, f.apart[name].report = ended(0, "Completed", string(text)), nil
	f.settle()
}

func claimsOf(job *batchv1.Job) (claims, secrets []string) {
	for _, volume := range job.Spec.Template.Spec.Volumes {
		switch {
		case volume.PersistentVolumeClaim != nil:
			claims = append(claims, volume.PersistentVolumeClaim.ClaimName)
		case len(volume.Secret.Items) > 0:
			secrets = append(secrets, volume.Secret.SecretName)
		}
	}
	return claims, secrets
}

// Legs to object stores have pods of their own beside that of the others, with the credentials of one store each. All
// read one snapshot, which stays until the last of them has ended.
func TestStoresBesideClaims(t *testing.T) {
	f := newFamily(t).toStores(v1alpha1.RestingArchive, "vault", "attic")
	f.staging = &newWorld(t, v1alpha1.CopySnapshot).facts.Staging
	f.whole.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
	f.whole.Labels = map[string]string{v1alpha1.KueueQueueLabel: "nightly"}
	f.settle()
	if f.jobs != 1 || !slices.Equal(f.receivers(), []string{"west"}) || f.made["vault"] != 1 || f.made["attic"] != 1 {
		t.Fatalf("%d pods for %v, %v: %+v", f.jobs, f.receivers(), f.made, f.whole.Status)
	}
	copied := f.staging.Claims[0].Name
	for name, a := range f.apart {
		claims, secrets := claimsOf(a.job)
		if !slices.Equal(claims, []string{copied}) || !slices.Equal(secrets, []string{name + "-keys"}) {
			t.Errorf("the pod of %s mounts %v and %v", name, claims, secrets)
		}
		if a.config.GetSend().GetForm() != wirev1.Form_FORM_ARCHIVE || a.config.GetDestinationStore() == nil ||
			a.config.GetSend().GetRunId() != f.legs[name].Status.Run.ID {
			t.Errorf("%s: %v", name, a.config)
		}
		near := a.job.Spec.Template.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0]
		for key, value := range near.PodAffinityTerm.LabelSelector.MatchLabels {
			if f.job.Spec.Template.Labels[key] != value || a.job.Spec.Template.Labels[key] != value {
				t.Errorf("the pod of %s wants to be beside others than those of its Transfer: %s=%s", name, key, value)
			}
		}
		if a.job.Labels[v1alpha1.KueueQueueLabel] != "nightly" {
			t.Errorf("the Job of %s is not queued: %v", name, a.job.Labels)
		}
		restricted(t, a.job.Spec.Template.Spec)
	}
	if _, secrets := claimsOf(f.job); len(secrets) > 0 {
		t.Errorf("the pod that sends has credentials of stores: %v", secrets)
	}
	f.run(map[string]*wirev1.Report{"west": onTheWay()})
	f.runApart("vault", onTheWay())
	f.runApart("attic", onTheWay())
	f.end(map[string]*wirev1.Report{"west": succeeded()})
	f.endApart("vault", succeeded())
	f.expect(v1alpha1.TransferTransferring, v1alpha1.TransferComplete, v1alpha1.TransferComplete,
		v1alpha1.TransferTransferring)
	if len(f.staging.Claims) != 1 || f.jobs != 1 || f.made["vault"] != 1 {
		t.Fatalf("%d claims, %d pods, %v: %+v", len(f.staging.Claims), f.jobs, f.made, f.whole.Status)
	}
	before := f.whole.Status.DeepCopy()
	f.settle()
	if !equality.Semantic.DeepEqual(*before, f.whole.Status) {
		t.Errorf("another look writes %+v, after %+v", f.whole.Status, before)
	}
	f.endApart("attic", succeeded())
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
	if len(f.staging.Claims) > 0 || f.jobs != 1 || len(f.apart) > 0 {
		t.Errorf("%d claims and %d pods are left, %d were made", len(f.staging.Claims), len(f.apart), f.jobs)
	}
	for name, leg := range f.legs {
		if !leg.Status.RecoveryPoint.Equal(f.whole.Status.RecoveryPoint) || len(leg.Status.History) != 1 {
			t.Errorf("%s: %+v", name, leg.Status)
		}
	}
	if p := f.whole.Status.Progress; p == nil || p.BytesTotal != 300 || p.Percent != 100 {
		t.Errorf("%+v", p)
	}
}

// Without a claim among the destinations there is no pod but those of the legs.
func TestStoresAlone(t *testing.T) {
	f := newFamily(t).toStores("", "vault", "attic")
	f.whole.Spec.Destinations = f.whole.Spec.Destinations[1:]
	f.settle()
	if f.jobs != 0 || f.made["vault"] != 1 || f.made["attic"] != 1 ||
		f.whole.Status.Run.Route != v1alpha1.RouteObjectStore {
		t.Fatalf("%d pods, %v: %+v", f.jobs, f.made, f.whole.Status)
	}
	f.runApart("vault", onTheWay())
	f.expect(v1alpha1.TransferTransferring, v1alpha1.TransferTransferring, v1alpha1.TransferStarting)
	f.runApart("attic", onTheWay())
	f.endApart("vault", succeeded())
	f.endApart("attic", succeeded())
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
	// The next run.
	f.whole.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	f.settle()
	if f.jobs != 0 || f.made["vault"] != 2 || f.made["attic"] != 2 {
		t.Errorf("%d pods, %v: %+v", f.jobs, f.made, f.whole.Status)
	}
}

// A store's attempts follow each other whatever the pod of the others does, and theirs whatever that of a store does.
func TestStoreFailsBesideClaims(t *testing.T) {
	f := newFamily(t).toStores("", "vault")
	f.settle()
	f.run(map[string]*wirev1.Report{"west": onTheWay()})
	f.runApart("vault", onTheWay())
	f.endApart("vault", broken())
	f.expect(v1alpha1.TransferTransferring, v1alpha1.TransferTransferring, v1alpha1.TransferRetrying)
	f.now = f.now.Add(time.Minute)
	f.settle()
	if f.made["vault"] != 2 || f.jobs != 1 {
		t.Fatalf("%v pods of stores, %d pods: %+v", f.made, f.jobs, f.legs["vault"].Status)
	}
	f.end(map[string]*wirev1.Report{"west": broken()})
	f.now = f.now.Add(time.Minute)
	f.settle()
	if f.jobs != 2 || f.made["vault"] != 2 {
		t.Fatalf("%d pods, %v pods of stores: %+v", f.jobs, f.made, f.whole.Status)
	}
	f.end(map[string]*wirev1.Report{"west": succeeded()})
	f.endApart("vault", succeeded())
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
}

// One store that is used up makes the run fail, and the others have what they have.
func TestStoreFailsForGood(t *testing.T) {
	f := newFamily(t).toStores("", "vault")
	f.whole.Spec.MaxAttempts = 1
	f.settle()
	f.endApart("vault", broken())
	f.end(map[string]*wirev1.Report{"west": succeeded()})
	f.expect(v1alpha1.TransferFailed, v1alpha1.TransferComplete, v1alpha1.TransferFailed)
}

// A store that is added while a pod sends is written at once, from the same copy: it needs nothing of that pod.
func TestStoreIsAddedMeanwhile(t *testing.T) {
	f := newFamily(t)
	f.settle()
	f.run(map[string]*wirev1.Report{"west": onTheWay()})
	f.toStores("", "vault").whole.Generation++
	f.settle()
	if f.made["vault"] != 1 || f.jobs != 1 {
		t.Fatalf("%v pods of stores, %d pods: %+v", f.made, f.jobs, f.whole.Status)
	}
	f.end(map[string]*wirev1.Report{"west": succeeded()})
	f.endApart("vault", succeeded())
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
}

// A leg to a store begins nothing while its whole has no copy to read, or has ended.
func TestStoreWaitsForItsWhole(t *testing.T) {
	f := newFamily(t).toStores("", "vault")
	f.staging = &newWorld(t, v1alpha1.CopySnapshot).facts.Staging
	f.whole.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
	f.settle()
	f.end(map[string]*wirev1.Report{"west": succeeded()})
	f.endApart("vault", succeeded())
	f.whole.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	f.look() // the copy is only being prepared
	f.legs["vault"].Annotations[v1alpha1.RunAnnotation] = f.whole.Status.Run.ID
	f.look()
	if f.made["vault"] != 1 {
		t.Fatalf("a second pod: %+v", f.whole.Status.Staged)
	}
	f.settle()
	if f.made["vault"] != 2 {
		t.Errorf("no second pod: %+v", f.legs["vault"].Status)
	}
}

// A store that cannot be used keeps nothing from going on. The run waits for it when all else is done.
func TestStoreIsBlocked(t *testing.T) {
	f := newFamily(t).toStores("", "vault")
	f.noStore = true
	f.settle()
	f.end(map[string]*wirev1.Report{"west": succeeded()})
	f.now = f.now.Add(10 * time.Second)
	f.settle()
	f.expect(v1alpha1.TransferStarting, v1alpha1.TransferComplete, v1alpha1.TransferPending)
	kind, _, message := verdict(t, f.whole.Status.Conditions)
	if kind != v1alpha1.ConditionStalled || f.made["vault"] != 0 {
		t.Errorf("%s %s, %v", kind, message, f.made)
	}
	f.noStore = false
	f.settle()
	f.endApart("vault", succeeded())
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
}
