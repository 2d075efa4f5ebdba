// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receipt

import (
	"cmp"
	"path"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Signer is who writes a part, and when.
type Signer struct {
	Cluster string
	KeyID   string
	Now     time.Time
}

// RunOf is the run that a Transfer's status names.
func RunOf(transfer *v1alpha1.Transfer) Run {
	run := transfer.Status.Run
	return Run{Namespace: transfer.Namespace, Transfer: transfer.Name, ID: run.ID, Attempt: int64(run.Attempt)}
}

// ContentsOf is what a status says of the content.
func ContentsOf(status *v1alpha1.ReceiptStatus) Contents {
	return Contents{
		Format: ContentsFormat, SHA256: status.ContentsSHA256, Entries: status.Entries, Bytes: status.Bytes,
	}
}

// SenderOf is the part of the sending cluster, of a Transfer that is complete.
func SenderOf(transfer *v1alpha1.Transfer, signer Signer) Sender {
	status := &transfer.Status
	part := Sender{Party: party(signer, status.Run, status.Receipt), UID: string(transfer.UID)}
	part.Peer, part.Run = transfer.Spec.Destination.Peer, RunOf(transfer)
	part.held(transfer.Namespace, transfer.Spec.Source.PersistentVolumeClaim, transfer.Spec.Source.ObjectStore)
	part.progress(status.Progress)
	if cpu := status.CPU; cpu != nil {
		part.CPUSeconds, part.CodecSeconds = cmp.Or(cpu.SendSeconds, "0"), cmp.Or(cpu.CompressSeconds, "0")
	}
	if c := status.Compression; c != nil {
		part.Codec, part.Engine, part.Level = c.Codec, c.Engine, c.Level
		part.UncompressedBytes, part.CompressedBytes = c.UncompressedBytes, c.CompressedBytes
		part.HardwareBytes, part.SoftwareBytes, part.StoredBytes = c.Hardware.Bytes, c.Software.Bytes, c.Stored.Bytes
	}
	part.used(status.Run.Usage)
	return part
}

// used takes what all attempts used, if that was counted.
func (s *Sender) used(run *v1alpha1.UsageStatus) {
	if run == nil || run.Send == nil {
		return
	}
	s.Scope, s.WireBytes = ScopeRun, run.WireBytes
	s.UncompressedBytes, s.CompressedBytes = run.UncompressedBytes, run.CompressedBytes
	s.CPUSeconds, s.CodecSeconds = cmp.Or(run.Send.ProcessSeconds, "0"), cmp.Or(run.Send.CompressSeconds, "0")
}

// ReceiverOf is the part of the receiving cluster, of a Delivery that is complete.
func ReceiverOf(delivery *v1alpha1.Delivery, signer Signer) Receiver {
	status, of := &delivery.Status, delivery.Spec.Transfer
	part := Receiver{Party: party(signer, status.Run, status.Receipt)}
	part.Peer = delivery.Spec.Peer
	part.Run = Run{Namespace: of.Namespace, Transfer: of.Name, ID: of.Run, Attempt: int64(of.Attempt)}
	part.held(delivery.Namespace, delivery.Spec.Destination.PersistentVolumeClaim, nil)
	part.progress(status.Progress)
	part.received(status.CPU, status.Decompression)
	return part
}

// ReceiverInPod is the part of the receiving side of a run within one pod, which has no Delivery. The one process
// counts all its CPU time as the sender's.
func ReceiverInPod(transfer *v1alpha1.Transfer, signer Signer) Receiver {
	status, to := &transfer.Status, &transfer.Spec.Destination
	part := Receiver{Party: party(signer, status.Run, status.Receipt)}
	part.Run, part.DigestSeconds = RunOf(transfer), "0"
	part.held(transfer.Namespace, to.PersistentVolumeClaim.PersistentVolumeClaimPath, to.ObjectStore)
	part.progress(status.Progress)
	part.received(status.CPU, status.Decompression)
	return part
}

func party(signer Signer, run *v1alpha1.RunStatus, status *v1alpha1.ReceiptStatus) Party {
	return Party{
		Cluster: signer.Cluster, KeyID: signer.KeyID, SignedTime: At(signer.Now),
		StartTime: timeOf(run.StartTime), CompletionTime: timeOf(run.CompletionTime),
		Contents: ContentsOf(status), Scope: ScopeAttempt, WireBytes: status.WireBytes,
		CPUSeconds: "0", CodecSeconds: "0", DigestSeconds: cmp.Or(status.DigestSeconds, "0"),
	}
}

// held says where the files are.
func (p *Party) held(namespace string, claim v1alpha1.PersistentVolumeClaimPath, store *v1alpha1.ObjectStorePath) {
	p.Namespace, p.Claim, p.Path = namespace, claim.ClaimName, claim.Path
	if store != nil {
		p.ObjectStore, p.Path = store.Name, store.Path
	}
}

// At says whether a part is of a directory of a claim or, unless store is nil, of an ObjectStore.
func (p *Party) At(namespace string, claim v1alpha1.PersistentVolumeClaimPath, store *v1alpha1.ObjectStorePath) bool {
	var want Party
	want.held(namespace, claim, store)
	return p.Namespace == want.Namespace && p.Claim == want.Claim && p.ObjectStore == want.ObjectStore &&
		path.Join("/", p.Path) == path.Join("/", want.Path)
}

// Place is where the files are, for people.
func (p *Party) Place() string {
	if p.ObjectStore != "" {
		return p.Namespace + "/objectstore/" + p.ObjectStore + ":" + p.Path
	}
	return p.Namespace + "/" + p.Claim + ":" + p.Path
}

func (p *Party) progress(progress *v1alpha1.Progress) {
	if progress != nil {
		p.Files, p.Bytes, p.UnchangedFiles = progress.Files, progress.Bytes, progress.UnchangedFiles
	}
}

func (r *Receiver) received(cpu *v1alpha1.CPUStatus, expanded *v1alpha1.DecompressionStatus) {
	if cpu != nil {
		r.CPUSeconds, r.CodecSeconds = cmp.Or(cpu.ReceiveSeconds, "0"), cmp.Or(cpu.DecompressSeconds, "0")
	}
	if expanded != nil {
		r.HardwareBytes, r.SoftwareBytes = expanded.Hardware.Bytes, expanded.Software.Bytes
	}
}

func timeOf(t *metav1.Time) Time {
	if t == nil {
		return At(time.Unix(0, 0))
	}
	return At(t.Time)
}
