// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfersetplan

import (
	"cmp"
	"path"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// Namespace of the cluster.
type Namespace struct {
	Name   string
	Labels map[string]string
	// Ends: it is being deleted, and nothing can be made in it.
	Ends bool
	// Watched by the operator.
	Watched bool
}

// PartFacts are what a decision about a set of several namespaces needs.
type PartFacts struct {
	Now time.Time
	// Operator is the operator's namespace.
	Operator string
	// Namespaces of the cluster.
	Namespaces []Namespace
	// Sets with the set's name of other namespaces.
	Sets []v1alpha1.TransferSet
}

// Parts are what is to be done for a set of several namespaces. Status sums up. A part is the set of one namespace.
type Parts struct {
	Writes[*v1alpha1.TransferSet]

	set     *v1alpha1.TransferSet
	now     time.Time
	problem *problem
	states  []part
}

// part is the set of a namespace.
type part struct {
	namespace string
	// set is nil while there is none.
	set *v1alpha1.TransferSet
	// problem, if there is one, is why there can be none.
	problem *problem
	// stale: what the part says is not yet of what it is to be.
	stale bool
}

// DecideParts compares the namespaces that a set with namespaceSelector finds with the parts that there are. It changes
// neither.
func DecideParts(set *v1alpha1.TransferSet, facts PartFacts) (*Parts, error) {
	d := &Parts{set: set, now: facts.Now}
	match, wrong := namespacesOf(set, facts.Operator)
	if wrong != nil {
		d.problem = &problem{wrong.Reason, wrong.Message}
		return d, nil
	}
	unwanted, taken := map[string]*v1alpha1.TransferSet{}, map[string]bool{}
	for i := range facts.Sets {
		if s := &facts.Sets[i]; partOf(set, s) {
			unwanted[s.Namespace] = s
		} else {
			taken[s.Namespace] = true
		}
	}
	for _, namespace := range facts.Namespaces {
		if namespace.Name == facts.Operator || namespace.Ends || !match.Matches(labels.Set(namespace.Labels)) {
			continue
		}
		one := part{namespace: namespace.Name, set: unwanted[namespace.Name]}
		delete(unwanted, namespace.Name)
		switch {
		case !namespace.Watched:
			one.set, one.problem = nil, &problem{v1alpha1.ReasonNamespaceNotWatched,
				"the operator does not watch it; add it to watchNamespaces, or have spec.namespaceSelector leave it out"}
		case taken[namespace.Name]:
			one.problem = &problem{v1alpha1.ReasonSetConflict,
				"TransferSet " + set.Name + " there is not one that this one made; delete it, or create this one with another name"}
		}
		d.states = append(d.states, one)
	}
	slices.SortFunc(d.states, func(a, b part) int { return cmp.Compare(a.namespace, b.namespace) })
	for _, s := range unwanted {
		if s.DeletionTimestamp == nil {
			d.Delete = append(d.Delete, s)
		}
	}
	slices.SortFunc(d.Delete, func(a, b *v1alpha1.TransferSet) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return d, d.follow()
}

// HasParts reports whether a set is one whose parts are made, changed and deleted: it is in the operator's namespace,
// and finds others. No other set writes outside of its namespace.
func HasParts(set *v1alpha1.TransferSet, operator string) bool {
	return set.Namespace == operator && set.Spec.NamespaceSelector != nil
}

// PartsOf are those of the sets given that are parts of a set; none if it HasParts not.
func PartsOf(set *v1alpha1.TransferSet, operator string, sets []v1alpha1.TransferSet) (parts []*v1alpha1.TransferSet) {
	if !HasParts(set, operator) {
		return nil
	}
	for i := range sets {
		if partOf(set, &sets[i]) {
			parts = append(parts, &sets[i])
		}
	}
	return parts
}

// namespacesOf is the selector of a set's namespaces, if it may have one.
func namespacesOf(set *v1alpha1.TransferSet, operator string) (labels.Selector, *agentpod.Problem) {
	if set.Namespace != operator {
		return nil, invalid("spec.namespaceSelector is accepted only in the operator's namespace; ask an administrator to " +
			"create the TransferSet there, and delete this one")
	}
	if set.Spec.Template.Destination.Namespace != "" {
		return nil, invalid("spec.template.destination.namespace would have all namespaces written to one; create a " +
			"TransferSet without it, and delete this one")
	}
	return bounded("spec.namespaceSelector", set.Spec.NamespaceSelector)
}

// partOf reports whether a set made another one, or a set of its name before it, such as the one that a backup has.
// Somebody may have copied it, label and all.
func partOf(set, part *v1alpha1.TransferSet) bool {
	return part.Name == set.Name && part.Namespace != set.Namespace &&
		part.Labels[v1alpha1.TransferSetLabel] == set.Name &&
		part.Labels[agentpod.ManagedByLabel] == agentpod.ManagedBy && // or admission rejects all writes
		part.Annotations[v1alpha1.TemplateHashAnnotation] != "" &&
		metav1.GetControllerOf(part) == nil
}

// follow makes the parts that there are not, and has the others follow the spec.
func (d *Parts) follow() error {
	wanted := partSpec(d.set)
	hash, err := hashOf(wanted)
	asked := ""
	if d.set.Spec.Group != nil {
		asked = d.set.Annotations[v1alpha1.RunAnnotation]
	}
	if asked != "" && err == nil {
		// A part gets each value once: it may be given others by itself.
		hash, err = hashOf([]string{hash, asked})
	}
	if err != nil {
		return err
	}
	for i := range d.states {
		s := &d.states[i]
		if s.problem != nil || s.set != nil && s.set.DeletionTimestamp != nil {
			s.stale = true
			continue
		}
		spec := within(wanted, s.namespace)
		switch {
		case s.set == nil:
			s.stale = true
			made := newPart(d.set, s.namespace, *spec.DeepCopy(), hash)
			ask(made, asked)
			d.Create = append(d.Create, made)
		case s.set.Annotations[v1alpha1.TemplateHashAnnotation] != hash:
			s.stale = true
			after := s.set.DeepCopy()
			after.Spec, after.Annotations[v1alpha1.TemplateHashAnnotation] = *spec.DeepCopy(), hash
			ask(after, asked)
			d.Update = append(d.Update, Update[*v1alpha1.TransferSet]{Before: s.set, After: after})
		case !equality.Semantic.DeepEqual(spec, s.set.Spec): // both have the API server's defaults
			s.stale, s.problem = true, &problem{v1alpha1.ReasonSetConflict,
				"TransferSet " + d.set.Name + " there was changed; delete it, which has it made again, or change its spec back"}
		default:
			s.stale = s.set.Status.ObservedGeneration != s.set.Generation
		}
	}
	return nil
}

// ask has a part make another VolumeGroupSnapshot, if one is asked for.
func ask(part *v1alpha1.TransferSet, asked string) {
	if asked != "" {
		part.Annotations[v1alpha1.RunAnnotation] = asked
	}
}

// partSpec is what the specs of all parts have in common.
func partSpec(set *v1alpha1.TransferSet) v1alpha1.TransferSetSpec {
	spec := *set.Spec.DeepCopy()
	spec.NamespaceSelector = nil
	return spec
}

// within is the spec of the part of a namespace, which shares what it can with that of all.
func within(spec v1alpha1.TransferSetSpec, namespace string) v1alpha1.TransferSetSpec {
	if store := spec.Template.Destination.ObjectStore; store != nil {
		there := *store
		there.Path = path.Join("/", store.Path, namespace)
		spec.Template.Destination.ObjectStore = &there
	}
	return spec
}

func newPart(
	set *v1alpha1.TransferSet, namespace string, spec v1alpha1.TransferSetSpec, hash string,
) *v1alpha1.TransferSet {
	return &v1alpha1.TransferSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: set.Name,
			Labels: map[string]string{
				v1alpha1.TransferSetLabel: set.Name, agentpod.ManagedByLabel: agentpod.ManagedBy,
			},
			Annotations: map[string]string{v1alpha1.TemplateHashAnnotation: hash},
		},
		Spec: spec,
	}
}

// Reject notes that the API server rejects a part for good, in its words.
func (d *Parts) Reject(rejected *v1alpha1.TransferSet, words string) {
	d.note(rejected, v1alpha1.ReasonMembersRejected, words)
}

// Refuse notes that the API server rejects a part for now, in its words. It is to be asked again soon.
func (d *Parts) Refuse(refused *v1alpha1.TransferSet, words string) {
	d.note(refused, v1alpha1.ReasonRefused, words)
}

func (d *Parts) note(of *v1alpha1.TransferSet, reason, words string) {
	for i := range d.states {
		if s := &d.states[i]; s.namespace == of.Namespace {
			s.problem = &problem{reason, words}
			return
		}
	}
}

// RequeueAfter is when to look again though nothing has changed; 0: not by the clock.
func (d *Parts) RequeueAfter() (after time.Duration) {
	for _, s := range d.states {
		switch {
		case s.problem != nil && s.problem.reason == v1alpha1.ReasonMembersRejected:
			return retryRejected
		case s.set != nil && s.set.Status.Members != nil && s.set.Status.Members.Running > 0:
			after = refresh
		}
	}
	return after
}
