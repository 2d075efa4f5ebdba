// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/policy"
)

const (
	// MaxClaimSize is the size in bytes of the largest claim that is asked for.
	MaxClaimSize = 1 << 60
	// claimUnit is what sizes of claims are rounded up to.
	claimUnit = 1 << 20
	// defaultHeadroom, and maxHeadroom, are percent of the source's capacity.
	defaultHeadroom = 20
	maxHeadroom     = 1000
	// minTemplateSize and maxTemplateSize are those of the API.
	minTemplateSize = 1 << 20
	maxTemplateSize = 1 << 50
	// createdDelay is how long to wait for a claim that was just created.
	createdDelay = time.Second
)

// TemplateFacts are what was seen of the claims of a Transfer with a template. They are looked at only where
// NeedsTemplate.
type TemplateFacts struct {
	// Source is the claim that is read, as the API server has it; nil when it does not exist, or there is none.
	Source *corev1.PersistentVolumeClaim
	// Destination is the same for the claim that is written to, if it is in this cluster.
	Destination *corev1.PersistentVolumeClaim
}

// Provision is what is to be done about the claim of a destination: one of both.
type Provision struct {
	// Create is a claim to be created; nil: none.
	Create *corev1.PersistentVolumeClaim
	// Enlarge is a claim whose request is to become Size; nil: none.
	Enlarge *corev1.PersistentVolumeClaim
	Size    resource.Quantity
}

// NeedsTemplate reports whether a decision about a Transfer needs TemplateFacts: with a template, while an attempt may
// have to begin.
func NeedsTemplate(transfer *v1alpha1.Transfer) bool {
	switch transfer.Status.Phase {
	case v1alpha1.TransferOpening, v1alpha1.TransferTransferring:
		return false
	}
	return templateOf(transfer) != nil
}

// DeliveryNeedsTemplate is the same for a Delivery.
func DeliveryNeedsTemplate(delivery *v1alpha1.Delivery) bool {
	return delivery.Spec.Destination.Template != nil &&
		(delivery.Status.Run == nil || delivery.Status.Phase == v1alpha1.DeliveryStarting)
}

func templateOf(transfer *v1alpha1.Transfer) *v1alpha1.ClaimTemplate {
	return transfer.Spec.Destination.PersistentVolumeClaim.Template
}

// ClaimSize is how large a claim is to be by a template, if the source has that capacity, nil if it has none; nil when
// neither tells.
func ClaimSize(template *v1alpha1.ClaimTemplate, capacity *resource.Quantity) *resource.Quantity {
	size := int64(0)
	if capacity != nil {
		size = withHeadroom(capacity.Value(), ptr.Deref(template.HeadroomPercent, defaultHeadroom))
	}
	if template.Size != nil {
		size = max(size, min(template.Size.Value(), MaxClaimSize))
	}
	if size <= 0 {
		return nil
	}
	return resource.NewQuantity((size+claimUnit-1)/claimUnit*claimUnit, resource.BinarySI)
}

// withHeadroom adds percent to bytes, rounded up; MaxClaimSize at most.
func withHeadroom(bytes int64, percent int32) int64 {
	high, low := bits.Mul64(uint64(max(bytes, 0)), uint64(100+max(percent, 0))) //nolint:gosec // neither is negative
	if high >= 100 {
		return MaxClaimSize
	}
	quotient, rest := bits.Div64(high, low, 100)
	if rest > 0 {
		quotient++
	}
	return int64(min(quotient, MaxClaimSize)) //nolint:gosec // MaxClaimSize at most
}

// sourceCapacity is that of the source, or of the copy that the run reads; nil when neither is known.
func sourceCapacity(transfer *v1alpha1.Transfer, source *corev1.PersistentVolumeClaim) *resource.Quantity {
	if source != nil {
		capacity := capacityOf(source)
		return &capacity
	}
	if staged := transfer.Status.Staged; staged != nil {
		return staged.Size
	}
	return nil
}

// capacityOf a claim is what it has, or has been asked to become.
func capacityOf(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	wanted, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if has.Cmp(wanted) > 0 {
		return has
	}
	return wanted
}

