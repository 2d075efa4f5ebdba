// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/plan"
)

// blockTransfer is one of a block volume, to another cluster or within this one.
func blockTransfer(local bool) (*v1alpha1.Transfer, plan.TransferFacts) {
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	transfer.Spec.Destination.PersistentVolumeClaim.Path = "/"
	facts.Claim = facts.Claim.DeepCopy()
	facts.Claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	if local {
		transfer.Spec.Destination.Peer, facts.Peer = "", nil
		facts.Local.Claim = facts.Claim.DeepCopy()
	}
	return transfer, facts
}

func configOf(t *testing.T, start *attempt.Attempt, config proto.Message) {
	t.Helper()
	text, err := start.Config()
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, config)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func checkDevices(t *testing.T, start *attempt.Attempt, paths ...string) {
	t.Helper()
	pod := start.Job().Spec.Template.Spec
	restricted(t, pod)
	container := pod.Containers[0]
	if len(container.VolumeMounts) != 1 || len(container.VolumeDevices) != len(paths) {
		t.Fatalf("mounts %+v and devices %+v; want the configuration mounted and devices %q", container.VolumeMounts,
			container.VolumeDevices, paths)
	}
	for i, device := range container.VolumeDevices {
		if device.DevicePath != paths[i] {
			t.Errorf("device %+v; want %q", device, paths[i])
		}
	}
}

func TestBlockVolumeIsADeviceInThePod(t *testing.T) {
	transfer, facts := blockTransfer(false)
	start := plan.DecideTransfer(transfer, facts, image).Start
	if start == nil {
		t.Fatal("nothing was started")
	}
	var sends wirev1.SendConfig
	configOf(t, start, &sends)
	if !sends.Block || sends.Volume != "/dev/volume" {
		t.Errorf("the sender is told %v", &sends)
	}
	checkDevices(t, start, "/dev/volume")
	if !start.Job().Spec.Template.Spec.Volumes[1].PersistentVolumeClaim.ReadOnly {
		t.Error("the source can be written")
	}

	transfer, facts = blockTransfer(true)
	if start = plan.DecideTransfer(transfer, facts, image).Start; start == nil {
		t.Fatal("nothing was started")
	}
	var both wirev1.LocalConfig
	configOf(t, start, &both)
	if !both.Send.Block || !both.Receive.Block || both.Receive.Volume != "/dev/destination" {
		t.Errorf("the agent is told %v", &both)
	}
	checkDevices(t, start, "/dev/volume", "/dev/destination")

	delivery, received := newDelivery("ledger-abcde-2-01234567", 2), goodDeliveryFacts()
	received.Claim = facts.Claim
	// A grant of a directory is none of the device.
	if out := plan.DecideDelivery(delivery, received, image); out.Start != nil ||
		out.Status.Phase != v1alpha1.DeliveryFailed {
		t.Errorf("a directory of a device: start %v, phase %v", out.Start, out.Status.Phase)
	}
	delivery.Spec.Destination.PersistentVolumeClaim.Path = "/"
	if start = plan.DecideDelivery(delivery, received, image).Start; start == nil {
		t.Fatal("no receiver was started")
	}
	var receives wirev1.ReceiveConfig
	configOf(t, start, &receives)
	if !receives.Block || receives.Volume != "/dev/volume" {
		t.Errorf("the receiver is told %v", &receives)
	}
	checkDevices(t, start, "/dev/volume")
}

func TestBlockVolumeThatIsWrittenIsNoRecoveryPoint(t *testing.T) {
	for _, block := range []bool{true, false} {
		transfer, facts := blockTransfer(false)
		if !block {
			facts.Claim.Spec.VolumeMode = nil
		}
		transfer.Status.RecoveryPoint = ptr.To(metav1.NewTime(now.Add(-time.Hour)))
		out := plan.DecideTransfer(transfer, facts, image)
		if out.Start == nil || (out.Status.RecoveryPoint == nil) != block {
			t.Errorf("block volume: %v; start %v and recovery point %v", block, out.Start, out.Status.RecoveryPoint)
		}
	}
}

