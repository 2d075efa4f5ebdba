// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package delivery_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

// unchanged fails the test unless the Secret is the very one that it was.
func unchanged(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	now := &corev1.Secret{}
	if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(secret), now); err != nil {
		t.Fatalf("Secret %s: %v", client.ObjectKeyFromObject(secret), err)
	}
	if now.UID != secret.UID || now.ResourceVersion != secret.ResourceVersion {
		t.Errorf("Secret %s was written: %+v", client.ObjectKeyFromObject(secret), now.ObjectMeta)
	}
}

// H3: a Delivery with the name of the CA's Secret, in the operator's namespace, does not take it away when it is
// deleted.
func TestDeliveryNamedAfterTheCA(t *testing.T) {
	if _, err := cluster.Authority().CA(context.Background()); err != nil {
		t.Fatal(err)
	}
	ca := &corev1.Secret{}
	key := client.ObjectKey{Namespace: controllertest.OperatorNamespace, Name: pki.CAName}
	if err := cluster.Client.Get(context.Background(), key, ca); err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, namespace: controllertest.OperatorNamespace}
	d := f.make("ledger", 1, "/")
	d.Name = pki.CAName
	switch err := cluster.Client.Create(context.Background(), d); {
	case err == nil:
		controllertest.Eventually(t, func() error {
			if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(d), d); err != nil ||
				len(d.Finalizers) == 0 {
				return fmt.Errorf("the manager has not seen it: %v", err)
			}
			return nil
		})
		if err := cluster.Client.Delete(context.Background(), d); err != nil {
			t.Fatal(err)
		}
		controllertest.Eventually(t, func() error {
			if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(d), d); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the Delivery is still there: %v", err)
			}
			return nil
		})
	case !apierrors.IsInvalid(err):
		t.Fatal(err)
	}
	unchanged(t, ca)
}

// H3: a Secret of a user with the name of a Delivery is neither overwritten when its agent starts nor deleted when it
// ends.
func TestSecretNamedLikeADelivery(t *testing.T) {
	f := prepare(t)
	d := f.make("ledger", 1, "/")
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: d.Name}, Data: map[string][]byte{"password": []byte("x")},
	}
	cluster.Create(t, secret)
	cluster.Create(t, d)
	f.run(d)
	unchanged(t, secret)
	own := client.ObjectKey{Namespace: f.namespace, Name: attempt.SecretName(d.Name, d)}
	if err := cluster.Client.Get(context.Background(), own, &corev1.Secret{}); err != nil {
		t.Errorf("the agent's Secret: %v", err)
	}
	if err := cluster.Client.Delete(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	pods := client.MatchingLabels{v1alpha1.DeliveryLabel: string(d.UID)}
	err := cluster.Client.DeleteAllOf(
		context.Background(), &corev1.Pod{}, client.InNamespace(f.namespace), pods, client.GracePeriodSeconds(0),
	)
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(d), d); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Delivery is still there: %v", err)
		}
		return nil
	})
	unchanged(t, secret)
	if err := cluster.Client.Get(context.Background(), own, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("the agent's Secret outlives it: %v", err)
	}
}

// H3: names that no Transfer leads to are refused, so that nobody takes a Delivery for what it is not.
func TestDeliveryNames(t *testing.T) {
	f := prepare(t)
	for _, name := range []string{
		"lighterage-ca", "ledger", "ledger-abcde-1", "ledger-abcde-1-0123456z", "ledger-abcde-0-01234567",
		"-abcde-1-01234567",
	} {
		d := f.make("ledger", 1, "/")
		d.Name = name
		if err := cluster.Client.Create(context.Background(), d); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{
		"ledger", "l", "2026.books-of.the-bank", "a-very-long-name-of-a-transfer-that-has.more-than-forty-characters",
	} {
		spec := f.make("ledger", 1, "/").Spec
		spec.Transfer.Name, spec.Transfer.Attempt = name, 999_999
		if err := cluster.Client.Create(
			context.Background(), plan.NewDelivery(f.namespace, spec), client.DryRunAll,
		); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
