// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build gitops

package flux_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// state is what of objects must not change when nothing is changed in Git.
type state struct {
	version    string
	generation int64
	managed    []metav1.ManagedFieldsEntry
	spec       any
	conditions any
	status     any
}

// states of objects as they are now.
func (f *flux) states(objects []unstructured.Unstructured) map[string]state {
	f.t.Helper()
	found := map[string]state{}
	for i := range objects {
		live := objects[i].DeepCopy()
		if err := f.api.Get(f.t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
			f.t.Fatal(err)
		}
		conditions, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
		if err != nil {
			f.t.Fatal(err)
		}
		found[live.GetKind()+"/"+live.GetName()] = state{
			live.GetResourceVersion(), live.GetGeneration(), live.GetManagedFields(), live.Object["spec"], conditions,
			live.Object["status"],
		}
	}
	return found
}

// same requires two states to be the same, but for figures of work that goes on.
func same(t *testing.T, before, after map[string]state) {
	t.Helper()
	for name := range before {
		b, a := before[name], after[name]
		if !reflect.DeepEqual(b.status, a.status) {
			b, a = b.withoutFigures(), a.withoutFigures()
		}
		if !reflect.DeepEqual(b, a) {
			t.Errorf("%s was changed\nfrom %+v\nto   %+v", name, b, a)
		}
	}
}

// withoutFigures has no trace of how often status was written.
func (s state) withoutFigures() state {
	s.version, s.status = "", nil
	s.managed = slices.DeleteFunc(slices.Clone(s.managed), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "status"
	})
	return s
}

// gone waits until objects do not exist.
func (f *flux) gone(objects []unstructured.Unstructured) {
	f.t.Helper()
	for i := range objects {
		o := objects[i].DeepCopy()
		eventually(f.t, o.GetKind()+" "+o.GetName()+" to be gone", func() (bool, string) {
			err := f.api.Get(f.t.Context(), client.ObjectKeyFromObject(o), o)
			if err == nil {
				return false, fmt.Sprintf("it exists, with finalizers %v, deleted %v", o.GetFinalizers(), o.GetDeletionTimestamp())
			}
			var noMatch *meta.NoKindMatchError
			return client.IgnoreNotFound(err) == nil || errors.As(err, &noMatch), err.Error()
		})
	}
}

// is waits until an object has a condition.
func (f *flux) is(o *unstructured.Unstructured, condition string) {
	f.t.Helper()
	eventually(f.t, o.GetKind()+" "+o.GetName()+" to be "+condition, func() (bool, string) {
		live := o.DeepCopy()
		if err := f.api.Get(f.t.Context(), client.ObjectKeyFromObject(o), live); err != nil {
			return false, err.Error()
		}
		found := conditionOf(f.t, live, condition)
		return found != nil && found.Status == metav1.ConditionTrue, strings.TrimSpace(objectStatus(live))
	})
}

func objectStatus(o *unstructured.Unstructured) string {
	text, err := o.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// unready requires that a Kustomization is not found healthy while Flux looks twice.
func (f *flux) unready(name, commit string) {
	f.t.Helper()
	for end := time.Now().Add(poll); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if ready, state := f.ready(name, commit); ready {
			f.t.Fatalf("Kustomization %s is ready before its objects are: %s", name, state)
		}
	}
}

// steady: applying Kustomizations of the same commit again changes no object.
func (f *flux) steady(commit string, objects []unstructured.Unstructured, names ...string) {
	f.t.Helper()
	var before map[string]state
	eventually(f.t, "the manager to have written what it has to", func() (bool, string) {
		before = f.states(objects)
		time.Sleep(3 * time.Second)
		for name, later := range f.states(objects) {
			if later.version != before[name].version {
				return false, name + " is still written"
			}
		}
		return true, ""
	})
	if changed := f.reconcile(commit, names...); len(changed) > 0 {
		f.t.Errorf("a second reconciliation changes %v", changed)
	}
	same(f.t, before, f.states(objects))
}
