// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// TestLocalPolicy: a Transfer waits for a policy of its namespace, keeps it for the run, and has the present one in the
// next. Its prices are not the tenant's: here the cluster states none.
func TestLocalPolicy(t *testing.T) {
	f := prepare(t)
	f.transfer.Spec.Compression = &v1alpha1.Compression{PolicyName: f.namespace}
	f.create()
	f.wait(v1alpha1.TransferPending, v1alpha1.ConditionStalled, v1alpha1.ReasonPolicyNotFound)
	local := &v1alpha1.LocalCompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.namespace},
		Spec:       v1alpha1.LocalCompressionPolicySpec{Level: v1alpha1.CompressionBalanced},
	}
	cluster.Create(t, local)
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	has := func(level v1alpha1.CompressionLevel) {
		t.Helper()
		controllertest.Eventually(f, func() error {
			if err := f.refresh(); err != nil {
				return err
			}
			if p := f.transfer.Status.Policy; !p.IsLocal() || p.Level != level || p.Prices != nil {
				return fmt.Errorf("status has %+v", p)
			}
			return nil
		})
	}
	has(v1alpha1.CompressionBalanced)
	job := f.job(1)
	pod := cluster.RunPod(t, job, f.namespace)
	local.Spec.Level = v1alpha1.CompressionHigh
	if err := cluster.Client.Update(context.Background(), local); err != nil {
		t.Fatal(err)
	}
	cluster.EndPod(t, pod, 0, encode(t, succeeded()))
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	has(v1alpha1.CompressionBalanced)
	f.change(func(t *v1alpha1.Transfer) {
		t.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	})
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	has(v1alpha1.CompressionHigh)
}
