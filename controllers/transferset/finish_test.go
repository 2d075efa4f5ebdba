// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transferset

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// TestFinishAsksTheServer: a part that the cache has not seen yet is deleted before the set may go.
func TestFinishAsksTheServer(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	set := &v1alpha1.TransferSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "lighterage-system", Name: "move", Finalizers: []string{v1alpha1.Finalizer},
			DeletionTimestamp: &metav1.Time{Time: time.Now()},
		},
		Spec: v1alpha1.TransferSetSpec{NamespaceSelector: &metav1.LabelSelector{}},
	}
	part := &v1alpha1.TransferSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: "move", UID: "part",
		Labels: map[string]string{
			v1alpha1.TransferSetLabel: "move", agentpod.ManagedByLabel: agentpod.ManagedBy,
		},
		Annotations: map[string]string{v1alpha1.TemplateHashAnnotation: "digest"},
	}}
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(set, part).Build()
	cached := interceptor.NewClient(server, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
	})
	r := NewReconciler(Options{Client: cached, Reader: server, OperatorNamespace: "lighterage-system"})
	look := func() (sets []v1alpha1.TransferSet) {
		t.Helper()
		if err := server.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			t.Fatal(err)
		}
		if err := r.finish(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		list := &v1alpha1.TransferSetList{}
		if err := server.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	if left := look(); len(left) != 1 || left[0].Namespace != set.Namespace {
		t.Fatalf("left %+v", left)
	}
	if left := look(); len(left) > 0 {
		t.Errorf("left %+v", left)
	}
}
