// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
)

// handOffMode is the mode of agents that send through an object store.
const handOffMode = "handoff"

// StoreFacts are what was seen of the object stores that a Transfer names.
type StoreFacts struct {
	// Source and Destination are nil when they do not exist, or when the Transfer names none.
	Source, Destination *v1alpha1.ObjectStore
	// Via is that of destination.via.
	Via *v1alpha1.ObjectStore
	// Dial is what the agent may dial, and Services are those that endpoints name, by StoreHost.
	Dial     *wirev1.DialPolicy
	Services map[string]*corev1.Service
	// Problem is why one of them may not be dialled; nil if there is none.
	Problem *agentpod.Problem
}

// UsesStore reports whether an end of a Transfer is an object store.
func UsesStore(transfer *v1alpha1.Transfer) bool {
	return transfer.Spec.Source.ObjectStore != nil || transfer.Spec.Destination.ObjectStore != nil
}

// destinationPlace is the path that a Transfer writes into, and of what.
func destinationPlace(transfer *v1alpha1.Transfer) (path, of string) {
	if at := transfer.Spec.Destination.ObjectStore; at != nil {
		return at.Path, "ObjectStore"
	}
	return transfer.Spec.Destination.PersistentVolumeClaim.Path, "claim"
}

// validateStores checks again what the API server checks of object stores, and what it cannot.
func validateStores(spec v1alpha1.TransferSpec) error {
	from, to := spec.Source.ObjectStore, spec.Destination.ObjectStore
	for field, at := range map[string]*v1alpha1.ObjectStorePath{
		"spec.source.objectStore": from, "spec.destination.objectStore": to,
	} {
		if at == nil {
			continue
		}
		if at.Name == "" {
			return &policy.InvalidError{Field: field + ".name", Fix: "must name an ObjectStore"}
		}
		if err := attempt.ValidatePath(field+".path", at.Path); err != nil {
			return err
		}
	}
	if via := spec.Destination.Via; via != nil {
		switch {
		case via.ObjectStore.Name == "":
			return &policy.InvalidError{Field: "spec.destination.via.objectStore.name", Fix: "must name an ObjectStore"}
		case spec.Destination.Peer == "":
			return &policy.InvalidError{Field: "spec.destination.via", Fix: "is a way to another cluster; add peer or remove it"}
		case spec.Receipt:
			return &policy.InvalidError{
				Field: "spec.receipt", Fix: "must be false with destination.via: receipts are exchanged over the network",
			}
		}
	}
	archived := spec.Destination.Form.Archived()
	if archived && (from != nil || spec.Source.Form.Archived() || spec.Destination.Via != nil ||
		to == nil && (spec.Destination.Peer != "" || spec.Destination.Namespace != "" || spec.Receipt)) {
		return &policy.InvalidError{
			Field: "spec.destination.form", Fix: "may be Archive only from plain files of a claim, in an objectStore or, " +
				"without receipt, in a claim of the same namespace",
		}
	}
	compressed := spec.Destination.Form.Compressed() && !archived
	if compressed && (spec.Destination.Ephemeral != nil || spec.Destination.Via != nil || spec.Receipt && to == nil) {
		return &policy.InvalidError{
			Field: "spec.destination.form", Fix: "must be Files or absent in an ephemeral volume, with via, and in a claim with " +
				"receipt",
		}
	}
	if err := validateRecords(spec.Destination.Records, compressed); err != nil {
		return err
	}
	if form := spec.Source.Form; form.Compressed() && (spec.Destination.Via != nil ||
		from != nil && spec.Destination.Scrub != "" ||
		form.Archived() && (from != nil || to != nil || len(spec.Destinations) > 0)) {
		return &policy.InvalidError{
			Field: "spec.source.form", Fix: "may be Archive only from a claim to one claim, and Gzip or Zstd only without via " +
				"and, from an objectStore, without scrub; else remove it",
		}
	}
	if volume := spec.Destination.Ephemeral; volume != nil {
		switch {
		case from == nil:
			return &policy.InvalidError{
				Field: "spec.destination.ephemeral", Fix: "is for what is restored from an objectStore; use it as source",
			}
		case to != nil || spec.Destination.PersistentVolumeClaim.ClaimName != "":
			return &policy.InvalidError{
				Field: "spec.destination", Fix: "must have exactly one of persistentVolumeClaim, objectStore and ephemeral",
			}
		case volume.Size == nil || volume.Size.Sign() <= 0:
			return &policy.InvalidError{
				Field: "spec.destination.ephemeral.size", Fix: "must be positive; write for example 100Gi",
			}
		}
	}
	if err := validateScrub(spec); err != nil {
		return err
	}
	if err := validateEncryption(spec); err != nil {
		return err
	}
	if spec.Inflate == v1alpha1.InflateSoftware && (from == nil || to != nil) && spec.Destination.Scrub == "" {
		return &policy.InvalidError{
			Field: "spec.inflate", Fix: "must be Any or absent where no archives of an objectStore are restored into a volume",
		}
	}
	switch {
	case from != nil && spec.Source.PersistentVolumeClaim.ClaimName != "":
		return &policy.InvalidError{
			Field: "spec.source", Fix: "must have exactly one of persistentVolumeClaim and objectStore",
		}
	case to != nil && spec.Destination.PersistentVolumeClaim.ClaimName != "":
		return &policy.InvalidError{
			Field: "spec.destination", Fix: "must have exactly one of persistentVolumeClaim and objectStore",
		}
	case (from != nil || to != nil) && (spec.Destination.Peer != "" || spec.Destination.Namespace != ""):
		return &policy.InvalidError{
			Field: "spec.destination", Fix: "must have neither peer nor namespace where an end is an objectStore, which is " +
				"reached from its own namespace only",
		}
	case from != nil && to != nil && from.Name == to.Name && Overlap(from.Path, to.Path):
		return &policy.InvalidError{
			Field: "spec.destination.objectStore.path", Fix: "must not be that of the source, in it or above it",
		}
	}
	return nil
}

