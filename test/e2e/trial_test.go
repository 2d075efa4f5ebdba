// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// A trial on a claim with text and noise: every engine of the image is measured, and what is recommended can be
// applied.
func TestTrial(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "100Mi")
	east.sh(t, namespace, "source", fill)
	trial := newTrial(
		namespace, "ledger",
		v1alpha1.TrialSource{PersistentVolumeClaim: &v1alpha1.PersistentVolumeClaimPath{ClaimName: "source", Path: "/"}},
	)
	complete(t, trial)
	if s := trial.Status.Sample; s.Unit != v1alpha1.TrialUnitBlock || s.BytesTotal < 12_000_000 || s.Bytes == 0 ||
		s.Bytes > 4<<20 {
		t.Errorf("%+v", s)
	}
	checkMeasured(t, trial)
	checkRecommended(t, trial)
	t.Log(east.says(t, []string{"trial", "report", trial.Name, "-n", namespace, "-o", "text"},
		"on node "+trial.Status.Run.Node, "Sample of claim source", "libzstd", "Recommended: ",
		trial.Status.Recommendation.Policy))
	if err := east.Delete(ctx, trial); err != nil {
		t.Fatal(err)
	}
	gone(t, namespace)
}

// newTrial is one with links of which one is so slow that compressing wins there, whatever the machine.
func newTrial(namespace, name string, source v1alpha1.TrialSource) *v1alpha1.CompressionTrial {
	return &v1alpha1.CompressionTrial{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.CompressionTrialSpec{
			Source: source,
			Sample: &v1alpha1.TrialSample{Size: ptr.To(resource.MustParse("4Mi"))},
			Links: []v1alpha1.TrialLink{
				{Name: "slow", BytesPerSecond: resource.MustParse("100k")},
				{Name: "fast", BytesPerSecond: resource.MustParse("1T")},
			},
			Compression: &v1alpha1.TrialCompression{Objective: v1alpha1.ObjectiveElapsed},
		},
	}
}

// complete creates a trial and waits until it is complete.
func complete(t *testing.T, trial *v1alpha1.CompressionTrial) {
	t.Helper()
	ctx := context.Background()
	if err := east.Create(ctx, trial); err != nil {
		t.Fatal(err)
	}
	eventually(t, 6*time.Minute, "the trial", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(trial), trial); err != nil {
			return false, err.Error()
		}
		ready := meta.FindStatusCondition(trial.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil {
			return false, "no status"
		}
		return meta.IsStatusConditionTrue(trial.Status.Conditions, v1alpha1.ConditionComplete), fmt.Sprintf(
			"%s: %s: %s", trial.Status.Phase, ready.Reason, ready.Message,
		)
	})
	if s := trial.Status; s.Sample == nil || s.Run == nil || s.Recommendation == nil {
		t.Fatalf("parts of the status are missing: %+v", s)
	}
}

// checkMeasured: every engine of the image has figures that can be.
func checkMeasured(t *testing.T, trial *v1alpha1.CompressionTrial) {
	t.Helper()
	s := trial.Status
	if s.Run.Node == "" || s.Cores < 1 || s.Accelerator == nil {
		t.Errorf("%+v %d %+v", s.Run, s.Cores, s.Accelerator)
	}
	codecs := map[string]int{}
	for _, r := range s.Results {
		codecs[r.Codec]++
		ratio, err := strconv.ParseFloat(r.Ratio, 64)
		if r.Problem != "" || err != nil || ratio < 1 || len(r.Predictions) != 2 || (r.Codec == "none") != (r.Level == "") {
			t.Errorf("%+v", r)
			continue
		}
		slow, err := strconv.ParseFloat(r.Predictions[0].SecondsPerGiB, 64)
		if err != nil || slow < 1<<30/1e5/ratio*0.99 { // the ratio is rounded
			t.Errorf("a GiB over 100 kB/s takes %v s: %+v", slow, r)
		}
	}
	if codecs["none"] != 1 || codecs["deflate"] < 4 || codecs["zstd"] < 2 {
		t.Errorf("%v", codecs)
	}
}

// checkRecommended: over the slow link compressing is best, and the policy can be applied.
func checkRecommended(t *testing.T, trial *v1alpha1.CompressionTrial) {
	t.Helper()
	ctx, s := context.Background(), trial.Status
	if choices := s.Recommendation.Choices; len(choices) != 2 || choices[0].Codec == "none" || choices[1].Codec == "" {
		t.Errorf("%+v", choices)
	}
	recommended := &v1alpha1.CompressionPolicy{}
	if err := yaml.UnmarshalStrict([]byte(s.Recommendation.Policy), recommended); err != nil {
		t.Fatal(err)
	}
	recommended.Name = trial.Namespace
	if err := east.Create(ctx, recommended); err != nil {
		t.Errorf("%v: %s", err, s.Recommendation.Policy)
	} else if err := east.Delete(ctx, recommended); err != nil {
		t.Error(err)
	}
}
