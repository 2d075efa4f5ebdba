// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
)

// Attempt is an attempt of a Transfer or Delivery that is to be made.
type Attempt struct {
	attempt
	config proto.Message
	// senderNamespace is that of a sender of this cluster, of a receiving agent.
	senderNamespace string
	// storeService is the Service that the endpoint of an object store names; nil: none.
	storeService *corev1.Service
}

// Name of the Job.
func (a *Attempt) Name() string { return a.name }

// Job of the attempt.
func (a *Attempt) Job() *batchv1.Job { return a.job() }

// Config is the agent's configuration as JSON.
func (a *Attempt) Config() ([]byte, error) {
	config, err := wirev1.MarshalConfig(a.config)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration of agent %s: %w", a.name, err)
	}
	return config, nil
}

// Secret of the attempt.
func (a *Attempt) Secret(content AttemptSecret) *corev1.Secret { return a.secret(content) }

// SendAttempt is the attempt that the Transfer's status names, to another cluster.
func SendAttempt(
	transfer *v1alpha1.Transfer, resolved policy.Resolved, where placement.Plan, peer *v1alpha1.Peer, image AgentImage,
) *Attempt {
	config := sendConfig(transfer, resolved)
	config.GatewayEndpoint = peer.Spec.Endpoint
	return &Attempt{attempt: sendAttempt(transfer, where, image), config: config}
}

// DirectAttempt is the attempt that the Transfer's status names, to a receiving agent of this cluster that is ready.
func DirectAttempt(
	transfer *v1alpha1.Transfer, resolved policy.Resolved, where placement.Plan, receiver v1alpha1.DeliveryStatus,
	image AgentImage,
) *Attempt {
	config := sendConfig(transfer, resolved)
	config.ReceiverEndpoint, config.ReceiverServerName = receiver.Endpoint, receiver.ServerName
	return &Attempt{attempt: sendAttempt(transfer, where, image), config: config}
}

// PodAttempt is the attempt that the Transfer's status names, with both claims in one pod.
func PodAttempt(
	transfer *v1alpha1.Transfer, resolved policy.Resolved, where placement.Plan, image AgentImage,
) *Attempt {
	a := sendAttempt(transfer, where, image)
	destination := transfer.Spec.Destination.PersistentVolumeClaim
	a.mode = LocalMode
	a.labels[ComponentLabel] = a.mode
	a.mounts = append(a.mounts, claimMount{claim: destination.ClaimName, path: destinationPath})
	if asksToWrite(transfer.Spec.PodTemplate) {
		a.capabilities = writeCapabilities
	}
	run := transfer.Status.Run
	return &Attempt{attempt: a, config: &wirev1.LocalConfig{
		Send: sendConfig(transfer, resolved),
		Receive: &wirev1.ReceiveConfig{
			RunId:           run.ID,
			Attempt:         uint32(run.Attempt),
			SenderNamespace: transfer.Namespace,
			SenderName:      transfer.Name,
			Volume:          destinationPath,
			Path:            relative(destination.Path),
			AllowDelete:     transfer.Spec.Delete,
		},
	}}
}

func sendAttempt(transfer *v1alpha1.Transfer, where placement.Plan, image AgentImage) attempt {
	run := transfer.Status.Run
	name := AttemptName(transfer.Name, run.ID, run.Attempt)
	a := attempt{
		name: name, secretName: AttemptSecretName(name, transfer),
		namespace: transfer.Namespace,
		mode:      "send",
		labels:    labels("send", v1alpha1.TransferLabel, transfer, run.ID),
		owner:     ownerReference("Transfer", transfer),
		mounts: []claimMount{
			{claim: transfer.Spec.Source.PersistentVolumeClaim.ClaimName, path: volumePath, readOnly: true},
		},
		where: where,
		image: image,
	}
	if transfer.Spec.PodTemplate != nil {
		a.template = *transfer.Spec.PodTemplate
	}
	if asksPrivilege(transfer.Spec.PodTemplate) {
		a.capabilities = readCapabilities
	}
	return a
}

func sendConfig(transfer *v1alpha1.Transfer, resolved policy.Resolved) *wirev1.SendConfig {
	run, destination := transfer.Status.Run, transfer.Spec.Destination
	return &wirev1.SendConfig{
		RunId:   run.ID,
		Attempt: uint32(run.Attempt),
		Destination: &wirev1.ClaimPath{
			Namespace: DestinationNamespace(transfer),
			ClaimName: destination.PersistentVolumeClaim.ClaimName,
			Path:      relative(destination.PersistentVolumeClaim.Path),
		},
		Volume:             volumePath,
		Path:               relative(transfer.Spec.Source.PersistentVolumeClaim.Path),
		Compression:        resolved.Wire(),
		Verify:             transfer.Spec.Verify != v1alpha1.VerifyNone,
		ControlAddress:     fmt.Sprintf(":%d", ControlPort),
		CheckpointInterval: checkpointInterval(transfer.Spec),
		Streams:            uint32(transfer.Spec.Streams),
		BandwidthLimit:     bandwidthLimit(run.BandwidthLimit),
		Privileged:         asksToWrite(transfer.Spec.PodTemplate),
		Include:            transfer.Spec.Include,
		Exclude:            transfer.Spec.Exclude,
		Mirror:             transfer.Spec.Delete,
		AllowEmptySource:   transfer.Spec.AllowEmptySource,
	}
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
	delivery *v1alpha1.Delivery, privilegeAllowed bool, where placement.Plan, image AgentImage,
) *Attempt {
	spec := delivery.Spec
	var capabilities []corev1.Capability
	if spec.Privilege == v1alpha1.AgentPrivilegeKeepOwners && privilegeAllowed {
		capabilities = writeCapabilities
	}
	return &Attempt{
		attempt: attempt{
			name: delivery.Name, secretName: AttemptSecretName(delivery.Name, delivery),
			namespace: delivery.Namespace,
			mode:      "receive",
			labels:    labels("receive", v1alpha1.DeliveryLabel, delivery, spec.Transfer.Run),
			owner:     ownerReference("Delivery", delivery),
			mounts:    []claimMount{{claim: spec.Destination.PersistentVolumeClaim.ClaimName, path: volumePath}},
			where:     where,
			image:     image,

			capabilities: capabilities,
		},
		config: &wirev1.ReceiveConfig{
			RunId:           spec.Transfer.Run,
			Attempt:         uint32(spec.Transfer.Attempt),
			SenderNamespace: spec.Transfer.Namespace,
			SenderName:      spec.Transfer.Name,
			Volume:          volumePath,
			Path:            relative(spec.Destination.PersistentVolumeClaim.Path),
			ControlAddress:  fmt.Sprintf(":%d", ControlPort),
			DataAddress:     fmt.Sprintf(":%d", DataPort),
			AllowDelete:     spec.Delete,
		},
	}
}
