// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
)

// scrubOf is a Transfer that verifies its source where it rests.
func scrubOf(source v1alpha1.TransferSource) *v1alpha1.Transfer {
	return &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "scrub", UID: "u-1"},
		Spec: v1alpha1.TransferSpec{
			Source: source, Destination: v1alpha1.TransferDestination{Scrub: v1alpha1.ScrubInflate},
			Inflate: v1alpha1.InflateSoftware,
		},
		Status: v1alpha1.TransferStatus{Run: &v1alpha1.RunStatus{ID: "abcde", Attempt: 1}},
	}
}

var (
	cargoClaim = v1alpha1.TransferSource{
		PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "cargo", Path: "/a"}, Form: v1alpha1.RestingZstd,
	}
	cargoStore = v1alpha1.TransferSource{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/a"}}
)

// TestScrubAttempts: the agent has the data read-only, nothing to write to, and nobody to ask.
func TestScrubAttempts(t *testing.T) {
	store := &v1alpha1.ObjectStore{Spec: v1alpha1.ObjectStoreSpec{Endpoint: "https://s3.example", Bucket: "b", Prefix: "p"}}
	of := scrubOf(cargoClaim)
	inStore := scrubOf(cargoStore)
	archives := scrubOf(cargoClaim)
	archives.Spec.Source.Form = v1alpha1.RestingArchive
	for what, test := range map[string]struct {
		transfer *v1alpha1.Transfer
		route    v1alpha1.Route
	}{
		"claim": {of, v1alpha1.RoutePod}, "archives": {archives, v1alpha1.RoutePod},
		"store": {inStore, v1alpha1.RouteObjectStore},
	} {
		transfer := test.transfer
		if route := firstRoute(transfer, TransferFacts{}); route != test.route {
			t.Errorf("%s: it goes by %s", what, route)
		}
		if err := ValidateTransfer(transfer.Spec); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if RunClaims(transfer) != nil || IntoClaim(transfer) || WritesHere(transfer) {
			t.Errorf("%s: it may write", what)
		}
		if problem := checkDestination(transfer, TransferFacts{}, true); problem != nil {
			t.Errorf("%s: %+v", what, problem)
		}
		made := PodAttempt(transfer, policy.Resolved{}, placement.Plan{}, agentpod.Image{})
		if what == "store" {
			made = storeAttempt(transfer, nil, policy.Resolved{}, placement.Plan{}, StoreFacts{Source: store}, agentpod.Image{})
		}
		pod := made.Job().Spec.Template.Spec
		for _, volume := range pod.Volumes {
			claim := volume.PersistentVolumeClaim
			if volume.Ephemeral != nil || claim != nil && (what == "store" || claim.ClaimName != "cargo") {
				t.Errorf("%s: the pod has %+v", what, volume)
			}
			for _, mount := range pod.Containers[0].VolumeMounts {
				if claim != nil && mount.Name == volume.Name && !mount.ReadOnly {
					t.Errorf("%s: %+v is not read-only", what, mount)
				}
			}
		}
		b, err := made.Config()
		if err != nil {
			t.Fatal(err)
		}
		c := &wirev1.LocalConfig{}
		if err := wirev1.UnmarshalConfig(b, c); err != nil {
			t.Fatal(err)
		}
		if !c.GetScrub().GetInflate() || !c.GetInflateInSoftware() || c.GetReceive() != nil || c.GetDestinationStore() != nil ||
			(c.GetSourceStore() != nil) != (what == "store") || (c.GetSend().GetSourceForm() == 0) != (what == "store") ||
			pod.Containers[0].Args[0] != "local" {
			t.Errorf("%s: %s", what, b)
		}
	}
	if DestinationKey(of) == DestinationKey(scrubNamed(of, "other")) {
		t.Error("two scrubs keep each other waiting")
	}
}

func scrubNamed(of *v1alpha1.Transfer, name string) *v1alpha1.Transfer {
	other := of.DeepCopy()
	other.Name = name
	return other
}

func TestScrubsAreValidated(t *testing.T) {
	for field, change := range map[string]func(*v1alpha1.TransferSpec){
		"spec.destination.scrub": func(s *v1alpha1.TransferSpec) { s.Include = []string{"a"} },
		"spec.source.form":       func(s *v1alpha1.TransferSpec) { s.Source.Form = "" },
		"spec.destination":       func(s *v1alpha1.TransferSpec) { s.Destination.Peer = "west" },
		"spec.destination#2": func(s *v1alpha1.TransferSpec) {
			s.Destination.ObjectStore = &v1alpha1.ObjectStorePath{Name: "vault"}
			s.Source.Form = ""
		},
		"spec.destination.scrub#2": func(s *v1alpha1.TransferSpec) { s.Delete = true },
		"spec.destination.scrub#3": func(s *v1alpha1.TransferSpec) { s.Source.CopyMethod = v1alpha1.CopySnapshot },
		"spec.destination.scrub#4": func(s *v1alpha1.TransferSpec) { s.Destination.Scrub = "Twice" },
	} {
		transfer := scrubOf(cargoClaim)
		change(&transfer.Spec)
		var invalid *policy.InvalidError
		if err := ValidateTransfer(transfer.Spec); !errors.As(err, &invalid) ||
			invalid.Field != field[:len(invalid.Field)] {
			t.Errorf("%s: %v", field, err)
		}
	}
}
