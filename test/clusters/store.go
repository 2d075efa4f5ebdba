// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/api/v1alpha1"
)

// ObjectStores makes an ObjectStore of the same prefix in a namespace of both clusters, each with a Secret, and waits
// until agents of both have probed it. Without a server the test is skipped.
func (p *Pair) ObjectStores(t *testing.T, namespace, name, prefix string) {
	t.Helper()
	if p.Store == nil {
		t.Skip("the clusters have no object store: set OBJECTSTORE_ENDPOINT and its like before make clusters")
	}
	ctx := context.Background()
	both := []*Cluster{p.East, p.West}
	for _, c := range both {
		for _, object := range []client.Object{
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-keys"},
				StringData: map[string]string{
					wirev1.ObjectStoreAccessKeyIDKey: p.Store.AccessKeyID, wirev1.ObjectStoreSecretAccessKeyKey: p.Store.SecretAccessKey,
				},
			},
			&v1alpha1.ObjectStore{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec: v1alpha1.ObjectStoreSpec{
					Endpoint: p.Store.Endpoint, Bucket: p.Store.Bucket, Prefix: prefix, CABundle: p.Store.CA,
					Credentials: &v1alpha1.StoreCredentials{SecretName: name + "-keys"},
				},
			},
		} {
			if err := c.Create(ctx, object); err != nil {
				t.Fatalf("%s: create ObjectStore %s: %v", c.Name, name, err)
			}
		}
	}
	for _, c := range both {
		Eventually(t, 6*time.Minute, "ObjectStore "+name+" of "+c.Name+" to be Ready", func() (bool, string) {
			store := &v1alpha1.ObjectStore{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, store); err != nil {
				return false, err.Error()
			}
			found := meta.FindStatusCondition(store.Status.Conditions, v1alpha1.ConditionReady)
			if found == nil {
				return false, "no such condition yet"
			}
			return found.Status == metav1.ConditionTrue, found.Reason + ": " + found.Message
		})
	}
}