func TestBlockVolumesNeedTheirLike(t *testing.T) {
	filesystem := func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	}
	for name, c := range map[string]struct {
		local  bool
		change func(*v1alpha1.Transfer, *plan.TransferFacts)
		reason string
	}{
		"Filesystem to Block": {true, func(_ *v1alpha1.Transfer, f *plan.TransferFacts) {
			filesystem(f.Claim)
		}, v1alpha1.ReasonVolumeModeMismatch},
		"Block to Filesystem": {true, func(_ *v1alpha1.Transfer, f *plan.TransferFacts) {
			filesystem(f.Local.Claim)
		}, v1alpha1.ReasonVolumeModeMismatch},
		"Block to a claim that is created": {false, func(tr *v1alpha1.Transfer, _ *plan.TransferFacts) {
			tr.Spec.Destination.PersistentVolumeClaim.Template = &v1alpha1.ClaimTemplate{}
		}, v1alpha1.ReasonVolumeModeMismatch},
		"path of the source": {false, func(tr *v1alpha1.Transfer, _ *plan.TransferFacts) {
			tr.Spec.Source.PersistentVolumeClaim.Path = "/data"
		}, v1alpha1.ReasonInvalidSpec},
		"path of the destination": {false, func(tr *v1alpha1.Transfer, _ *plan.TransferFacts) {
			tr.Spec.Destination.PersistentVolumeClaim.Path = "/data"
		}, v1alpha1.ReasonInvalidSpec},
		"exclude": {false, func(tr *v1alpha1.Transfer, _ *plan.TransferFacts) {
			tr.Spec.Exclude = []string{"tmp/**"}
		}, v1alpha1.ReasonInvalidSpec},
		"delete": {false, func(tr *v1alpha1.Transfer, _ *plan.TransferFacts) {
			tr.Spec.Delete = true
		}, v1alpha1.ReasonInvalidSpec},
		"form": {false, func(tr *v1alpha1.Transfer, _ *plan.TransferFacts) {
			tr.Spec.Destination.Form = v1alpha1.RestingGzip
		}, v1alpha1.ReasonInvalidSpec},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := blockTransfer(c.local)
			c.change(transfer, &facts)
			out := plan.DecideTransfer(transfer, facts, image)
			ready := meta.FindStatusCondition(out.Status.Conditions, v1alpha1.ConditionReady)
			if out.Start != nil || ready == nil || ready.Reason != c.reason {
				t.Errorf("start %v, condition %+v; want none and %s", out.Start, ready, c.reason)
			}
		})
	}
}

// TestDeliveryOfAnotherVolumeMode: no receiver is started for a source whose volume mode the claim does not have.
// Senders of earlier releases do not tell it.
func TestDeliveryOfAnotherVolumeMode(t *testing.T) {
	const files, block = corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock
	for name, c := range map[string]struct {
		source, claim corev1.PersistentVolumeMode
		created       bool
		mismatch      bool
	}{
		"Filesystem to Block":              {source: files, claim: block, mismatch: true},
		"Block to Filesystem":              {source: block, claim: files, mismatch: true},
		"Block to a claim that is created": {source: block, created: true, mismatch: true},
		"Block":                            {source: block, claim: block},
		"Filesystem":                       {source: files, claim: files},
		"not told, of Block":               {claim: block},
		"not told":                         {claim: files},
	} {
		t.Run(name, func(t *testing.T) {
			delivery, facts := newDelivery("ledger-abcde-2-01234567", 2), goodDeliveryFacts()
			delivery.Spec.SourceVolumeMode = c.source
			delivery.Spec.Destination.PersistentVolumeClaim.Path = "/"
			facts.Claim = facts.Claim.DeepCopy()
			facts.Claim.Spec.VolumeMode = &c.claim
			if c.created {
				delivery.Spec.Destination.Template, facts.Claim = &v1alpha1.ClaimRequest{}, nil
			}
			out := plan.DecideDelivery(delivery, facts, image)
			ready := meta.FindStatusCondition(out.Status.Conditions, v1alpha1.ConditionReady)
			found := ready != nil && ready.Reason == v1alpha1.ReasonVolumeModeMismatch
			if found != c.mismatch || (out.Start == nil) != c.mismatch {
				t.Errorf("start %v, condition %+v", out.Start, ready)
			}
		})
	}
}
