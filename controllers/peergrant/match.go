// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peergrant

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// Request is what a peer, or another namespace of this cluster, wants to do in a namespace of this cluster.
type Request struct {
	// Peer is the name of the Peer that vouches for who asks, empty for this cluster, and Namespace theirs in that
	// cluster.
	Peer, Namespace string
	// Transfer is the name of the Transfer that asks; empty for a Queue.
	Transfer string
	// Verb is what is to be done with a claim; empty: it is written.
	Verb v1alpha1.GrantedVerb
	// Kind and Name are of the object to write or read, and ToNamespace the namespace that it is in.
	Kind        v1alpha1.GrantedKind
	ToNamespace string
	Name        string
	// Path is the directory of a claim to write into or read from, absolute and clean; empty for the root, and for a
	// Queue.
	Path string
	// Delete asks to remove what the source does not have, Privileged to keep owners.
	Delete, Privileged bool
	// Snapshots is how many VolumeSnapshots of the claim a retention keeps at most; 0: none is taken.
	Snapshots int
	// Create asks to create the claim, or to make one larger that was created so; nil: neither.
	Create *Creation
}

// Creation is what claim is asked for.
type Creation struct {
	// Class is the name of a StorageClass; empty for the default one.
	Class string
	Size  resource.Quantity
}

// OfDelivery is what must be granted for a Delivery.
func OfDelivery(delivery *v1alpha1.Delivery) Request {
	destination, kept := delivery.Spec.Destination.PersistentVolumeClaim, 0
	if wanted := delivery.Spec.Destination.Snapshot; wanted != nil {
		kept = wanted.Retention.Total()
	}
	return Request{
		Peer: delivery.Spec.Peer, Namespace: delivery.Spec.Transfer.Namespace, Transfer: delivery.Spec.Transfer.Name,
		Kind: v1alpha1.GrantedPersistentVolumeClaim, ToNamespace: delivery.Namespace,
		Name: destination.ClaimName, Path: destination.Path,
		Delete: delivery.Spec.Delete, Privileged: delivery.Spec.Privilege == v1alpha1.AgentPrivilegeKeepOwners,
		Snapshots: kept,
	}
}

// OfClaim is what must be granted for the claim of a Delivery with a template to be created or made larger.
func OfClaim(delivery *v1alpha1.Delivery) Request {
	request, template := OfDelivery(delivery), delivery.Spec.Destination.Template
	request.Create = &Creation{Class: template.StorageClassName, Size: template.Size}
	return request
}

// OfPull is what must be granted for a Transfer that was made for one of another cluster which pulls.
func OfPull(transfer *v1alpha1.Transfer, of plan.PullReference) Request {
	source := transfer.Spec.Source.PersistentVolumeClaim
	return Request{
		Peer: of.Peer, Namespace: of.Namespace, Transfer: of.Name, Verb: v1alpha1.GrantedRead,
		Kind: v1alpha1.GrantedPersistentVolumeClaim, ToNamespace: transfer.Namespace, Name: source.ClaimName,
		Path: source.Path,
	}
}

// Verdict is what grants say to a Request.
type Verdict struct {
	// Allowed: a grant allows all of it.
	Allowed bool
	// Until is when the last grant that allows it expires; zero for never.
	Until time.Time
	// Snapshots is how many VolumeSnapshots of the claim may be kept for peers by the grant that allows most; 0 if it is
	// not allowed.
	Snapshots int
	// Refusal says in a sentence that it is not granted and how to grant it; empty when it is allowed. Who has no grant
	// for the object learns nothing of what exists; who has one learns which of its fields to set.
	Refusal string
}

// Allowed reports whether one of the grants allows the request at a time.
func Allowed(grants []v1alpha1.PeerGrant, request Request, now time.Time) bool {
	return Decide(grants, request, now).Allowed
}

