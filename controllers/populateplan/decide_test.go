// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package populateplan_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/populateplan"
)

// waiting is a claim of which nothing has been made.
func waiting() populateplan.Facts {
	size := corev1.VolumeResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
	}
	backup := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "backup"}}
	backup.Spec.Destination.ObjectStore = &v1alpha1.ObjectStorePath{Name: "vault", Path: "/ledger"}
	backup.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{PriorityClassName: "low"}
	return populateplan.Facts{
		Claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger", UID: "1234"},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: ptr.To("fast"), Resources: size,
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				DataSourceRef: &corev1.TypedObjectReference{
					APIGroup: ptr.To(v1alpha1.GroupVersion.Group), Kind: "Transfer", Name: "backup",
				},
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
		},
		Class:  &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}},
		Source: backup,
	}
}

// filling is the same claim while its prime is filled.
func filling() populateplan.Facts {
	f := waiting()
	d := populateplan.Decide(f)
	f.Fill, f.Prime = d.CreateFill, d.CreatePrime
	f.Prime.UID, f.Prime.Spec.VolumeName = "prime", "pv"
	f.Volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	f.Volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "bank", Name: f.Prime.Name, UID: "prime"}
	return f
}

// TestRestoresTheNewestSnapshot: history has it already, so nothing is moved.
func TestRestoresTheNewestSnapshot(t *testing.T) {
	f := waiting()
	f.Source.Spec.Destination = v1alpha1.TransferDestination{Snapshot: &v1alpha1.DestinationSnapshot{}}
	if d := populateplan.Decide(f); !onlyTold(d) {
		t.Errorf("without one: %+v", d)
	}
	f.Source.Status.Snapshots = []v1alpha1.SnapshotStatus{
		{Name: "unready", State: v1alpha1.SnapshotTaken},
		{Name: "deleted", State: v1alpha1.SnapshotReady},
		{Name: "going", State: v1alpha1.SnapshotReady},
		{Name: "broken", State: v1alpha1.SnapshotReady},
		{Name: "unwanted", State: v1alpha1.SnapshotRemoving},
		{Name: "newest", State: v1alpha1.SnapshotReady},
		{Name: "older", State: v1alpha1.SnapshotReady},
	}
	if d := populateplan.Decide(f); !onlyTold(d) {
		t.Errorf("when all are deleted: %+v", d)
	}
	f.History = plan.HistoryFacts{Seen: true, Snapshots: []plan.Snapshot{
		{Name: "older", Ready: true},
		{Name: "newest", Ready: true, RestoreSize: ptr.To(resource.MustParse("2Gi"))},
		{Name: "unready"}, {Name: "going", Ready: true, Deleting: true}, {Name: "broken"}, {Name: "unwanted", Ready: true},
		{Name: "unlisted", Ready: true},
	}}
	if d := populateplan.Decide(f); !onlyTold(d) {
		t.Errorf("into a smaller claim: %+v", d)
	}
	f.Claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	d := populateplan.Decide(f)
	if d.CreateFill != nil || d.CreatePrime == nil || d.CreatePrime.Spec.DataSource.Name != "newest" {
		t.Fatalf("%+v", d)
	}
	f.Prime = d.CreatePrime
	if d = populateplan.Decide(f); d.CreatePrime != nil || d.CreateFill != nil || d.Bind || d.Remove {
		t.Errorf("while the driver makes it: %+v", d)
	}
	if name := f.ReadsSnapshot(); name != "newest" {
		t.Errorf("it is made of %q", name)
	}
	again := f
	again.Source = &v1alpha1.Transfer{} // created again: it has taken none
	again.History.Snapshots = nil
	if d = populateplan.Decide(again); d.Remove {
		t.Errorf("when another Transfer has the name: %+v", d)
	}
	gone := f
	gone.SnapshotGone = true
	if d = populateplan.Decide(gone); !d.Remove || d.RequeueAfter == 0 {
		t.Errorf("when it was deleted before the driver read it: %+v", d)
	}
	gone.History.Problem = &agentpod.Problem{Message: "forbidden"}
	if gone.Prime = nil; gone.ReadsSnapshot() != "" || !onlyTold(populateplan.Decide(gone)) {
		t.Error("nothing is told while nobody can look")
	}
	f.Prime.UID, f.Prime.Spec.VolumeName = "prime", "pv"
	f.Volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	f.Volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "bank", Name: f.Prime.Name, UID: "prime"}
	if d = populateplan.Decide(f); !d.Bind {
		t.Errorf("%+v", d)
	}
}

