// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package watched_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lighterage/lighterage/controllers/watched"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]watched.Namespaces{
		"": nil, "bank": {"bank", "lighterage-system"}, "shop,bank,shop": {"bank", "lighterage-system", "shop"},
	} {
		got, err := watched.Parse(text, "lighterage-system")
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{",", "bank,", "Bank", "bank shop", "*"} {
		if got, err := watched.Parse(text, "x"); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestReader: who has rights in two namespaces sees what is there, never asks elsewhere, and lists kinds of the cluster
// as ever.
func TestReader(t *testing.T) {
	ctx := context.Background()
	pod := func(namespace, name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	api := fake.NewClientBuilder().WithRESTMapper(mapper).WithObjects(
		pod("bank", "a"), pod("shop", "b"), pod("evil", "c"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
	)
	forbidden := errors.New("forbidden")
	asked := api.WithInterceptorFuncs(interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption,
		) error {
			if key.Namespace == "evil" {
				return forbidden
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			namespace := (&client.ListOptions{}).ApplyOptions(options).Namespace
			if _, pods := list.(*corev1.PodList); pods && (namespace == "" || namespace == "evil") {
				return forbidden
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	reader := watched.Namespaces{"bank", "shop"}.Reader(asked, asked)
	names := func(options ...client.ListOption) []string {
		t.Helper()
		pods := &corev1.PodList{Items: []corev1.Pod{*pod("evil", "left")}}
		if err := reader.List(ctx, pods, options...); err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range pods.Items {
			names = append(names, pods.Items[i].Name)
		}
		return names
	}
	if got := names(); !cmp.Equal(got, []string{"a", "b"}) {
		t.Errorf("everywhere: %v", got)
	}
	if got := names(client.InNamespace("shop")); !cmp.Equal(got, []string{"b"}) {
		t.Errorf("shop: %v", got)
	}
	if got := names(client.InNamespace("evil")); len(got) > 0 {
		t.Errorf("evil: %v", got)
	}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: "evil", Name: "c"}, &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: "bank", Name: "a"}, &corev1.Pod{}); err != nil {
		t.Error(err)
	}
	nodes := &corev1.NodeList{}
	if err := reader.List(ctx, nodes); err != nil || len(nodes.Items) != 1 {
		t.Errorf("%d nodes, %v", len(nodes.Items), err)
	}
}