// ClaimRequestOf is what the template of a Transfer asks for in the attempt that its status names; nil without a
// template, or when no size is known.
func ClaimRequestOf(transfer *v1alpha1.Transfer) *v1alpha1.ClaimRequest {
	template, run := templateOf(transfer), transfer.Status.Run
	if template == nil || run == nil || run.ClaimSize == nil {
		return nil
	}
	return &v1alpha1.ClaimRequest{
		StorageClassName: template.StorageClassName, AccessModes: slices.Clone(template.AccessModes),
		Size: run.ClaimSize.DeepCopy(), Written: written(&transfer.Status),
	}
}

// wireTemplate is ClaimRequestOf for the other cluster.
func wireTemplate(transfer *v1alpha1.Transfer) *wirev1.ClaimTemplate {
	request := ClaimRequestOf(transfer)
	if request == nil || IsLocal(transfer) {
		return nil
	}
	asked := &wirev1.ClaimTemplate{
		StorageClassName: request.StorageClassName, Written: request.Written,
		Size: uint64(max(request.Size.Value(), 0)), //nolint:gosec // not negative
	}
	for _, mode := range request.AccessModes {
		asked.AccessModes = append(asked.AccessModes, string(mode))
	}
	return asked
}

// written reports whether an attempt of the run in status is known to have written to the destination. Its claim is not
// created again then: what is safe there would be missing, and nobody would know.
func written(status *v1alpha1.TransferStatus) bool {
	run := status.Run
	if run == nil || run.CompletionTime != nil {
		return false
	}
	return run.DeliveredBytes > 0 || slices.ContainsFunc(status.History, func(record v1alpha1.AttemptRecord) bool {
		return record.RunID == run.ID && (record.Bytes > 0 || record.ResumedBytes > 0)
	})
}

// CreatedFor is the value of v1alpha1.CreatedForAnnotation. The peer is empty for a Transfer of this cluster.
func CreatedFor(peer, namespace, name string) string {
	if peer == "" {
		return namespace + "/" + name
	}
	return peer + "/" + namespace + "/" + name
}

// provide says what is to be done about a claim, nil: nothing; or whether it is large enough, nil if that is to be seen.
func provide(
	wanted *v1alpha1.ClaimRequest, namespace, name, createdFor string, present *corev1.PersistentVolumeClaim,
) (*Provision, *metav1.Condition) {
	if present == nil {
		return &Provision{Create: newClaim(wanted, namespace, name, createdFor)}, nil
	}
	has := capacityOf(present)
	switch {
	case has.Cmp(wanted.Size) >= 0:
		return nil, fits(has)
	case present.Annotations[v1alpha1.CreatedForAnnotation] != createdFor:
		return nil, fitsNot(present.Name, wanted.Size, "it was not created from the template of this Transfer")
	}
	return &Provision{Enlarge: present, Size: wanted.Size.DeepCopy()}, nil
}

func newClaim(wanted *v1alpha1.ClaimRequest, namespace, name, createdFor string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Annotations: map[string]string{v1alpha1.CreatedForAnnotation: createdFor},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: slices.Clone(wanted.AccessModes), VolumeMode: ptr.To(corev1.PersistentVolumeFilesystem),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: wanted.Size.DeepCopy()},
			},
		},
	}
	if len(claim.Spec.AccessModes) == 0 {
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	if wanted.StorageClassName != "" {
		claim.Spec.StorageClassName = &wanted.StorageClassName
	}
	return claim
}

func fits(size resource.Quantity) *metav1.Condition {
	condition := conditions.New(v1alpha1.ConditionDestinationFits, true, v1alpha1.ReasonDestinationLargeEnough,
		fmt.Sprintf("the claim has %s, as the template asks for", size.String()))
	return &condition
}

func fitsNot(claim string, size resource.Quantity, why string) *metav1.Condition {
	condition := conditions.New(v1alpha1.ConditionDestinationFits, false, v1alpha1.ReasonDestinationTooSmall, fmt.Sprintf(
		"PersistentVolumeClaim %q is smaller than the %s of the template and is used as it is; enlarge it, or create a "+
			"larger one and another Transfer: %s", claim, size.String(), why))
	return &condition
}