// TestPrimeOfASnapshotFollowsTheScheduler: another node for the consumer means another prime, and nothing else does.
func TestPrimeOfASnapshotFollowsTheScheduler(t *testing.T) {
	f := waiting()
	f.Class.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	f.Source.Spec.Destination = v1alpha1.TransferDestination{Snapshot: &v1alpha1.DestinationSnapshot{}}
	f.Source.Status.Snapshots = []v1alpha1.SnapshotStatus{{Name: "newest", State: v1alpha1.SnapshotReady}}
	f.History = plan.HistoryFacts{Seen: true, Snapshots: []plan.Snapshot{{Name: "newest", Ready: true}}}
	f.Claim.Annotations = map[string]string{populateplan.SelectedNode: "node-1"}
	f.Prime = populateplan.Decide(f).CreatePrime
	delete(f.Prime.Annotations, populateplan.SelectedNode) // by the provisioner
	if d := populateplan.Decide(f); d.Remove || d.CreatePrime != nil {
		t.Errorf("while the scheduler has not chosen: %+v", d)
	}
	f.Claim.Annotations[populateplan.SelectedNode] = "node-2"
	if d := populateplan.Decide(f); !d.Remove {
		t.Errorf("%+v", d)
	}
}

func complete(t *v1alpha1.Transfer) {
	t.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}}
}

func TestBegins(t *testing.T) {
	f := waiting()
	d := populateplan.Decide(f)
	if d.CreateFill == nil || d.CreatePrime == nil {
		t.Fatalf("%+v", d)
	}
	fill, prime := d.CreateFill, d.CreatePrime
	if prime.Name != "populate-1234" || fill.Name != prime.Name || fill.Namespace != "bank" ||
		fill.Spec.Destination.PersistentVolumeClaim.ClaimName != prime.Name ||
		fill.Spec.Source.ObjectStore.Path != "/ledger" || fill.Spec.PodTemplate.PriorityClassName != "low" {
		t.Errorf("%+v", fill)
	}
	if prime.Spec.DataSourceRef != nil || *prime.Spec.StorageClassName != "fast" ||
		prime.Spec.Resources.Requests.Storage().String() != "1Gi" || prime.Annotations != nil {
		t.Errorf("%+v", prime)
	}
	for _, owned := range []metav1.Object{fill, prime} {
		if !metav1.IsControlledBy(owned, f.Claim) {
			t.Errorf("%s is owned by %v", owned.GetName(), owned.GetOwnerReferences())
		}
	}
	f.Prime = prime // a manager was killed in between
	if d = populateplan.Decide(f); d.CreatePrime != nil || d.CreateFill == nil {
		t.Errorf("%+v", d)
	}
}

// A block volume is filled as one.
func TestPrimeHasTheVolumeModeOfItsClaim(t *testing.T) {
	f := waiting()
	f.Claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	d := populateplan.Decide(f)
	if d.CreateFill == nil || d.CreatePrime == nil || d.CreatePrime.Spec.VolumeMode == nil ||
		*d.CreatePrime.Spec.VolumeMode != corev1.PersistentVolumeBlock {
		t.Errorf("%+v", d)
	}
}

func TestWaitsForItsFirstConsumer(t *testing.T) {
	f := waiting()
	f.Class.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	if d := populateplan.Decide(f); d != (populateplan.Decision{}) {
		t.Errorf("%+v", d)
	}
	f.Claim.Annotations = map[string]string{populateplan.SelectedNode: "node-1"}
	d := populateplan.Decide(f)
	if d.CreatePrime == nil || d.CreatePrime.Annotations[populateplan.SelectedNode] != "node-1" {
		t.Errorf("%+v", d)
	}
}

func TestBindsWhatIsComplete(t *testing.T) {
	f := filling()
	if d := populateplan.Decide(f); d != (populateplan.Decision{}) {
		t.Errorf("while it is filled: %+v", d)
	}
	complete(f.Fill)
	if d := populateplan.Decide(f); !d.Bind || d.Remove {
		t.Errorf("%+v", d)
	}
	f.Volume.Spec.ClaimRef.UID = f.Claim.UID
	if d := populateplan.Decide(f); d != (populateplan.Decision{}) {
		t.Errorf("while the claim becomes Bound: %+v", d)
	}
	f.Claim.Status.Phase = corev1.ClaimBound
	if d := populateplan.Decide(f); !d.Remove || d.Bind {
		t.Errorf("%+v", d)
	}
	f.Fill, f.Prime = nil, nil
	if d := populateplan.Decide(f); d != (populateplan.Decision{}) {
		t.Errorf("when all is done: %+v", d)
	}
}

// TestLostPrimes: what was filled is gone, so the Transfer that filled it does not count for another prime.
func TestLostPrimes(t *testing.T) {
	for name, lose := range map[string]func(*populateplan.Facts){
		"deleted":       func(f *populateplan.Facts) { f.Prime, f.Volume = nil, nil },
		"being deleted": func(f *populateplan.Facts) { f.Prime.DeletionTimestamp = &metav1.Time{} },
	} {
		f := filling()
		complete(f.Fill)
		lose(&f)
		if d := populateplan.Decide(f); !d.Remove || d.Bind || d.CreatePrime != nil || d.RequeueAfter == 0 {
			t.Errorf("%s: %+v", name, d)
		}
	}
	f := filling()
	f.Fill = nil // a manager was killed before it made it, and the volume was there at once
	if d := populateplan.Decide(f); d.CreateFill == nil || d.CreatePrime != nil {
		t.Errorf("without a Transfer: %+v", d)
	}
}

