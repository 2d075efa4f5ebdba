// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstoreplan_test

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/objectstoreplan"
)

var storeNow = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func newStore() *v1alpha1.ObjectStore {
	return &v1alpha1.ObjectStore{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "vault", UID: "u-1", Generation: 1},
		Spec: v1alpha1.ObjectStoreSpec{
			Endpoint: "https://s3.example", Bucket: "cargo", Prefix: "east",
			Credentials: &v1alpha1.StoreCredentials{SecretName: "keys"},
		},
	}
}

func storeFacts() objectstoreplan.Facts {
	return objectstoreplan.Facts{Now: storeNow, NewID: "abcde", Dial: &wirev1.DialPolicy{}}
}

var promiseTypes = []string{
	"Abort", "ConditionalComplete", "ConditionalPut", "Delete", "List", "Multipart", "RangedGet", "ReadAfterWrite",
}

// found is the report of a probe that found all promises but these kept.
func found(broken ...string) *wirev1.Report {
	report := &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED}
	for _, name := range promiseTypes {
		promise := &wirev1.StorePromise{Type: name, Kept: true}
		for _, b := range broken {
			if b == name {
				promise.Kept, promise.Message = false, "it was seen"
			}
		}
		report.Promises = append(report.Promises, promise)
	}
	return report
}

func storeFailure(reason wirev1.FailureReason) *wirev1.Report {
	return &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{Reason: reason, Message: "why"},
	}
}

// probeEnded are the facts of a probe whose agent left a report.
func probeEnded(t *testing.T, report *wirev1.Report) objectstoreplan.Facts {
	t.Helper()
	message, err := protojson.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	facts := storeFacts()
	facts.Job, facts.Pod = &batchv1.Job{}, storePod(corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: string(message)},
	})
	return facts
}

func storePod(state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(storeNow.Add(-time.Hour))},
		Status: corev1.PodStatus{
			PodIP: "192.0.2.1", ContainerStatuses: []corev1.ContainerStatus{{Name: agentpod.ContainerName, State: state}},
		},
	}
}

// probing is a store whose first probe has begun.
func probing() *v1alpha1.ObjectStore {
	store := newStore()
	store.Status = objectstoreplan.Decide(store, storeFacts(), agentpod.Image{}).Status
	return store
}

func storeReason(status v1alpha1.ObjectStoreStatus, condition string) string {
	if !meta.IsStatusConditionTrue(status.Conditions, condition) {
		return ""
	}
	return meta.FindStatusCondition(status.Conditions, condition).Reason
}

func TestFirstProbe(t *testing.T) {
	store := newStore()
	d := objectstoreplan.Decide(store, storeFacts(), agentpod.Image{Name: "agent"})
	if d.Start == nil || storeReason(d.Status, v1alpha1.ConditionReconciling) != v1alpha1.ReasonProbing ||
		d.Status.ObservedGeneration != 1 || d.RequeueAfter <= 0 {
		t.Fatalf("%+v", d)
	}
	store.Status = d.Status
	// Until there is a Job it is made again, and status stays as it is.
	again := objectstoreplan.Decide(store, storeFacts(), agentpod.Image{})
	if again.Start == nil || again.Start.Name() != d.Start.Name() || !reflect.DeepEqual(again.Status, d.Status) {
		t.Errorf("%+v", again)
	}
	pod := d.Start.Job().Spec.Template.Spec
	var credentials *corev1.SecretVolumeSource
	for _, volume := range pod.Volumes {
		if volume.Name == "credentials" {
			credentials = volume.Secret
		}
	}
	if credentials == nil || credentials.SecretName != "keys" || len(credentials.Items) != 3 || !*credentials.Optional ||
		pod.Containers[0].Args[0] != "probe" || *pod.AutomountServiceAccountToken {
		t.Errorf("%+v", pod)
	}
	if got := d.Start.Traffic(); len(got.Stores) != 1 || got.Stores[0].Address != "s3.example:443" {
		t.Errorf("%+v", got)
	}
}

