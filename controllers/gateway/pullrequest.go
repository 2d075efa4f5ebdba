// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"regexp"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// pullUID as API servers make them.
var pullUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// newPull checks what a peer asks for, and returns the Transfer that it is.
func newPull(
	peer string, in *wirev1.PullRequest, now time.Time,
) (*v1alpha1.Transfer, plan.PullReference, error) {
	of := plan.PullReference{Peer: peer, Namespace: in.GetNamespace(), Name: in.GetName(), UID: in.GetUid()}
	if !wirev1.Speaks(in.GetProtocolVersion()) {
		return nil, of, refuse(codes.FailedPrecondition, wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
			"the pulling cluster speaks protocol %d and the source cluster (version %s) %d; upgrade the older cluster",
			in.GetProtocolVersion(), wirev1.Version, wirev1.ProtocolVersion)
	}
	if err := validatePull(of, in.GetSource().GetNamespace()); err != nil {
		return nil, of, err
	}
	if !runID.MatchString(in.GetRun()) {
		return nil, of, invalid("run must be 1 to 6 lower-case letters or digits")
	}
	source, err := pullPath("source", in.GetSource().GetClaimName(), in.GetSource().GetPath())
	if err != nil {
		return nil, of, err
	}
	destination, err := pullPath("destination", in.GetClaimName(), in.GetPath())
	if err != nil {
		return nil, of, err
	}
	spec := pullSpec(in.GetOptions())
	spec.Pause, spec.Suspend = in.GetPause(), in.GetSuspend()
	spec.Source.PersistentVolumeClaim = source
	spec.Source.CopyMethod = v1alpha1.CopyDirect
	spec.Destination = v1alpha1.TransferDestination{
		Peer: peer, Namespace: of.Namespace,
		PersistentVolumeClaim: v1alpha1.DestinationClaim{PersistentVolumeClaimPath: destination},
	}
	if err := plan.ValidateTransfer(spec); err != nil {
		return nil, of, invalid("the pull is not valid: %v", err)
	}
	return plan.NewPulled(in.GetSource().GetNamespace(), of, spec, in.GetRun(), now), of, nil
}

// validatePull checks names that come from a peer.
func validatePull(of plan.PullReference, sourceNamespace string) error {
	if err := validateTransfer(of.Namespace, of.Name); err != nil {
		return err
	}
	if !pullUID.MatchString(of.UID) {
		return invalid("uid must be that of an object, such as 0e5a9b1c-3f6d-4c55-9d0a-6f0f2a0b7c11")
	}
	if len(validation.IsDNS1123Label(sourceNamespace)) > 0 {
		return invalid("the namespace of the source must be the name of a namespace")
	}
	return nil
}

func pullPath(field, claim, path string) (v1alpha1.PersistentVolumeClaimPath, error) {
	if len(validation.IsDNS1123Subdomain(claim)) > 0 {
		return v1alpha1.PersistentVolumeClaimPath{}, invalid(
			"%s.claim_name must be the name of a PersistentVolumeClaim", field,
		)
	}
	clean, err := cleanPath(path)
	return v1alpha1.PersistentVolumeClaimPath{ClaimName: claim, Path: clean}, err
}

// pullSpec has what the peer decides about. What is out of range is found with the rest of the spec.
func pullSpec(o *wirev1.PullOptions) v1alpha1.TransferSpec {
	spec := v1alpha1.TransferSpec{
		Include: o.GetInclude(), Exclude: o.GetExclude(), Delete: o.GetDelete(), AllowEmptySource: o.GetAllowEmptySource(),
		Verify: v1alpha1.VerifyNone, Receipt: o.GetReceipt(),
		Streams:     int32(min(o.GetStreams(), 1<<20)),     //nolint:gosec // it is bounded
		MaxAttempts: int32(min(o.GetMaxAttempts(), 1<<20)), //nolint:gosec // it is bounded
	}
	if o.GetVerify() {
		spec.Verify = v1alpha1.VerifyDigest
	}
	spec.CheckpointInterval = pullQuantity(o.GetCheckpointInterval())
	spec.BandwidthLimit = pullQuantity(o.GetBandwidthLimit())
	return spec
}

// pullQuantity is nil for 0.
func pullQuantity(bytes uint64) *resource.Quantity {
	if bytes == 0 {
		return nil
	}
	return resource.NewQuantity(int64(min(bytes, 1<<60)), resource.BinarySI) //nolint:gosec // it is bounded
}