// Enlarged is the condition when the API server has answered to a Provision that enlarges a claim. words are empty if
// it did that.
func Enlarged(provision *Provision, words string) metav1.Condition {
	if words == "" {
		return *fits(provision.Size)
	}
	return *fitsNot(provision.Enlarge.Name, provision.Size, "the API server does not allow that size: "+words)
}

// NotCreated is the problem when the API server rejects a claim with these words.
func NotCreated(claim *corev1.PersistentVolumeClaim, words string) *agentpod.Problem {
	return &agentpod.Problem{Reason: v1alpha1.ReasonDestinationNotCreated, Message: fmt.Sprintf(
		"the API server rejects PersistentVolumeClaim %q of the template; change what it names, such as a ResourceQuota of "+
			"the namespace, or have the platform team install the chart with claimTemplates.enabled, or create the claim: %s",
		claim.Name, conditions.Shorten(words))}
}

// destination has the claim of a Transfer within a namespace created, and returns what else is to be done about it. It
// reports whether the attempt may begin. Elsewhere the Delivery does that.
func (d *transferDecision) destination() (*Provision, bool) {
	template, status := templateOf(d.transfer), &d.transfer.Status
	if template == nil {
		return nil, true
	}
	if status.Run.ClaimSize == nil {
		status.Run.ClaimSize = ClaimSize(template, sourceCapacity(d.transfer, d.facts.Template.Source))
	}
	if status.Run.Route != v1alpha1.RoutePod && status.Run.Route != v1alpha1.RouteObjectStore {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionDestinationFits)
		return nil, true
	}
	name, present := d.transfer.Spec.Destination.PersistentVolumeClaim.ClaimName, d.facts.Template.Destination
	wanted := ClaimRequestOf(d.transfer)
	if wanted == nil {
		return nil, true // nothing tells how large it is to be
	}
	ask, fits := provide(
		wanted, d.transfer.Namespace, name, CreatedFor("", d.transfer.Namespace, d.transfer.Name), present,
	)
	if fits != nil {
		status.Conditions = conditions.Merge(
			status.Conditions, []metav1.Condition{*fits}, d.transfer.Generation, d.facts.Now,
		)
	}
	if ask == nil || ask.Create == nil {
		return ask, true
	}
	d.out.Provision = ask
	d.starting(v1alpha1.ReasonCreatingDestination, fmt.Sprintf(
		"PersistentVolumeClaim %q of %s is being created from the template", name, wanted.Size.String()))
	d.out.RequeueAfter = createdDelay
	return nil, false
}

// mayCreate reports whether the claim of the destination need not exist when an attempt begins; first: of a new run.
func mayCreate(transfer *v1alpha1.Transfer, first bool) bool {
	return templateOf(transfer) != nil && (first || !written(&transfer.Status))
}

// RefuseClaim decides what follows when the API server does not accept the claim that a decision has. The attempt has
// not begun; the next one follows slowly.
func RefuseClaim(transfer *v1alpha1.Transfer, problem agentpod.Problem, now time.Time) TransferDecision {
	d := &transferDecision{transfer: transfer.DeepCopy(), facts: TransferFacts{Now: now}}
	report := &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED}
	d.record(report, problem.Reason, problem.Message)
	d.out.Finished = &Finished{Reason: problem.Reason, Report: report}
	d.waitForSomebody(problem.Reason, problem.Message)
	d.out.Status = d.transfer.Status
	return d.out
}

// ofOldRelease adds to the message of a failure what an earlier release of the other cluster leaves out.
func (d *transferDecision) ofOldRelease(reason, message string) string {
	if reason != v1alpha1.ReasonDestinationNotFound || IsLocal(d.transfer) || ClaimRequestOf(d.transfer) == nil ||
		written(&d.transfer.Status) {
		return message
	}
	return message + "; a cluster of a release before templates of claims does not create it: upgrade that cluster, or " +
		"create the claim there"
}

