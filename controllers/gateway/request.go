// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/plan"
)

const (
	// maxAttempt leaves space for six digits in names. What needs somebody's help is attempted without limit, but
	// slowly.
	maxAttempt = 999_999
	// maxPathLength is that of the API.
	maxPathLength = 4096
)

// runID as managers make them; the length leaves space in names.
var runID = regexp.MustCompile(`^[a-z0-9]{1,6}$`)

// request is an OpenRequest whose every field was checked.
type request struct {
	peer string
	// transfer is the sender's.
	transfer v1alpha1.TransferReference
	// issued is when the sender's certificate was.
	issued time.Time
	// namespace and claim to write to.
	namespace string
	claim     v1alpha1.PersistentVolumeClaimPath
	// privilege of the receiving agent that is asked for.
	privilege v1alpha1.AgentPrivilege
	// mirror: what the source does not have is to be removed.
	mirror bool
	// template of the claim; nil: it must exist.
	template *v1alpha1.ClaimRequest
	// snapshot is what history of the claim is to be kept; nil: none.
	snapshot *v1alpha1.DeliverySnapshot
	// volumeMode of the source; empty: the sender does not say.
	volumeMode corev1.PersistentVolumeMode
}

// newRequest checks what a caller asks for.
func newRequest(from caller, open *wirev1.OpenRequest) (request, error) {
	namespace, name, ok := from.identity.Transfer()
	if !ok {
		return request{}, untrusted("the certificate names %s, and only a Transfer may open a run", from.identity.Path)
	}
	if !wirev1.Speaks(open.GetProtocolVersion()) {
		return request{}, refuse(codes.FailedPrecondition, wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
			"the sending agent speaks protocol %d and the receiving cluster (version %s) %d; upgrade the older cluster",
			open.GetProtocolVersion(), wirev1.Version, wirev1.ProtocolVersion)
	}
	if err := validateTransfer(namespace, name); err != nil {
		return request{}, err
	}
	if !runID.MatchString(open.GetRunId()) {
		return request{}, invalid("run_id must be 1 to 6 lower-case letters or digits")
	}
	if open.GetAttempt() < 1 || open.GetAttempt() > maxAttempt {
		return request{}, invalid("attempt is %d and must be between 1 and %d", open.GetAttempt(), maxAttempt)
	}
	destination := open.GetDestination()
	if len(validation.IsDNS1123Label(destination.GetNamespace())) > 0 {
		return request{}, invalid("destination.namespace must be the name of a namespace")
	}
	if len(validation.IsDNS1123Subdomain(destination.GetClaimName())) > 0 {
		return request{}, invalid("destination.claim_name must be the name of a PersistentVolumeClaim")
	}
	directory, err := cleanPath(destination.GetPath())
	if err != nil {
		return request{}, err
	}
	template, err := templateOf(open.GetTemplate())
	if err != nil {
		return request{}, err
	}
	snapshot, err := snapshotOf(open.GetSnapshot())
	if err != nil {
		return request{}, err
	}
	privilege := v1alpha1.AgentPrivilegeNone
	if open.GetPrivileged() {
		privilege = v1alpha1.AgentPrivilegeKeepOwners
	}
	r := request{
		peer: from.peer,
		transfer: v1alpha1.TransferReference{
			Namespace: namespace, Name: name, Run: open.GetRunId(), Attempt: int32(open.GetAttempt()),
		},
		issued:    from.issued,
		namespace: destination.GetNamespace(),
		claim:     v1alpha1.PersistentVolumeClaimPath{ClaimName: destination.GetClaimName(), Path: directory},
		privilege: privilege,
		mirror:    open.GetMirror(),
		template:  template,
		snapshot:  snapshot,
	}
	if open.Block != nil {
		r.volumeMode = corev1.PersistentVolumeFilesystem
		if open.GetBlock() {
			r.volumeMode = corev1.PersistentVolumeBlock
		}
	}
	if err := permits(from.claims, r); err != nil {
		return request{}, err
	}
	return r, nil
}

// privileged says whether the receiving agent is to have privilege.
func (r request) privileged() bool { return r.privilege != v1alpha1.AgentPrivilegeNone }

// validateTransfer checks names that come from a peer.
func validateTransfer(namespace, name string) error {
	if len(validation.IsDNS1123Label(namespace)) > 0 {
		return invalid("the Transfer's namespace must be the name of a namespace")
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return invalid("the Transfer's name must be the name of an object")
	}
	return nil
}

