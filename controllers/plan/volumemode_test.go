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

// imageTransfer is one of a block volume into an object store, or out of one.
func imageTransfer(into bool) (*v1alpha1.Transfer, plan.TransferFacts) {
	if into {
		transfer, facts := storeTransfer(nil, storePath("vault", "/disk"))
		transfer.Spec.Destination.Form = v1alpha1.RestingGzip
		facts.Claim = facts.Claim.DeepCopy()
		facts.Claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		return transfer, facts
	}
	transfer, facts := storeTransfer(storePath("vault", "/disk"), nil)
	transfer.Spec.Destination.PersistentVolumeClaim.Path = "/"
	facts.Local.Claim = facts.Local.Claim.DeepCopy()
	facts.Local.Claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	return transfer, facts
}

// A block volume and a store are the ends of an image. The device stays what it was while an object is written.
func TestBlockVolumeIsAnImageInAStore(t *testing.T) {
	for _, into := range []bool{true, false} {
		transfer, facts := imageTransfer(into)
		before := metav1.NewTime(now.Add(-time.Hour))
		transfer.Status.RecoveryPoint = &before
		out := plan.DecideTransfer(transfer, facts, image)
		if out.Start == nil {
			t.Fatalf("into a store: %v; nothing was started: %+v", into, out.Status.Conditions)
		}
		var config wirev1.LocalConfig
		configOf(t, out.Start, &config)
		volumes := out.Start.Job().Spec.Template.Spec.Containers[0].VolumeDevices
		path := map[bool]string{true: "/dev/volume", false: "/dev/destination"}[into]
		if config.Image == nil || config.Image.Version != "" || config.Image.Modified != 0 || config.Send.Block != into ||
			config.GetReceive().GetBlock() == into || len(volumes) != 1 || volumes[0].DevicePath != path {
			t.Errorf("into a store: %v; the agent is told %v and has %+v", into, &config, volumes)
		}
		if (out.Status.RecoveryPoint == nil) == into {
			t.Errorf("into a store: %v; the recovery point is %v", into, out.Status.RecoveryPoint)
		}
	}
}

// A copy that nobody writes to tells attempts that they read the same.
func TestImageOfACopyHasItsVersion(t *testing.T) {
	transfer, facts := imageTransfer(true)
	transfer.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
	transfer.Status.Phase = v1alpha1.TransferRetrying
	start := metav1.NewTime(now.Add(-time.Minute))
	transfer.Status.Run = &v1alpha1.RunStatus{
		ID: "abcde", Attempt: 1, StartTime: &start, NextAttemptTime: &start, Route: v1alpha1.RouteObjectStore,
	}
	point := metav1.NewTime(now.Add(-time.Minute))
	name := attempt.StagedName("abcde", transfer)
	transfer.Status.Staged = &v1alpha1.StagedStatus{
		Method: v1alpha1.CopySnapshot, Name: name, RunID: "abcde", State: v1alpha1.StagedReady, StartTime: start,
		PointInTime: &point,
	}
	facts.Staging = plan.StagingFacts{
		Seen: true, Claims: []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: transfer.Namespace, UID: "copy-uid"},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeMode: ptr.To(corev1.PersistentVolumeBlock)},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		}},
	}
	out := plan.DecideTransfer(transfer, facts, image)
	if out.Start == nil {
		t.Fatalf("nothing was started: %+v", out.Status)
	}
	var config wirev1.LocalConfig
	configOf(t, out.Start, &config)
	if config.Image.GetVersion() != "copy-uid" || config.Image.GetModified() != point.UnixNano() {
		t.Errorf("the agent is told %v", config.Image)
	}
}

func TestImagesHaveNoFiles(t *testing.T) {
	recipient, _ := recipients(t)
	for name, c := range map[string]struct {
		into   bool
		change func(*v1alpha1.TransferSpec)
		reason string
	}{
		"archive": {true, func(s *v1alpha1.TransferSpec) { s.Destination.Form = v1alpha1.RestingArchive },
			v1alpha1.ReasonInvalidSpec},
		"encryption": {true, func(s *v1alpha1.TransferSpec) {
			s.Destination.Form = v1alpha1.RestingArchive
			s.Destination.Encryption = &v1alpha1.ArchiveEncryption{Recipients: []v1alpha1.AgeRecipient{recipient}}
		}, v1alpha1.ReasonInvalidSpec},
		"path": {true, func(s *v1alpha1.TransferSpec) { s.Source.PersistentVolumeClaim.Path = "/a" },
			v1alpha1.ReasonInvalidSpec},
		"exclude": {true, func(s *v1alpha1.TransferSpec) { s.Exclude = []string{"a"} }, v1alpha1.ReasonInvalidSpec},
		"delete":  {true, func(s *v1alpha1.TransferSpec) { s.Delete = true }, v1alpha1.ReasonInvalidSpec},
		"source form": {true, func(s *v1alpha1.TransferSpec) { s.Source.Form = v1alpha1.RestingGzip },
			v1alpha1.ReasonInvalidSpec},
		"path of the device": {false, func(s *v1alpha1.TransferSpec) { s.Destination.PersistentVolumeClaim.Path = "/a" },
			v1alpha1.ReasonInvalidSpec},
		"form in the device": {false, func(s *v1alpha1.TransferSpec) { s.Destination.Form = v1alpha1.RestingGzip },
			v1alpha1.ReasonInvalidSpec},
		"identity": {false, func(s *v1alpha1.TransferSpec) {
			s.Source.Encryption = &v1alpha1.ArchiveDecryption{IdentitySecretName: "key"}
		}, v1alpha1.ReasonInvalidSpec},
		"include of the store": {false, func(s *v1alpha1.TransferSpec) { s.Include = []string{"a"} },
			v1alpha1.ReasonInvalidSpec},
		"files":             {true, func(s *v1alpha1.TransferSpec) { s.Destination.Form = v1alpha1.RestingFiles }, ""},
		"form of the store": {false, func(s *v1alpha1.TransferSpec) { s.Source.Form = v1alpha1.RestingGzip }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := imageTransfer(c.into)
			c.change(&transfer.Spec)
			out := plan.DecideTransfer(transfer, facts, image)
			ready := meta.FindStatusCondition(out.Status.Conditions, v1alpha1.ConditionReady)
			if (out.Start != nil) != (c.reason == "") || c.reason != "" && (ready == nil || ready.Reason != c.reason) {
				t.Errorf("start %v, condition %+v; want %q", out.Start, ready, c.reason)
			}
		})
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