// Decide returns what the grants say to a request. One entry of spec.to of one grant must allow all of it. Grants of
// other namespaces, grants that have expired and grants that are being deleted allow nothing. What stays within a
// namespace takes no grant: whoever may make a Transfer there may mount its claims.
func Decide(grants []v1alpha1.PeerGrant, request Request, now time.Time) Verdict {
	if request.Peer == "" && request.Namespace == request.ToNamespace {
		return Verdict{Allowed: true}
	}
	v, never := Verdict{}, false
	var lacking []string // of the entry that lacks least; nil when none is about the object
	var expired time.Time
	for i := range grants {
		grant := &grants[i]
		if !covers(grant, request) {
			continue
		}
		lacks, snapshots, found := lacksOf(grant, request)
		switch {
		case !found:
		case Expired(grant, now):
			if until := grant.Spec.ExpirationTime.Time; len(lacks) == 0 && until.After(expired) {
				expired = until
			}
		case len(lacks) > 0:
			if lacking == nil || len(lacks) < len(lacking) {
				lacking = lacks
			}
		case grant.Spec.ExpirationTime == nil:
			v.Allowed, never, v.Snapshots = true, true, max(v.Snapshots, snapshots)
		default:
			v.Allowed, v.Snapshots = true, max(v.Snapshots, snapshots)
			if until := grant.Spec.ExpirationTime.Time; until.After(v.Until) {
				v.Until = until
			}
		}
	}
	switch {
	case never:
		v.Until = time.Time{}
	case v.Allowed:
	case !expired.IsZero():
		v.Refusal = fmt.Sprintf("the PeerGrant of %s expired at %s; set a later spec.expirationTime there, or remove it",
			parties(request), expired.UTC().Format(time.RFC3339))
	case lacking != nil:
		v.Refusal = fmt.Sprintf("a PeerGrant of %s does not allow all of it; set in its spec.to: %s%s",
			parties(request), strings.Join(lacking, ", "), otherwise(request, lacking))
	default:
		v.Refusal = fmt.Sprintf("there is no PeerGrant of %s; create one there with spec: %s", parties(request),
			example(request))
	}
	return v
}

// Expired reports whether a grant allows nothing any more at a time.
func Expired(grant *v1alpha1.PeerGrant, now time.Time) bool {
	return grant.Spec.ExpirationTime != nil && !now.Before(grant.Spec.ExpirationTime.Time)
}

// Active keeps the grants that have not expired.
func Active(grants []v1alpha1.PeerGrant, now time.Time) []v1alpha1.PeerGrant {
	return slices.DeleteFunc(slices.Clone(grants), func(grant v1alpha1.PeerGrant) bool { return Expired(&grant, now) })
}

// UntilExpiration is how long until the first of the grants expires that have not; 0 when none will.
func UntilExpiration(grants []v1alpha1.PeerGrant, now time.Time) time.Duration {
	var first time.Duration
	for i := range grants {
		if at := grants[i].Spec.ExpirationTime; at != nil && !Expired(&grants[i], now) {
			if left := untilExpiry(at.Time, now); first == 0 || left < first {
				first = left
			}
		}
	}
	return first
}

// covers reports whether a grant is for who asks.
func covers(grant *v1alpha1.PeerGrant, request Request) bool {
	return grant.Namespace == request.ToNamespace && grant.DeletionTimestamp.IsZero() &&
		slices.ContainsFunc(grant.Spec.From, func(from v1alpha1.PeerGrantFrom) bool {
			return from.Peer == request.Peer && slices.Contains(from.Namespaces, request.Namespace) &&
				(len(from.Transfers) == 0 || slices.Contains(from.Transfers, request.Transfer))
		})
}

// lacksOf returns what must be set in the entry of the grant that comes closest to allowing the request, and how many
// snapshots the entries allow that lack nothing; found is false when no entry is about the object.
func lacksOf(grant *v1alpha1.PeerGrant, request Request) (lacks []string, snapshots int, found bool) {
	for i := range grant.Spec.To {
		to := &grant.Spec.To[i]
		if to.Kind != request.Kind || to.Name != "" && to.Name != request.Name {
			continue
		}
		var these []string
		if verb := verbOf(request); !verbs(to)[verb] {
			these = append(these, fmt.Sprintf("verbs: [%s]", verb))
		}
		if !within(cmp.Or(to.Path, "/"), cmp.Or(request.Path, "/")) {
			these = append(these, fmt.Sprintf("path: %q or a directory above it", request.Path))
		}
		if request.Delete && !to.AllowDelete {
			these = append(these, "allowDelete: true")
		}
		if request.Privileged && !to.AllowPrivileged {
			these = append(these, "allowPrivileged: true")
		}
		if request.Snapshots > int(to.MaxSnapshots) {
			these = append(these, fmt.Sprintf("maxSnapshots: %d", request.Snapshots))
		}
		if request.Create != nil && !creates(to.Create, *request.Create) {
			these = append(these, creation(*request.Create))
		}
		if len(these) == 0 {
			snapshots = max(snapshots, int(to.MaxSnapshots))
		}
		if !found || len(these) < len(lacks) {
			lacks, found = these, true
		}
	}
	return lacks, snapshots, found
}