// cleanPath returns the directory as the API has it, absolute from the root of the volume. Senders may leave the first
// slash out; nothing and "." stand for the root.
func cleanPath(directory string) (string, error) {
	switch {
	case directory == "" || directory == ".":
		return "/", nil
	case len(directory) >= maxPathLength:
		return "", invalid("destination.path must be shorter than %d bytes", maxPathLength)
	case strings.ContainsRune(directory, 0):
		return "", invalid("destination.path must not contain NUL")
	}
	elements := strings.Split(directory, "/")
	if slices.Contains(elements, "..") || slices.Contains(elements, ".") {
		return "", invalid("destination.path must not contain . or .. elements")
	}
	return path.Clean("/" + directory), nil
}

// templateOf checks what claim a caller asks for.
func templateOf(asked *wirev1.ClaimTemplate) (*v1alpha1.ClaimRequest, error) {
	if asked == nil {
		return nil, nil
	}
	class, modes := asked.GetStorageClassName(), asked.GetAccessModes()
	switch {
	case class != "" && len(validation.IsDNS1123Subdomain(class)) > 0:
		return nil, invalid("template.storage_class_name must be the name of a StorageClass")
	case asked.GetSize() < 1 || asked.GetSize() > plan.MaxClaimSize:
		return nil, invalid("template.size is %d and must be between 1 and %d bytes", asked.GetSize(), plan.MaxClaimSize)
	case len(modes) > len(claimModes):
		return nil, invalid("template.access_modes has %d modes, and there are %d", len(modes), len(claimModes))
	}
	template := &v1alpha1.ClaimRequest{
		StorageClassName: class, Written: asked.GetWritten(),
		Size: *resource.NewQuantity(int64(asked.GetSize()), resource.BinarySI), //nolint:gosec // It is at most 2^60.
	}
	for _, mode := range modes {
		known := corev1.PersistentVolumeAccessMode(mode)
		if !slices.Contains(claimModes, known) || slices.Contains(template.AccessModes, known) {
			return nil, invalid("template.access_modes must be different ones of %v", claimModes)
		}
		template.AccessModes = append(template.AccessModes, known)
	}
	return template, nil
}

// maxKept bounds what a retention keeps in all; it is that of the API.
const maxKept = 100

// transferUID as the API has it.
var transferUID = regexp.MustCompile(`^[0-9A-Za-z]([-0-9A-Za-z]{0,61}[0-9A-Za-z])?$`)

// snapshotOf checks what history a caller asks for.
func snapshotOf(asked *wirev1.SnapshotRequest) (*v1alpha1.DeliverySnapshot, error) {
	if asked == nil {
		return nil, nil
	}
	class := asked.GetVolumeSnapshotClassName()
	snapshot := &v1alpha1.DeliverySnapshot{TransferUID: asked.GetTransferUid()}
	snapshot.VolumeSnapshotClassName = class
	switch r := &snapshot.Retention; {
	case !transferUID.MatchString(snapshot.TransferUID):
		return nil, invalid("snapshot.transfer_uid must be the UID of the Transfer")
	case class != "" && len(validation.IsDNS1123Subdomain(class)) > 0:
		return nil, invalid("snapshot.volume_snapshot_class_name must be the name of a VolumeSnapshotClass")
	case !keeps(&r.Last, asked.GetLast()) || !keeps(&r.Hourly, asked.GetHourly()) || !keeps(&r.Daily, asked.GetDaily()) ||
		!keeps(&r.Weekly, asked.GetWeekly()) || !keeps(&r.Monthly, asked.GetMonthly()) ||
		!keeps(&r.Yearly, asked.GetYearly()) || r.Total() < 1 || r.Total() > maxKept:
		return nil, invalid("snapshot must keep between 1 and %d in all", maxKept)
	}
	return snapshot, nil
}

// keeps sets a field of a retention, if that many can be kept.
func keeps(field *int32, asked uint32) bool {
	*field = int32(min(asked, maxKept+1)) //nolint:gosec // It is bounded.
	return asked <= maxKept
}

// claimModes are those in which a claim can be written to.
var claimModes = []corev1.PersistentVolumeAccessMode{
	corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadWriteOncePod,
}

// grant is what a PeerGrant must allow for the request. Creating the claim is for the manager to judge, which sees
// whether it exists.
func (r request) grant() peergrant.Request {
	kept := 0
	if r.snapshot != nil {
		kept = r.snapshot.Retention.Total()
	}
	return peergrant.Request{
		Peer: r.peer, Namespace: r.transfer.Namespace, Transfer: r.transfer.Name,
		Kind: v1alpha1.GrantedPersistentVolumeClaim, ToNamespace: r.namespace, Name: r.claim.ClaimName,
		Path: r.claim.Path, Delete: r.mirror, Privileged: r.privilege == v1alpha1.AgentPrivilegeKeepOwners,
		Snapshots: kept,
	}
}
