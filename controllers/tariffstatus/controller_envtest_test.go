// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package tariffstatus_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/compressionpolicy"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/tariffstatus"
)

// TestAgainstAnAPIServer: a change of a Tariff or a CompressionPolicy is seen in the status of all that it concerns.
func TestAgainstAnAPIServer(t *testing.T) {
	cluster, err := controllertest.Start("../../config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	ctrl.SetLogger(logr.Discard())
	mgr, err := ctrl.NewManager(cluster.Config, ctrl.Options{
		Scheme: cluster.Scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		index.Setup(t.Context(), mgr.GetFieldIndexer()), tariffstatus.Setup(mgr, tariffstatus.Options{}),
		compressionpolicy.Setup(mgr, compressionpolicy.Options{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	go func() { _ = mgr.Start(t.Context()) }()

	user, cost := policy("names", "first", nil), policy("cost", "", nil)
	cost.Spec.Objective = v1alpha1.ObjectiveCost
	cluster.Create(t, &user, &cost)
	reason(t, cluster, &user, func() []metav1.Condition { return user.Status.Conditions }, v1alpha1.ReasonTariffNotFound)
	reason(t, cluster, &cost, func() []metav1.Condition { return cost.Status.Conditions }, v1alpha1.ReasonInvalidSpec)

	first, second := tariff("first", true, 0), tariff("second", true, 0)
	cluster.Create(t, &first)
	reason(t, cluster, &user, func() []metav1.Condition { return user.Status.Conditions }, v1alpha1.ReasonAccepted)
	reason(t, cluster, &cost, func() []metav1.Condition { return cost.Status.Conditions }, v1alpha1.ReasonAccepted)
	cluster.Create(t, &second)
	reason(t, cluster, &second, func() []metav1.Condition { return second.Status.Conditions },
		v1alpha1.ReasonMultipleDefaults)
	used(t, cluster, &first, "cost", "names")

	change(t, cluster, &first, func() { first.Annotations = nil })
	reason(t, cluster, &second, func() []metav1.Condition { return second.Status.Conditions }, v1alpha1.ReasonAccepted)
	used(t, cluster, &first, "names")
	used(t, cluster, &second, "cost")

	change(t, cluster, &second, func() { second.Spec.TimeZone = "Mars/Olympus" })
	reason(t, cluster, &second, func() []metav1.Condition { return second.Status.Conditions }, v1alpha1.ReasonInvalidSpec)
	reason(t, cluster, &cost, func() []metav1.Condition { return cost.Status.Conditions }, v1alpha1.ReasonTariffInvalid)

	change(t, cluster, &user, func() {
		user.Spec.Prices = &v1alpha1.Prices{Currency: "USD", CPUHour: "1",
			NetworkGiB: "1"}
	})
	reason(t, cluster, &user, func() []metav1.Condition { return user.Status.Conditions }, v1alpha1.ReasonCurrencyMismatch)

	first.Spec.Currency = "USD"
	if err := cluster.Client.Update(t.Context(), &first); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "spec.currency") {
		t.Errorf("the currency was changed: %v", err)
	}
	if err := cluster.Client.Delete(t.Context(), &user); err != nil {
		t.Fatal(err)
	}
	used(t, cluster, &first)
}

func change(t *testing.T, cluster *controllertest.Cluster, object client.Object, how func()) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		how()
		return cluster.Client.Update(t.Context(), object)
	})
}

func reason(
	t *testing.T, cluster *controllertest.Cluster, object client.Object, conditions func() []metav1.Condition, want string,
) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if ready := meta.FindStatusCondition(conditions(), v1alpha1.ConditionReady); ready == nil || ready.Reason != want {
			return fmt.Errorf("%s: %+v, want %s", object.GetName(), ready, want)
		}
		return nil
	})
}

func used(t *testing.T, cluster *controllertest.Cluster, by *v1alpha1.Tariff, policies ...string) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(by), by); err != nil {
			return err
		}
		if !slices.Equal(by.Status.Policies, policies) || int(by.Status.PolicyCount) != len(policies) {
			return fmt.Errorf("%s is used by %d: %q, want %q", by.Name, by.Status.PolicyCount, by.Status.Policies, policies)
		}
		return nil
	})
}