// checkStore looks for what keeps an agent from using an object store. missing is the reason if there is none.
func checkStore(missing, name string, store *v1alpha1.ObjectStore, denied *agentpod.Problem) *agentpod.Problem {
	if store == nil || store.DeletionTimestamp != nil {
		return &agentpod.Problem{
			Reason:  missing,
			Message: fmt.Sprintf("there is no ObjectStore %q in this namespace; create it", name),
		}
	}
	if denied != nil {
		return denied
	}
	ready := meta.FindStatusCondition(store.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.ObservedGeneration != store.Generation:
		return &agentpod.Problem{
			Reason:  v1alpha1.ReasonProbing,
			Message: fmt.Sprintf("ObjectStore %q has not been probed yet", name),
		}
	case ready.Status != metav1.ConditionTrue:
		return &agentpod.Problem{
			Reason:  ready.Reason,
			Message: fmt.Sprintf("ObjectStore %q is not ready: %s", name, ready.Message),
		}
	}
	return nil
}

// checkVia is CheckPeer for a Transfer that goes through an object store. Whether the Peer answers over the network
// does not matter.
func checkVia(transfer *v1alpha1.Transfer, facts TransferFacts) *agentpod.Problem {
	destination, store := transfer.Spec.Destination, facts.Stores.Via
	if facts.Peer == nil {
		return peerNotFound(destination.Peer)
	}
	ready := meta.FindStatusCondition(facts.Peer.Status.Conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.Status == metav1.ConditionFalse && ready.ObservedGeneration == facts.Peer.Generation &&
		ready.Reason == v1alpha1.ReasonInvalidCABundle {
		return &agentpod.Problem{
			Reason:  v1alpha1.ReasonPeerUntrusted,
			Message: fmt.Sprintf("Peer %q is not ready: %s", facts.Peer.Name, ready.Message),
		}
	}
	name := destination.Via.ObjectStore.Name
	if problem := checkStore(v1alpha1.ReasonStoreNotFound, name, store, facts.Stores.Problem); problem != nil {
		return problem
	}
	if store.Spec.HandOff == v1alpha1.StoreHandOffReceive {
		return &agentpod.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(
			"ObjectStore %q receives for this cluster (spec.handOff), so this Transfer would come back; delete it and create "+
				"one via an ObjectStore with the prefix that the other cluster receives at", name)}
	}
	return nil
}

// handOffAttempt is the attempt that the Transfer's status names, to another cluster through an object store.
func handOffAttempt(
	transfer *v1alpha1.Transfer, resolved policy.Resolved, where placement.Plan, stores StoreFacts, image agentpod.Image,
) *attempt.Attempt {
	a := sendSpec(transfer, where, image)
	a.Mode = handOffMode
	a.Labels[agentpod.ComponentLabel] = a.Mode
	host, _ := attempt.StoreHost(stores.Via.Spec)
	store := a.AddStore(stores.Via.Spec, "", stores.Services[host])
	a.Config = &wirev1.HandOffConfig{
		Send: sendConfig(transfer, resolved), Via: &wirev1.StoreEnd{Store: store, DialPolicy: stores.Dial},
	}
	return attempt.New(a)
}

