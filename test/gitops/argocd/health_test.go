// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package argocd_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// sample is an object with a status that a controller gave it.
type sample struct {
	name   string
	object client.Object
	want   string
}

// samples makes those of each kind.
var samples = map[string]func(*testing.T) []sample{
	"CompressionPolicy":      policies,
	"CompressionTrial":       trials,
	"DataQuota":              dataQuotas,
	"Delivery":               deliveries,
	"Drill":                  drills,
	"HTTPEndpoint":           endpoints,
	"LocalCompressionPolicy": localPolicies,
	"NodeProfile":            profiles,
	"ObjectStore":            stores,
	"Peer":                   peers,
	"PeerGrant":              grants,
	"Queue":                  queues,
	"Statement":              statements,
	"Tariff":                 tariffs,
	"Transfer":               transfers,
	"TransferSet":            sets,
}

// alike is what kstatus, by which Flux judges, calls each health. It has nothing like Suspended.
var alike = map[string]status.Status{
	"Healthy": status.CurrentStatus, "Degraded": status.FailedStatus, "Progressing": status.InProgressStatus,
}

// kinds of the operator.
func kinds(t *testing.T) []string {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var found []string
	for kind, of := range scheme.KnownTypes(v1alpha1.GroupVersion) {
		if _, ok := reflect.New(of).Interface().(client.Object); ok {
			found = append(found, kind)
		}
	}
	slices.Sort(found)
	if len(found) < 10 {
		t.Fatalf("found %v: the scheme is not looked through", found)
	}
	return found
}

func TestHealth(t *testing.T) {
	for _, kind := range kinds(t) {
		of := samples[kind]
		if of == nil {
			t.Errorf("%s has no samples; add some of what its controller writes", kind)
			continue
		}
		t.Run(kind, func(t *testing.T) {
			script := scriptFor(t, v1alpha1.GroupVersion.Group, kind)
			seen := map[string]bool{}
			for _, s := range of(t) {
				s.object.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
				seen[s.want] = true
				t.Run(s.name, func(t *testing.T) { s.check(t, script) })
			}
			if !seen["Healthy"] {
				t.Error("no sample is Healthy")
			}
		})
	}
}

// check judges the object as it is, and as it is before the controller has seen it, after its spec has changed, and
// while it is being deleted.
func (s *sample) check(t *testing.T, script string) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.object)
	if err != nil {
		t.Fatal(err)
	}
	is := &unstructured.Unstructured{Object: object}
	got := expect(t, script, is, s.want)
	if want := message(t, is, s.want); got.message != want {
		t.Errorf("message %q, want that of the condition, %q", got.message, want)
	}

	unseen := is.DeepCopy()
	unstructured.RemoveNestedField(unseen.Object, "status")
	expect(t, script, unseen, "Progressing")
	// What the API server adds to an object without a status, see TestUnseen of test/integration.
	if err := unstructured.SetNestedField(unseen.Object, int64(-1), "status", "observedGeneration"); err != nil {
		t.Fatal(err)
	}
	expect(t, script, unseen, "Progressing")
	if result, err := status.Compute(unseen); err != nil || result.Status != status.InProgressStatus {
		t.Errorf("kstatus judges an object that was not seen as %+v (%v)", result, err)
	}

	changed := is.DeepCopy()
	changed.SetGeneration(is.GetGeneration() + 1)
	expect(t, script, changed, "Progressing")

	deleted := is.DeepCopy()
	now := metav1.Now()
	deleted.SetDeletionTimestamp(&now)
	expect(t, script, deleted, "Progressing")

	if want, ok := alike[s.want]; ok {
		if result, err := status.Compute(is); err != nil || result.Status != want {
			t.Errorf("kstatus judges it as %+v (%v), not as %s", result, err, want)
		}
	}
}

func expect(t *testing.T, script string, object *unstructured.Unstructured, want string) health {
	t.Helper()
	got, err := judge(t.Context(), script, object.Object)
	if err != nil {
		t.Fatal(err)
	}
	if got.status != want {
		t.Errorf("%+v, want %s of %v", got, want, object.Object["status"])
	}
	return got
}

// message is that of the condition which tells most of a health.
func message(t *testing.T, object *unstructured.Unstructured, of string) string {
	t.Helper()
	var with struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &with); err != nil {
		t.Fatal(err)
	}
	condition := v1alpha1.ConditionReady
	switch of {
	case "Degraded":
		condition = v1alpha1.ConditionStalled
	case "Progressing":
		condition = v1alpha1.ConditionReconciling
	}
	found := meta.FindStatusCondition(with.Status.Conditions, condition)
	if found == nil || found.Message == "" {
		t.Fatalf("condition %s is %+v", condition, found)
	}
	return found.Message
}