func TestProbeOutcomes(t *testing.T) {
	const day, first = 24 * time.Hour, 30 * time.Second
	nothing := &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED}
	const ready, stalled = v1alpha1.ConditionReady, v1alpha1.ConditionStalled
	for name, test := range map[string]struct {
		report    *wirev1.Report
		condition string
		reason    string
		next      time.Duration
		promises  int
	}{
		"all kept":             {found(), ready, v1alpha1.ReasonPromisesKept, day, 8},
		"one that is spared":   {found("ConditionalComplete"), ready, v1alpha1.ReasonPromisesKept, day, 8},
		"ignores conditions":   {found("ConditionalPut"), stalled, v1alpha1.ReasonPromiseNotKept, first, 8},
		"cannot delete":        {found("Delete", "Abort"), stalled, v1alpha1.ReasonPromiseNotKept, first, 8},
		"a report of nothing":  {nothing, stalled, v1alpha1.ReasonInternal, first, 0},
		"denied":               {storeFailure(72), stalled, v1alpha1.ReasonStoreDenied, first, 0},
		"no bucket":            {storeFailure(73), stalled, v1alpha1.ReasonBucketNotFound, first, 0},
		"another clock":        {storeFailure(75), stalled, v1alpha1.ReasonClockSkew, first, 0},
		"a reason of tomorrow": {storeFailure(9999), stalled, v1alpha1.ReasonInternal, first, 0},
	} {
		store := probing()
		d := objectstoreplan.Decide(store, probeEnded(t, test.report), agentpod.Image{})
		if !d.Ended || d.Start != nil || storeReason(d.Status, test.condition) != test.reason ||
			len(d.Status.Promises) != test.promises || (d.Status.LastProbeTime != nil) != (test.promises > 0) {
			t.Errorf("%s: %+v", name, d)
		}
		if wait := d.Status.Probe.NextTime.Sub(storeNow); wait < test.next || wait > test.next*3/2 || d.RequeueAfter != wait {
			t.Errorf("%s: again after %v and %v", name, wait, d.RequeueAfter)
		}
		// Nothing more happens until then.
		store.Status = d.Status
		facts := storeFacts()
		facts.Now = storeNow.Add(test.next / 2)
		idle := objectstoreplan.Decide(store, facts, agentpod.Image{})
		if idle.Start != nil || idle.Ended || !reflect.DeepEqual(idle.Status, store.Status) || idle.RequeueAfter <= 0 {
			t.Errorf("%s: afterwards %+v", name, idle)
		}
	}
}

func TestProbesAgain(t *testing.T) {
	store := probing()
	store.Status = objectstoreplan.Decide(store, probeEnded(t, found()), agentpod.Image{}).Status
	later := storeFacts()
	later.Now, later.NewID = storeNow.Add(40*time.Hour), "fghij"
	d := objectstoreplan.Decide(store, later, agentpod.Image{})
	if d.Start == nil || storeReason(d.Status, v1alpha1.ConditionReady) == "" || len(d.Status.Promises) != 8 {
		t.Errorf("a store that is probed again is not Ready: %+v", d)
	}
	// Another spec counts at once, and what was found is not said of it.
	store.Generation = 2
	changed := storeFacts()
	changed.NewID = "klmno"
	d = objectstoreplan.Decide(store, changed, agentpod.Image{})
	if d.Start == nil || storeReason(d.Status, v1alpha1.ConditionReady) != "" || d.Status.Promises != nil ||
		d.Status.ObservedGeneration != 2 {
		t.Errorf("%+v", d)
	}
}

// TestProbesAreDelayed by failures, up to a limit.
func TestProbesAreDelayed(t *testing.T) {
	delays(t, storeFailure(wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE), 10*time.Minute)
	delays(t, storeFailure(wirev1.FailureReason_FAILURE_REASON_STORE_UNFIT), 6*time.Hour)
	delays(t, storeFailure(wirev1.FailureReason_FAILURE_REASON_STORE_NOT_FOUND), 6*time.Hour)
	delays(t, found("Delete"), 6*time.Hour)
}

func delays(t *testing.T, report *wirev1.Report, last time.Duration) {
	t.Helper()
	longest, store := time.Duration(0), probing()
	facts := probeEnded(t, report)
	for range 40 {
		store.Status = objectstoreplan.Decide(store, facts, agentpod.Image{}).Status
		wait := store.Status.Probe.NextTime.Sub(facts.Now)
		if wait > last*3/2 {
			t.Fatalf("again after %v", wait)
		}
		longest = max(longest, wait)
		begin := storeFacts()
		begin.Now = facts.Now.Add(wait)
		store.Status = objectstoreplan.Decide(store, begin, agentpod.Image{}).Status
		facts.Now = begin.Now
	}
	if longest < last {
		t.Errorf("again after %v at most", longest)
	}
}