// storeAttempt is the attempt that the Transfer's status names, of which at least one end is an object store. whole is
// the Transfer that it is a leg of; nil if it is none.
func storeAttempt(
	transfer, whole *v1alpha1.Transfer, resolved policy.Resolved, where placement.Plan, stores StoreFacts,
	image agentpod.Image,
) *attempt.Attempt {
	a := sendSpec(transfer, where, image)
	if whole != nil {
		ofDestinations(&a, whole)
	}
	a.Mode = attempt.LocalMode
	a.Labels[agentpod.ComponentLabel] = a.Mode
	run, destination := transfer.Status.Run, transfer.Spec.Destination
	config := &wirev1.LocalConfig{
		Send: sendConfig(transfer, resolved),
		Receive: &wirev1.ReceiveConfig{
			RunId: run.ID, Attempt: uint32(run.Attempt), SenderNamespace: transfer.Namespace, SenderName: transfer.Name,
			AllowDelete: transfer.Spec.Delete,
		},
		Transfer:          writerOf(transfer),
		InflateInSoftware: transfer.Spec.Inflate == v1alpha1.InflateSoftware,
	}
	if !destination.Form.Compressed() {
		// What an object holds is never compressed on the way, and between the halves of the agent there is no network.
		config.Send.Compression.Mode = wirev1.CompressionMode_COMPRESSION_MODE_AUTO
	}
	end := func(at *v1alpha1.ObjectStorePath, store *v1alpha1.ObjectStore) *wirev1.StoreEnd {
		host, _ := attempt.StoreHost(store.Spec)
		directory := strings.Trim(at.Path, "/")
		return &wirev1.StoreEnd{
			Store: a.AddStore(store.Spec, directory, stores.Services[host]), DialPolicy: stores.Dial,
		}
	}
	if at := transfer.Spec.Source.ObjectStore; at != nil {
		config.SourceStore = end(at, stores.Source)
		config.Send.Volume, config.Send.Path = "", ""
	}
	if transfer.Spec.Source.Encryption != nil && transfer.Spec.Source.ObjectStore != nil {
		config.IdentitiesDirectory = attempt.IdentitiesPath
	}
	if at := destination.ObjectStore; at != nil {
		config.DestinationStore = end(at, stores.Destination)
		config.Encryption = wireEncryption(destination.Encryption)
	} else if Scrubs(transfer) {
		config.Scrub, config.Receive = scrubConfig(transfer), nil
	} else {
		a.Mounts = append(a.Mounts, attempt.Mount{
			Claim: destination.PersistentVolumeClaim.ClaimName, Ephemeral: destination.Ephemeral, Path: attempt.DestinationPath,
		})
		config.Receive.Volume = attempt.DestinationPath
		config.Receive.Path = attempt.RelativePath(destination.PersistentVolumeClaim.Path)
		if agentpod.AsksToWrite(transfer.Spec.PodTemplate) {
			a.Capabilities = agentpod.WriteCapabilities
		}
	}
	a.Config = config
	return attempt.New(a)
}

// writerOf tells a Transfer from all others that write archives, in any cluster.
func writerOf(transfer *v1alpha1.Transfer) string {
	return fmt.Sprintf("%s/%s (%s)", transfer.Namespace, transfer.Name, transfer.UID)
}

// maxRecord is the most bytes of a record of format Fixed.
const maxRecord = 1 << 30

// validateRecords rejects what the API server does.
func validateRecords(r *v1alpha1.FileRecords, compressed bool) error {
	const field = "spec.destination.records"
	switch {
	case r == nil:
		return nil
	case !compressed:
		return &policy.InvalidError{Field: field, Fix: "is for form: Gzip or Zstd, whose indexes know records"}
	case recordLayouts[r.Format] == 0:
		return &policy.InvalidError{Field: field + ".format", Fix: "must be Lines, Fixed or RDW"}
	case r.Format == v1alpha1.RecordFixed && (r.Length < 1 || r.Length > maxRecord):
		return &policy.InvalidError{Field: field + ".length", Fix: "must be 1 to 1073741824 bytes with format: Fixed"}
	case r.Format != v1alpha1.RecordFixed && r.Length != 0:
		return &policy.InvalidError{Field: field + ".length", Fix: "is for format: Fixed; remove it"}
	}
	return nil
}
