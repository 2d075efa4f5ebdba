// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/route"
)

// SendAttempt is the attempt that the Transfer's status names, to another cluster.
func SendAttempt(
	transfer *v1alpha1.Transfer, resolved policy.Resolved, where placement.Plan, peer *v1alpha1.Peer, image agentpod.Image,
) *attempt.Attempt {
	config := sendConfig(transfer, resolved)
	to, _ := route.To(peer, image.Tunnels)
	config.GatewayEndpoint, config.GatewayTunnel = to.Endpoint, to.Tunnel
	a := sendSpec(transfer, where, image)
	a.Config = config
	return attempt.New(a)
}

// DirectAttempt is the attempt that the Transfer's status names, to a receiving agent of this cluster that is ready.
func DirectAttempt(
	transfer *v1alpha1.Transfer, resolved policy.Resolved, where placement.Plan, receiver v1alpha1.DeliveryStatus,
	image agentpod.Image,
) *attempt.Attempt {
	config := sendConfig(transfer, resolved)
	config.ReceiverEndpoint, config.ReceiverServerName = receiver.Endpoint, receiver.ServerName
	a := sendSpec(transfer, where, image)
	a.Config = config
	return attempt.New(a)
}

// PodAttempt is the attempt that the Transfer's status names, with both claims in one pod, or the one that it verifies.
func PodAttempt(
	transfer *v1alpha1.Transfer, resolved policy.Resolved, where placement.Plan, image agentpod.Image,
) *attempt.Attempt {
	a := sendSpec(transfer, where, image)
	destination := transfer.Spec.Destination.PersistentVolumeClaim
	a.Mode = attempt.LocalMode
	a.Labels[agentpod.ComponentLabel] = a.Mode
	if Scrubs(transfer) {
		a.Config = &wirev1.LocalConfig{
			Send: sendConfig(transfer, resolved), Scrub: scrubConfig(transfer),
			InflateInSoftware: transfer.Spec.Inflate == v1alpha1.InflateSoftware,
		}
		return attempt.New(a)
	}
	a.Mounts = append(a.Mounts, attempt.Mount{Claim: destination.ClaimName, Path: attempt.DestinationPath})
	if agentpod.AsksToWrite(transfer.Spec.PodTemplate) {
		a.Capabilities = agentpod.WriteCapabilities
	}
	run := transfer.Status.Run
	config := &wirev1.LocalConfig{
		Send: sendConfig(transfer, resolved),
		Receive: &wirev1.ReceiveConfig{
			RunId:           run.ID,
			Attempt:         uint32(run.Attempt),
			SenderNamespace: transfer.Namespace,
			SenderName:      transfer.Name,
			Volume:          attempt.DestinationPath,
			Path:            attempt.RelativePath(destination.Path),
			AllowDelete:     transfer.Spec.Delete,
		},
	}
	if transfer.Spec.Destination.Form.Archived() {
		config.Transfer, config.Encryption = writerOf(transfer), wireEncryption(transfer.Spec.Destination.Encryption)
	}
	a.Config = config
	return attempt.New(a)
}

// queueLabels are the labels of a Transfer that Kueue reads of its Jobs.
func queueLabels(transfer *v1alpha1.Transfer) map[string]string {
	labels := map[string]string{}
	for _, label := range []string{v1alpha1.KueueQueueLabel, v1alpha1.KueuePriorityLabel} {
		if value := transfer.Labels[label]; value != "" {
			labels[label] = value
		}
	}
	return labels
}

func sendSpec(transfer *v1alpha1.Transfer, where placement.Plan, image agentpod.Image) attempt.Spec {
	run := transfer.Status.Run
	name := attempt.Name(transfer.Name, run.ID, run.Attempt)
	a := attempt.Spec{
		Name: name, SecretName: attempt.SecretName(name, transfer),
		Namespace: transfer.Namespace,
		Mode:      "send",
		Labels:    attempt.Labels("send", v1alpha1.TransferLabel, transfer, run.ID),
		JobLabels: queueLabels(transfer),
		Owner:     agentpod.OwnerReference("Transfer", transfer),
		Where:     where,
		Image:     image,
	}
	if claim := StagedClaim(transfer); claim != "" {
		a.Mounts = []attempt.Mount{{Claim: claim, Path: attempt.VolumePath, ReadOnly: true}}
	}
	if HasLegs(transfer) {
		ofDestinations(&a, transfer)
	}
	if transfer.Spec.PodTemplate != nil {
		a.Template = *transfer.Spec.PodTemplate
	}
	if agentpod.AsksPrivilege(transfer.Spec.PodTemplate) {
		a.Capabilities = agentpod.ReadCapabilities
	}
	if of := transfer.Spec.Source.Encryption; of != nil {
		a.AddIdentities(of.IdentitySecretName)
	}
	return a
}

var forms = map[v1alpha1.RestingForm]wirev1.Form{
	v1alpha1.RestingGzip: wirev1.Form_FORM_GZIP, v1alpha1.RestingZstd: wirev1.Form_FORM_ZSTD,
	v1alpha1.RestingArchive: wirev1.Form_FORM_ARCHIVE,
}

