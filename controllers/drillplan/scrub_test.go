// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package drillplan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/drillplan"
	"github.com/lighterage/lighterage/controllers/plan"
)

// ofStore and ofClaim have a Drill verify what rests.
func ofStore(drill *v1alpha1.Drill) {
	drill.Spec.Volume, drill.Spec.Include, drill.Spec.Scrub = v1alpha1.EphemeralVolume{}, nil, v1alpha1.ScrubInflate
}

func ofClaim(drill *v1alpha1.Drill) {
	ofStore(drill)
	drill.Spec.Scrub, drill.Spec.Inflate = v1alpha1.ScrubChecksums, v1alpha1.InflateAny
	drill.Spec.Source = v1alpha1.DrillSource{
		PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "cargo", Path: "/a"}, Form: v1alpha1.RestingZstd,
	}
}

func TestScrubs(t *testing.T) {
	for what, change := range map[string]func(*v1alpha1.Drill){"store": ofStore, "claim": ofClaim} {
		drill, transfer := begun(t, change)
		s := transfer.Spec
		if s.Destination.Scrub != drill.Spec.Scrub || s.Destination.Ephemeral != nil || s.Inflate != drill.Spec.Inflate {
			t.Errorf("%s: %+v", what, s)
		}
		if what == "claim" && (s.Source.ObjectStore != nil || s.Source.PersistentVolumeClaim.ClaimName != "cargo" ||
			s.Source.Form != v1alpha1.RestingZstd) {
			t.Errorf("%+v", s.Source)
		}
		if err := plan.ValidateTransfer(s); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		complete(transfer)
		transfer.Status.Omissions = []v1alpha1.Omission{{What: "NoChecksum", Count: 7, Examples: []string{"x"}}}
		ended := step(t, drill, drillplan.Facts{Now: now, Transfer: transfer})
		expect(t, drill, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonVerified)
		expect(t, drill, v1alpha1.ConditionRecoverable, metav1.ConditionTrue, v1alpha1.ReasonVerified)
		r := drill.Status.History[0]
		if ended.Remove != transfer || !drill.Status.LastRecoverableTime.Time.Equal(now) || len(r.Findings) != 1 ||
			r.Findings[0].Examples[0] != "x" || drillplan.Flawed(r) != 0 {
			t.Errorf("%s: %+v", what, drill.Status)
		}
	}
}

// TestFlaws: what is found decides by its kind, the worst first, and is named.
func TestFlaws(t *testing.T) {
	for _, test := range []struct {
		found  []string
		reason string
		flawed int64
	}{
		{[]string{"Damaged"}, v1alpha1.ReasonDataDamaged, 2},
		{[]string{"ObjectReplaced", "NoChecksum"}, v1alpha1.ReasonDataDamaged, 2},
		{[]string{"ObjectMissing"}, v1alpha1.ReasonCopyIncomplete, 2},
		{[]string{"IndexMissing"}, v1alpha1.ReasonIndexUnusable, 2},
		{[]string{"IndexInvalid", "IndexMissing"}, v1alpha1.ReasonIndexUnusable, 4},
		{[]string{"Changing", "Damaged", "IndexInvalid", "ObjectMissing"}, v1alpha1.ReasonDataDamaged, 6},
		{[]string{"Changing", "IndexTooLong", "NoChecksum", "Socket", "Unreadable"}, v1alpha1.ReasonVerified, 0},
	} {
		drill, transfer := begun(t, ofStore)
		complete(transfer)
		for _, what := range test.found {
			transfer.Status.Omissions = append(transfer.Status.Omissions,
				v1alpha1.Omission{What: what, Count: 2, Examples: []string{"of " + what}})
		}
		step(t, drill, drillplan.Facts{Now: now, Transfer: transfer})
		r := drill.Status.History[0]
		if r.Reason != test.reason || drillplan.Flawed(r) != test.flawed || len(r.Findings) != len(test.found) {
			t.Errorf("%q: %+v, %d", test.found, r, drillplan.Flawed(r))
		}
		for _, what := range test.found {
			flaw := !slices.Contains([]string{"Changing", "IndexTooLong", "NoChecksum", "Socket", "Unreadable"}, what)
			if strings.Contains(r.Message, "of "+what) != flaw {
				t.Errorf("%q: %q", test.found, r.Message)
			}
		}
		expect(t, drill, v1alpha1.ConditionRecoverable,
			map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[test.flawed == 0], test.reason)
	}
}

// TestNothingToVerify is no proof.
func TestNothingToVerify(t *testing.T) {
	drill, transfer := begun(t, ofClaim)
	complete(transfer)
	transfer.Status.Progress.Files = 0
	transfer.Status.Omissions = []v1alpha1.Omission{{What: "NoChecksum", Count: 7}}
	step(t, drill, drillplan.Facts{Now: now, Transfer: transfer})
	expect(t, drill, v1alpha1.ConditionRecoverable, metav1.ConditionFalse, v1alpha1.ReasonCopyIncomplete)
}

// TestScrubIsMeasured against the objective.
func TestScrubIsMeasured(t *testing.T) {
	drill, transfer := begun(t, func(d *v1alpha1.Drill) {
		ofStore(d)
		d.Spec.Objective = &v1alpha1.DrillObjective{
			MinBytesPerSecond: ptr.To(resource.MustParse("2000")), MaxAge: &metav1.Duration{Duration: 2 * time.Hour},
		}
	})
	complete(transfer)
	step(t, drill, drillplan.Facts{Now: now, Transfer: transfer})
	expect(t, drill, v1alpha1.ConditionRecoverable, metav1.ConditionFalse, v1alpha1.ReasonRestoreTooSlow)
}
