// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/drillplan"
)

// TestTransfersOfDrills: whoever has the manager's token makes and deletes Transfers of Drills, and no others.
func TestTransfersOfDrills(t *testing.T) {
	t.Parallel()
	ours := func() *v1alpha1.Transfer {
		made := drillplan.Transfer(&v1alpha1.Drill{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger", UID: "u-1"},
			Spec: v1alpha1.DrillSpec{
				Source: v1alpha1.DrillSource{ObjectStore: v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}},
				Volume: v1alpha1.EphemeralVolume{Size: ptr.To(resource.MustParse("1Gi"))},
			},
			Status: v1alpha1.DrillStatus{Run: &v1alpha1.DrillRecord{ID: "abcde"}},
		})
		made.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Transfer"}
		return made
	}
	const fix = "only for Drills"
	for what, test := range map[string]struct {
		change func(*v1alpha1.Transfer)
		fix    string
	}{
		"a drill's": {func(*v1alpha1.Transfer) {}, ""},
		"a drill's that scrubs a store": {func(tr *v1alpha1.Transfer) {
			tr.Spec.Destination = v1alpha1.TransferDestination{Scrub: v1alpha1.ScrubChecksums}
		}, ""},
		"a drill's that scrubs a claim": {func(tr *v1alpha1.Transfer) {
			tr.Spec.Source = v1alpha1.TransferSource{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "cargo"}, Form: v1alpha1.RestingGzip,
			}
			tr.Spec.Destination = v1alpha1.TransferDestination{Scrub: v1alpha1.ScrubInflate}
		}, ""},
		"one that scrubs for nobody": {func(tr *v1alpha1.Transfer) {
			tr.Spec.Destination = v1alpha1.TransferDestination{Scrub: v1alpha1.ScrubChecksums}
			tr.OwnerReferences = nil
		}, fix},
		"one of a claim into a volume": {func(tr *v1alpha1.Transfer) {
			tr.Spec.Source = v1alpha1.TransferSource{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "cargo"},
			}
		}, fix},
		"one to a Peer": {func(tr *v1alpha1.Transfer) {
			other := newTransfer("bank", "x", nil).Spec
			tr.Spec.Source, tr.Spec.Destination = other.Source, other.Destination
		}, fix},
		"one into a claim": {func(tr *v1alpha1.Transfer) {
			tr.Spec.Destination = v1alpha1.TransferDestination{
				PersistentVolumeClaim: v1alpha1.DestinationClaim{
					PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"},
				},
			}
		}, fix},
		"one of nobody":         {func(tr *v1alpha1.Transfer) { tr.OwnerReferences = nil }, fix},
		"one of another Drill":  {func(tr *v1alpha1.Transfer) { tr.OwnerReferences[0].UID = "u-2" }, fix},
		"one without the label": {func(tr *v1alpha1.Transfer) { tr.Labels = nil }, fix},
	} {
		transfer := ours()
		test.change(transfer)
		for _, user := range []string{managerAccount, gatewayAccount, "tenant"} {
			says := test.fix
			switch user {
			case "tenant":
				says = ""
			case gatewayAccount:
				says = "gateway of Lighterage writes"
			}
			resource := v1alpha1.GroupVersion.WithResource("transfers")
			expect(t, what+", made by "+user, request{user, admission.Create, resource, transfer, nil, bank}, says)
			expect(t, what+", deleted by "+user, request{user, admission.Delete, resource, nil, transfer, bank}, says)
		}
	}
}

// TestEphemeralVolumesOfTheManager: agents that restore have new volumes, and not those of others under another name.
func TestEphemeralVolumesOfTheManager(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		mode, fix string
		change    func(*corev1.PersistentVolumeClaimSpec)
	}{
		"a new one":                   {"local", "", func(*corev1.PersistentVolumeClaimSpec) {}},
		"one of an agent that sends":  {"send", "in the mode local", func(*corev1.PersistentVolumeClaimSpec) {}},
		"one of an agent that probes": {"probe", "in the mode local", func(*corev1.PersistentVolumeClaimSpec) {}},
		"a clone": {"local", "dataSource", func(s *corev1.PersistentVolumeClaimSpec) {
			s.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "salaries"}
		}},
		"a clone by reference": {"local", "dataSource", func(s *corev1.PersistentVolumeClaimSpec) {
			s.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "salaries"}
		}},
		"a volume that is there": {"local", "volumeName", func(s *corev1.PersistentVolumeClaimSpec) {
			s.VolumeName = "pv-1"
		}},
		"a volume with a label": {"local", "selector", func(s *corev1.PersistentVolumeClaimSpec) {
			s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "salaries"}}
		}},
	} {
		pod := template()
		first(&pod).Args = []string{test.mode, "--config-dir", "/etc/lighterage"}
		claim := &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{agentpod.ManagedByLabel: agentpod.ManagedBy},
		}}
		test.change(&claim.Spec)
		pod.Spec.Volumes[1].VolumeSource = corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: claim},
		}
		expect(t, what, request{managerAccount, admission.Create, resources["Job"], job("bank", pod), nil, bank}, test.fix)
	}
}