// destination has the claim of a Delivery created, and returns what else is to be done about it. It reports whether the
// agent may start.
func (d *deliveryDecision) destination() (*Provision, bool) {
	spec := d.delivery.Spec
	wanted, name := spec.Destination.Template, spec.Destination.PersistentVolumeClaim.ClaimName
	if wanted == nil {
		return nil, true
	}
	if d.facts.Claim == nil && wanted.Written {
		d.reject(v1alpha1.ReasonDestinationNotFound, fmt.Sprintf("PersistentVolumeClaim %q was deleted in namespace %q of "+
			"the receiving cluster after this run had written into it; create it again there, or give the Transfer's "+
			"annotation %s a new value: another run creates it", name, d.delivery.Namespace, v1alpha1.RunAnnotation))
		return nil, false
	}
	ask, fits := provide(wanted, d.delivery.Namespace, name,
		CreatedFor(spec.Peer, spec.Transfer.Namespace, spec.Transfer.Name), d.facts.Claim)
	if ask != nil && d.facts.ClaimRefusal != "" {
		if ask.Create != nil {
			d.reject(v1alpha1.ReasonNotGranted, d.facts.ClaimRefusal)
			return nil, false
		}
		ask, fits = nil, fitsNot(name, wanted.Size, d.facts.ClaimRefusal)
	}
	if fits != nil {
		d.delivery.Status.Conditions = conditions.Merge(
			d.delivery.Status.Conditions, []metav1.Condition{*fits}, d.delivery.Generation, d.facts.Now,
		)
	}
	if ask == nil || ask.Create == nil {
		return ask, true
	}
	d.out.Provision = ask
	d.out.RequeueAfter = createdDelay
	d.set(v1alpha1.DeliveryStarting, conditions.Reconciling(v1alpha1.ReasonCreatingDestination,
		"the claim is being created in the receiving cluster"))
	return nil, false
}

// reject ends a Delivery that has no agent.
func (d *deliveryDecision) reject(reason, message string) {
	now := metav1.NewTime(d.facts.Now)
	d.delivery.Status.Run.CompletionTime = &now
	d.fail(reason, message)
}

// ClaimSuffices reports whether nothing is to be created or enlarged for a Delivery with a template.
func ClaimSuffices(delivery *v1alpha1.Delivery, claim *corev1.PersistentVolumeClaim) bool {
	if claim == nil {
		return false
	}
	has := capacityOf(claim)
	return has.Cmp(delivery.Spec.Destination.Template.Size) >= 0
}

// inflates reports whether files that rest compressed at the source do not at the destination.
func inflates(spec v1alpha1.TransferSpec) bool {
	return spec.Source.Form.Compressed() && !spec.Destination.Form.Compressed()
}

// validateTemplate checks again what the API server checks of a template.
func validateTemplate(spec v1alpha1.TransferSpec) error {
	template := spec.Destination.PersistentVolumeClaim.Template
	const field = "spec.destination.persistentVolumeClaim.template"
	switch {
	case template == nil:
		return nil
	case spec.Destination.ObjectStore != nil:
		return &policy.InvalidError{Field: field, Fix: "is of a claim; remove it, or objectStore"}
	case template.Size == nil && spec.Source.ObjectStore != nil:
		return &policy.InvalidError{
			Field: field + ".size", Fix: "must be given with an objectStore as source, which has no capacity",
		}
	case template.Size == nil && inflates(spec):
		return &policy.InvalidError{
			Field: field + ".size", Fix: "must be given with source.form: files take more space than where they rest compressed",
		}
	case template.Size != nil && (template.Size.Value() < minTemplateSize || template.Size.Value() > maxTemplateSize):
		return &policy.InvalidError{
			Field: field + ".size", Fix: fmt.Sprintf("must be between 1Mi and 1Pi, not %s", template.Size),
		}
	case template.HeadroomPercent != nil && (*template.HeadroomPercent < 0 || *template.HeadroomPercent > maxHeadroom):
		return &policy.InvalidError{
			Field: field + ".headroomPercent", Fix: fmt.Sprintf("must be between 0 and %d", maxHeadroom),
		}
	}
	return nil
}