// verbs are what may be done with what an entry names.
func verbs(to *v1alpha1.PeerGrantTo) map[v1alpha1.GrantedVerb]bool {
	if len(to.Verbs) == 0 {
		return map[v1alpha1.GrantedVerb]bool{v1alpha1.GrantedWrite: true}
	}
	all := map[v1alpha1.GrantedVerb]bool{}
	for _, verb := range to.Verbs {
		all[verb] = true
	}
	return all
}

func verbOf(request Request) v1alpha1.GrantedVerb { return cmp.Or(request.Verb, v1alpha1.GrantedWrite) }

// creates reports whether a grant allows a claim to be created.
func creates(granted *v1alpha1.PeerGrantCreate, wanted Creation) bool {
	return granted != nil && wanted.Size.Cmp(granted.MaxSize) <= 0 &&
		(wanted.Class == "" || slices.Contains(granted.StorageClassNames, wanted.Class))
}

// creation is what a grant needs for a claim to be created.
func creation(wanted Creation) string {
	if wanted.Class == "" {
		return fmt.Sprintf("create: {maxSize: %s}", wanted.Size.String())
	}
	return fmt.Sprintf("create: {storageClassNames: [%s], maxSize: %s}", wanted.Class, wanted.Size.String())
}

// within reports whether a directory is the granted one or in it, element by element. What is not absolute and clean is
// in none.
func within(granted, directory string) bool {
	for _, p := range []string{granted, directory} {
		if !path.IsAbs(p) || path.Clean(p) != p && path.Clean(p)+"/" != p {
			return false
		}
	}
	granted, directory = path.Clean(granted), path.Clean(directory)
	return granted == "/" || directory == granted || strings.HasPrefix(directory, granted+"/")
}

// parties says of whom and what a grant is.
func parties(r Request) string {
	if verbOf(r) == v1alpha1.GrantedRead {
		return fmt.Sprintf("namespace %s of the source cluster for namespace %s of peer %s to read %s %s",
			r.ToNamespace, r.Namespace, r.Peer, r.Kind, r.Name)
	}
	if r.Peer == "" {
		return fmt.Sprintf("namespace %s for namespace %s of this cluster to write %s %s", r.ToNamespace, r.Namespace,
			r.Kind, r.Name)
	}
	return fmt.Sprintf("namespace %s of the receiving cluster for namespace %s of peer %s to write %s %s",
		r.ToNamespace, r.Namespace, r.Peer, r.Kind, r.Name)
}

// otherwise is what who asks can do without a wider grant.
func otherwise(r Request, lacking []string) string {
	if r.Snapshots > 0 && slices.ContainsFunc(lacking, func(s string) bool { return strings.HasPrefix(s, "maxSnapshots") }) {
		return "; or remove spec.destination.snapshot of the Transfer"
	}
	if r.Privileged && slices.Contains(lacking, "allowPrivileged: true") {
		return "; or have spec.podTemplate.securityContext of the Transfer add the capability DAC_READ_SEARCH alone, " +
			"which asks for no privilege at the destination"
	}
	return ""
}

// example is the spec of a grant that allows the request.
func example(r Request) string {
	from, to := "", fmt.Sprintf("kind: %s, name: %s", r.Kind, r.Name)
	if r.Peer != "" {
		from = fmt.Sprintf("peer: %s, ", r.Peer)
	}
	if verbOf(r) != v1alpha1.GrantedWrite {
		to += fmt.Sprintf(", verbs: [%s]", r.Verb)
	}
	if r.Path != "" && r.Path != "/" {
		to += fmt.Sprintf(", path: %q", r.Path)
	}
	if r.Delete {
		to += ", allowDelete: true"
	}
	if r.Privileged {
		to += ", allowPrivileged: true"
	}
	if r.Snapshots > 0 {
		to += fmt.Sprintf(", maxSnapshots: %d", r.Snapshots)
	}
	if r.Create != nil {
		to += ", " + creation(*r.Create)
	}
	return fmt.Sprintf("{from: [{%snamespaces: [%s]}], to: [{%s}]}", from, r.Namespace, to)
}
