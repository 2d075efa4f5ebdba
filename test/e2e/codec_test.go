// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestZstd: a Transfer may ask for zstd by itself, and a policy may prefer it and name the engine. Both sides' nodes
// are without an accelerator here, but that is not why software compresses.
func TestZstd(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "100Mi")
	west.claim(t, namespace, "copy", "", "100Mi")
	east.sh(t, namespace, "source", fill)
	west.sh(t, namespace, "copy", "mkdir /data/alone /data/preferred")
	grant(t, namespace, "copy")

	zstd := []v1alpha1.Codec{v1alpha1.CodecZstd, v1alpha1.CodecDeflate}
	policy := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: v1alpha1.CompressionPolicySpec{
			Mode: v1alpha1.CompressionAlways, Codecs: zstd, Level: v1alpha1.CompressionBalanced,
			Software: &v1alpha1.SoftwareCompression{
				Engines: []v1alpha1.SoftwareEngine{v1alpha1.EngineGoZstd, v1alpha1.EngineZlibNG},
			},
		},
	}
	if err := east.Create(ctx, policy); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = east.Delete(ctx, policy) })

	for _, test := range []struct {
		name        string
		compression v1alpha1.Compression
		engine      v1alpha1.SoftwareEngine
	}{
		{"alone", v1alpha1.Compression{Mode: v1alpha1.CompressionAlways, Codecs: zstd[:1]}, v1alpha1.EngineLibzstd},
		{"preferred", v1alpha1.Compression{PolicyName: policy.Name}, v1alpha1.EngineGoZstd},
	} {
		transfer := newTransfer(namespace, test.name)
		transfer.Spec.Destination.PersistentVolumeClaim.Path = "/" + test.name
		transfer.Spec.Compression = &test.compression
		if err := east.Create(ctx, transfer); err != nil {
			t.Fatal(err)
		}
		waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
		there := strings.ReplaceAll(listing, "/data", "/data/"+test.name)
		if want, got := east.sh(t, namespace, "source", listing), west.sh(t, namespace, "copy", there); want != got {
			t.Errorf("%s: the two sides differ:\neast:\n%s\nwest:\n%s", test.name, want, got)
		}

		c := transfer.Status.Compression
		if c == nil || c.Codec != "zstd" || c.Engine != string(test.engine) ||
			c.Reason != v1alpha1.CompressionCodecNotAccelerated ||
			c.Software.Operations == 0 || c.Hardware.Operations != 0 || c.SavedPercent < 50 {
			t.Errorf("%s: compression is %+v", test.name, c)
		}
		condition := meta.FindStatusCondition(transfer.Status.Conditions, v1alpha1.ConditionHardwareCompression)
		if condition == nil || condition.Status != metav1.ConditionFalse ||
			condition.Reason != v1alpha1.CompressionCodecNotAccelerated {
			t.Errorf("%s: the condition %s is %+v", test.name, v1alpha1.ConditionHardwareCompression, condition)
		}
		if p := transfer.Status.Policy; p == nil ||
			test.compression.PolicyName != "" && !slices.Equal(p.SoftwareEngines, policy.Spec.Software.Engines) {
			t.Errorf("%s: the policy is %+v", test.name, p)
		}
		table, err := east.command("-n", namespace, "get", "transfer", test.name).CombinedOutput()
		if err != nil || !slices.Contains(strings.Fields(string(table)), string(test.engine)) {
			t.Errorf("kubectl get transfer: %v\n%s", err, table)
		}
	}
}