// TestDeletedHalfway: nothing is made, bound or told for a claim that goes, and the garbage collector removes what it
// owns.
func TestDeletedHalfway(t *testing.T) {
	filled := filling()
	complete(filled.Fill)
	unfilled := filling()
	unfilled.Fill = nil
	for name, f := range map[string]populateplan.Facts{
		"before the prime": waiting(), "without a Transfer": unfilled, "while it is filled": filling(), "filled": filled,
	} {
		for what, o := range map[string]metav1.Object{"prime": f.Prime, "Transfer": f.Fill} {
			if !reflect.ValueOf(o).IsNil() && !metav1.IsControlledBy(o, f.Claim) {
				t.Errorf("%s: the claim does not own its %s", name, what)
			}
		}
		f.Claim.DeletionTimestamp = &metav1.Time{}
		if d := populateplan.Decide(f); d != (populateplan.Decision{}) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestStates: what the metric shows of a claim.
func TestStates(t *testing.T) {
	for want, change := range map[string]func(*populateplan.Facts){
		populateplan.StateWaiting: func(f *populateplan.Facts) {
			f.Fill, f.Prime, f.Class.VolumeBindingMode = nil, nil, ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
		},
		populateplan.StatePopulating: func(*populateplan.Facts) {},
		populateplan.StateFailing:    func(f *populateplan.Facts) { f.Prime.OwnerReferences = nil },
		"":                           func(f *populateplan.Facts) { f.Claim.Status.Phase = corev1.ClaimBound },
	} {
		f := filling()
		change(&f)
		if got := populateplan.StateOf(f, populateplan.Decide(f)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f := waiting()
	if got := populateplan.StateOf(f, populateplan.Decide(f)); got != populateplan.StatePopulating {
		t.Errorf("when the prime is made: %q", got)
	}
}

// TestLeavesObjectsOfOthersAlone: a claim that is Bound has nothing deleted that only has the name.
func TestLeavesObjectsOfOthersAlone(t *testing.T) {
	f := filling()
	f.Claim.Status.Phase = corev1.ClaimBound
	f.Fill.OwnerReferences, f.Prime.OwnerReferences = nil, nil
	if d := populateplan.Decide(f); d != (populateplan.Decision{}) {
		t.Errorf("%+v", d)
	}
}

// onlyTold: nothing is made, bound or removed, and the claim has an event that says why.
func onlyTold(d populateplan.Decision) bool {
	return d.CreateFill == nil && d.CreatePrime == nil && !d.Bind && !d.Remove && d.RequeueAfter > 0 &&
		d.Event != nil && d.Event.Reason == populateplan.EventNotPopulated
}

// TestSaysWhatIsWrong: nothing is made, bound or removed, and the claim is told.
func TestSaysWhatIsWrong(t *testing.T) {
	for name, spoil := range map[string]func(*populateplan.Facts){
		"another kind":       func(f *populateplan.Facts) { f.Claim.Spec.DataSourceRef.Kind = "Queue" },
		"another namespace":  func(f *populateplan.Facts) { f.Claim.Spec.DataSourceRef.Namespace = ptr.To("vault") },
		"no Transfer":        func(f *populateplan.Facts) { f.Source = nil },
		"no objectStore":     func(f *populateplan.Facts) { f.Source.Spec.Destination.ObjectStore = nil },
		"no class":           func(f *populateplan.Facts) { f.Class = nil },
		"a selector":         func(f *populateplan.Facts) { f.Claim.Spec.Selector = &metav1.LabelSelector{} },
		"a foreign Transfer": func(f *populateplan.Facts) { *f = filling(); f.Fill.OwnerReferences = nil },
		"a foreign claim":    func(f *populateplan.Facts) { *f = filling(); f.Prime.OwnerReferences[0].UID = "other" },
		"a volume of another claim": func(f *populateplan.Facts) {
			*f = filling()
			complete(f.Fill)
			f.Volume.Spec.ClaimRef.UID = "other"
		},
		"a volume that is gone": func(f *populateplan.Facts) {
			*f = filling()
			complete(f.Fill)
			f.Prime.Status.Phase, f.Volume = corev1.ClaimLost, nil
		},
		"a Transfer that failed": func(f *populateplan.Facts) {
			*f = filling()
			f.Fill.Status.Conditions = []metav1.Condition{
				{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "MaxAttemptsReached"},
				{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue},
			}
		},
	} {
		f := waiting()
		spoil(&f)
		if d := populateplan.Decide(f); !onlyTold(d) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestLeavesClaimsOfOtherPopulatorsAlone(t *testing.T) {
	claim := waiting().Claim
	if !populateplan.Wanted(claim) {
		t.Error("a claim that names a Transfer is not wanted")
	}
	claim.Spec.DataSourceRef.APIGroup = ptr.To("volsync.backube")
	if populateplan.Wanted(claim) {
		t.Error("a claim of another populator is wanted")
	}
	claim.Spec.DataSourceRef = nil
	if populateplan.Wanted(claim) {
		t.Error("a claim without a dataSourceRef is wanted")
	}
}