var recordLayouts = map[v1alpha1.RecordFormat]wirev1.RecordLayout{
	v1alpha1.RecordLines: wirev1.RecordLayout_RECORD_LAYOUT_LINES,
	v1alpha1.RecordFixed: wirev1.RecordLayout_RECORD_LAYOUT_FIXED,
	v1alpha1.RecordRDW:   wirev1.RecordLayout_RECORD_LAYOUT_RDW,
}

func wireRecords(r *v1alpha1.FileRecords) *wirev1.Records {
	if r == nil {
		return nil
	}
	return &wirev1.Records{Layout: recordLayouts[r.Format], Length: uint32(r.Length)}
}

func sendConfig(transfer *v1alpha1.Transfer, resolved policy.Resolved) *wirev1.SendConfig {
	run, destination := transfer.Status.Run, transfer.Spec.Destination
	config := &wirev1.SendConfig{
		RunId:   run.ID,
		Attempt: uint32(run.Attempt),
		Destination: &wirev1.ClaimPath{
			Namespace: DestinationNamespace(transfer),
			ClaimName: destination.PersistentVolumeClaim.ClaimName,
			Path:      attempt.RelativePath(destination.PersistentVolumeClaim.Path),
		},
		Volume:             attempt.VolumePath,
		Path:               attempt.RelativePath(transfer.Spec.Source.PersistentVolumeClaim.Path),
		Compression:        resolved.Wire(),
		Verify:             transfer.Spec.Verify != v1alpha1.VerifyNone,
		ControlAddress:     fmt.Sprintf(":%d", agentpod.ControlPort),
		CheckpointInterval: checkpointInterval(transfer.Spec),
		Streams:            uint32(transfer.Spec.Streams),
		BandwidthLimit:     bandwidthLimit(Bandwidth(run)),
		Privileged:         agentpod.AsksToWrite(transfer.Spec.PodTemplate),
		Include:            transfer.Spec.Include,
		Exclude:            transfer.Spec.Exclude,
		Mirror:             transfer.Spec.Delete,
		AllowEmptySource:   transfer.Spec.AllowEmptySource,
		Receipt:            transfer.Spec.Receipt,
		Form:               forms[destination.Form],
		SourceForm:         forms[transfer.Spec.Source.Form],
		Records:            wireRecords(destination.Records),
		Template:           wireTemplate(transfer),
		Snapshot:           wireSnapshot(transfer),
	}
	if transfer.Spec.Source.Encryption != nil && transfer.Spec.Source.ObjectStore == nil {
		config.IdentitiesDirectory = attempt.IdentitiesPath
	}
	return config
}

// checkpointInterval in bytes.
func checkpointInterval(spec v1alpha1.TransferSpec) uint64 {
	if spec.CheckpointInterval == nil {
		return defaultCheckpointInterval
	}
	return uint64(spec.CheckpointInterval.Value())
}

// bandwidthLimit in bytes per second, 0 for none.
func bandwidthLimit(limit *resource.Quantity) uint64 {
	if limit == nil {
		return 0
	}
	return uint64(limit.Value())
}

// ReceiveAttempt is the attempt that a Delivery receives. privilegeAllowed says whether its namespace lets the agent
// have the privilege that the Transfer may ask for.
func ReceiveAttempt(
	delivery *v1alpha1.Delivery, privilegeAllowed bool, where placement.Plan, image agentpod.Image,
) *attempt.Attempt {
	spec := delivery.Spec
	var capabilities []corev1.Capability
	if spec.Privilege == v1alpha1.AgentPrivilegeKeepOwners && privilegeAllowed {
		capabilities = agentpod.WriteCapabilities
	}
	sender := "" // of another cluster, which comes through the gateway
	if spec.Peer == "" {
		sender = spec.Transfer.Namespace
	}
	return attempt.New(attempt.Spec{
		Name: delivery.Name, SecretName: attempt.SecretName(delivery.Name, delivery),
		Namespace:    delivery.Namespace,
		Mode:         "receive",
		Labels:       attempt.Labels("receive", v1alpha1.DeliveryLabel, delivery, spec.Transfer.Run),
		Owner:        agentpod.OwnerReference("Delivery", delivery),
		Mounts:       []attempt.Mount{{Claim: spec.Destination.PersistentVolumeClaim.ClaimName, Path: attempt.VolumePath}},
		Where:        where,
		Image:        image,
		Capabilities: capabilities,

		SenderNamespace: sender,
		Config: &wirev1.ReceiveConfig{
			RunId:           spec.Transfer.Run,
			Attempt:         uint32(spec.Transfer.Attempt),
			SenderNamespace: spec.Transfer.Namespace,
			SenderName:      spec.Transfer.Name,
			Volume:          attempt.VolumePath,
			Path:            attempt.RelativePath(spec.Destination.PersistentVolumeClaim.Path),
			ControlAddress:  fmt.Sprintf(":%d", agentpod.ControlPort),
			DataAddress:     fmt.Sprintf(":%d", agentpod.DataPort),
			AllowDelete:     spec.Delete,
		},
	})
}
