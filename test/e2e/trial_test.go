// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"bytes"
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
	"github.com/lighterage/lighterage/controllers/trialreport"
)

// A trial on a claim with text and noise: every engine of the image is measured, and what is recommended can be applied.
func TestTrial(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "100Mi")
	east.sh(t, namespace, "source", fill)
	trial := &v1alpha1.CompressionTrial{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ledger"},
		Spec: v1alpha1.CompressionTrialSpec{
			Source: v1alpha1.TrialSource{PersistentVolumeClaim: &v1alpha1.PersistentVolumeClaimPath{ClaimName: "source", Path: "/"}},
			Sample: &v1alpha1.TrialSample{Size: ptr.To(resource.MustParse("4Mi"))},
			Links: []v1alpha1.TrialLink{
				{Name: "slow", BytesPerSecond: resource.MustParse("100k")}, {Name: "fast", BytesPerSecond: resource.MustParse("1T")},
			},
			Compression: &v1alpha1.TrialCompression{Objective: v1alpha1.ObjectiveElapsed},
		},
	}
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
		return meta.IsStatusConditionTrue(trial.Status.Conditions, v1alpha1.ConditionComplete), fmt.Sprintf("%s: %s: %s", trial.Status.Phase, ready.Reason, ready.Message)
	})
	s := trial.Status
	if s.Sample.BytesTotal < 12_000_000 || s.Sample.Bytes == 0 || s.Sample.Bytes > 4<<20 || s.Run.Node == "" || s.Cores < 1 || s.Accelerator == nil {
		t.Errorf("%+v %+v", s.Sample, s.Run)
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
	// Over the slow link compressing wins, whatever the machine.
	if choices := s.Recommendation.Choices; len(choices) != 2 || choices[0].Codec == "none" || choices[1].Codec == "" {
		t.Errorf("%+v", choices)
	}
	recommended := &v1alpha1.CompressionPolicy{}
	if err := yaml.UnmarshalStrict([]byte(s.Recommendation.Policy), recommended); err != nil {
		t.Fatal(err)
	}
	recommended.Name = namespace
	if err := east.Create(ctx, recommended); err != nil {
		t.Errorf("%v: %s", err, s.Recommendation.Policy)
	} else if err := east.Delete(ctx, recommended); err != nil {
		t.Error(err)
	}
	var text bytes.Buffer
	if err := trialreport.Text(&text, trial); err != nil {
		t.Error(err)
	}
	t.Log(text.String())
	if err := east.Delete(ctx, trial); err != nil {
		t.Fatal(err)
	}
	gone(t, namespace)
}