func TestProbeThatHangs(t *testing.T) {
	store, facts := probing(), storeFacts()
	facts.Job = &batchv1.Job{}
	facts.Pod = storePod(corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(storeNow.Add(-time.Minute))},
	})
	d := objectstoreplan.Decide(store, facts, agentpod.Image{})
	if d.Ended || d.RequeueAfter <= 0 || !reflect.DeepEqual(d.Status, store.Status) {
		t.Errorf("%+v", d)
	}
	facts.Now = facts.Now.Add(time.Hour)
	d = objectstoreplan.Decide(store, facts, agentpod.Image{})
	if !d.Ended || storeReason(d.Status, v1alpha1.ConditionStalled) != v1alpha1.ReasonAgentLost {
		t.Errorf("%+v", d)
	}
}

func TestStoreThatMustNotBeDialled(t *testing.T) {
	facts := storeFacts()
	facts.Problem = &agentpod.Problem{Reason: v1alpha1.ReasonAddressNotAllowed, Message: "why"}
	d := objectstoreplan.Decide(newStore(), facts, agentpod.Image{})
	if d.Start != nil || storeReason(d.Status, v1alpha1.ConditionStalled) != v1alpha1.ReasonAddressNotAllowed ||
		d.Status.Probe.NextTime == nil || d.RequeueAfter <= 0 {
		t.Errorf("%+v", d)
	}
	// A probe of the former spec ends with it.
	store := probing()
	store.Generation = 2
	if d := objectstoreplan.Decide(store, facts, agentpod.Image{}); !d.Ended {
		t.Errorf("%+v", d)
	}
}

// TestStoreHost: with VirtualHost the bucket decides with the endpoint which server is dialled.
func TestStoreHost(t *testing.T) {
	const virtual = v1alpha1.StoreAddressingVirtualHost
	for want, spec := range map[string]v1alpha1.ObjectStoreSpec{
		"s3.example:443":        {Endpoint: "https://s3.example", Bucket: "cargo"},
		"com:80":                {Endpoint: "http://com", Bucket: "evil-example", Addressing: v1alpha1.StoreAddressingPath},
		"evil-example.com:80":   {Endpoint: "http://com", Bucket: "evil-example", Addressing: virtual},
		"minio.bank.svc:9000":   {Endpoint: "https://svc:9000", Bucket: "minio.bank", Addressing: virtual},
		"cargo.s3.example:9000": {Endpoint: "https://s3.example:9000", Bucket: "cargo", Addressing: virtual},
	} {
		if host, port := attempt.StoreHost(spec); host+":"+port != want {
			t.Errorf("%s: %s:%s", want, host, port)
		}
		store := newStore()
		store.Spec = spec
		d := objectstoreplan.Decide(store, storeFacts(), agentpod.Image{})
		if got := d.Start.Traffic().Stores[0].Address; got != want {
			t.Errorf("%s: the NetworkPolicy is for %s", want, got)
		}
	}
}

func TestBundleThatIsNone(t *testing.T) {
	store := newStore()
	store.Spec.CABundle = []byte("not PEM")
	d := objectstoreplan.Decide(store, storeFacts(), agentpod.Image{})
	if d.Start != nil || storeReason(d.Status, v1alpha1.ConditionStalled) != v1alpha1.ReasonInvalidSpec {
		t.Errorf("%+v", d)
	}
}

// TestNextTime: whatever status says, probes go on.
func TestNextTime(t *testing.T) {
	store := probing()
	store.Status = objectstoreplan.Decide(store, probeEnded(t, found()), agentpod.Image{}).Status
	far := metav1.NewTime(storeNow.Add(37 * time.Hour))
	for _, next := range []*metav1.Time{nil, &far} {
		store.Status.Probe.NextTime = next
		if d := objectstoreplan.Decide(store, storeFacts(), agentpod.Image{}); d.Start == nil {
			t.Errorf("%v: %+v", next, d)
		}
	}
}
