// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package owned makes the objects to be of which something that runs all the time consists, such as an HTTPEndpoint or
// a Queue.
package owned

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/refusal"
)

// digestAnnotation is a digest of what an object was made as.
const digestAnnotation = "lighterage.dev/digest"

// Writer makes objects that belong to objects of one kind. It is safe for concurrent use.
type Writer struct {
	// Client reads from the manager's cache and writes; Reader reads past the cache.
	Client client.Client
	Reader client.Reader
	// Kind of the owners.
	Kind string
}

// Ensure makes one object to be what is wanted, without touching what others set of it. It is idempotent, and writes
// nothing when there is nothing to change. The problem is what the API server, or somebody else's object of that name,
// has against it.
func (w Writer) Ensure(
	ctx context.Context, owner client.Object, wanted client.Object,
) (client.Object, *agentpod.Problem, error) {
	mark, err := digest(wanted)
	if err != nil {
		return nil, nil, err
	}
	annotations := map[string]string{digestAnnotation: mark}
	maps.Copy(annotations, wanted.GetAnnotations())
	wanted.SetAnnotations(annotations)
	present, err := w.present(ctx, wanted)
	if err != nil {
		return nil, nil, err
	}
	if present != nil && !metav1.IsControlledBy(present, owner) {
		name := wanted.GetObjectKind().GroupVersionKind().Kind
		return nil, &agentpod.Problem{
			Reason: v1alpha1.ReasonNameConflict,
			Message: fmt.Sprintf("%s %q in namespace %q has the "+
				"name that this %s needs, and belongs to somebody else; delete it, or delete this %s and create one with another "+
				"name",
				name, wanted.GetName(), wanted.GetNamespace(), w.Kind, w.Kind),
		}, nil
	}
	if present != nil && matches(wanted, present, mark) &&
		equality.Semantic.DeepDerivative(annotations, present.GetAnnotations()) {
		return present, nil, nil
	}
	after, err := w.apply(ctx, wanted, present != nil)
	if err != nil {
		problem, err := Refusal(wanted, err)
		return nil, problem, err
	}
	return after, nil, nil
}

// Current reports whether an object is what is wanted already, annotations excepted, so that Ensure would not change
// what it does.
func Current(wanted, present client.Object) (bool, error) {
	mark, err := digest(wanted)
	return err == nil && matches(wanted, present, mark), err
}

func matches(wanted, present client.Object, mark string) bool {
	return present.GetAnnotations()[digestAnnotation] == mark &&
		equality.Semantic.DeepDerivative(specOf(wanted), specOf(present)) &&
		equality.Semantic.DeepDerivative(wanted.GetLabels(), present.GetLabels())
}

// present is the object as it is; nil when there is none. The cache knows only what bears the operator's labels, so
// what it does not have is looked for at the API server.
func (w Writer) present(ctx context.Context, wanted client.Object) (client.Object, error) {
	key := client.ObjectKeyFromObject(wanted)
	for _, reader := range []client.Reader{w.Client, w.Reader} {
		empty, err := w.Client.Scheme().New(wanted.GetObjectKind().GroupVersionKind())
		if err != nil {
			return nil, fmt.Errorf("making a %T: %w", wanted, err)
		}
		object, ok := empty.(client.Object)
		if !ok {
			return nil, fmt.Errorf("making a %T: it is no object", wanted)
		}
		err = reader.Get(ctx, key, object)
		if err == nil {
			return object, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading %T %s: %w", wanted, key, err)
		}
	}
	return nil, nil
}

// apply writes by server-side apply. What is ours already is taken back where somebody changed it; what is not there
// yet is not taken from who creates it at this moment.
func (w Writer) apply(ctx context.Context, wanted client.Object, ours bool) (client.Object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", wanted, err)
	}
	applied := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(applied.Object, "status")
	unstructured.RemoveNestedField(applied.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(applied.Object, "spec", "template", "metadata", "creationTimestamp")
	withoutStatusOfClaims(applied.Object)
	options := []client.ApplyOption{client.FieldOwner(conditions.FieldOwner)}
	if ours {
		options = append(options, client.ForceOwnership)
	}
	if err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), options...); err != nil {
		return nil, fmt.Errorf("applying %T %s: %w", wanted, client.ObjectKeyFromObject(wanted), err)
	}
	after, ok := wanted.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("copying %T", wanted)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, after); err != nil {
		return nil, fmt.Errorf("decoding %T: %w", wanted, err)
	}
	return after, nil
}

// withoutStatusOfClaims takes what the API server would own out of the templates of claims.
func withoutStatusOfClaims(object map[string]any) {
	templates, _, _ := unstructured.NestedSlice(object, "spec", "volumeClaimTemplates")
	if len(templates) == 0 {
		return
	}
	for i := range templates {
		if claim, ok := templates[i].(map[string]any); ok {
			delete(claim, "status")
			unstructured.RemoveNestedField(claim, "metadata", "creationTimestamp")
		}
	}
	// It was a slice before, so it can be one again.
	_ = unstructured.SetNestedSlice(object, templates, "spec", "volumeClaimTemplates")
}

// specOf is what of an object is compared.
func specOf(object client.Object) any {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return o.Spec
	case *appsv1.StatefulSet:
		// Objects within objects lose their type on the way from the API server.
		spec := o.Spec.DeepCopy()
		for i := range spec.VolumeClaimTemplates {
			spec.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{}
		}
		return *spec
	case *corev1.Service:
		return o.Spec
	case *corev1.ConfigMap:
		return o.Data
	case *policyv1.PodDisruptionBudget:
		return o.Spec
	case *networkingv1.NetworkPolicy:
		return o.Spec
	case *autoscalingv2.HorizontalPodAutoscaler:
		return o.Spec
	}
	return nil
}

// Refusal turns the API server's refusal into a problem, and leaves other errors as they are.
func Refusal(object client.Object, err error) (*agentpod.Problem, error) {
	words, final := refusal.Final(err)
	if !final {
		return nil, err
	}
	return &agentpod.Problem{Reason: v1alpha1.ReasonRefused, Message: fmt.Sprintf("the API server refuses %s %q in "+
		"namespace %q; change the spec, or the quota or policy that it names: %s",
		object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), object.GetNamespace(), words)}, nil
}

// Persistent turns an error into a problem when the API server has rejected what the owner needs for some time, and
// leaves others as they are. It is to be called with what became of every try, nil for success.
func Persistent(streaks *refusal.Streaks, owner client.Object, err error, now time.Time) (*agentpod.Problem, error) {
	if !streaks.Persists(client.ObjectKeyFromObject(owner), err, now) {
		return nil, err
	}
	return &agentpod.Problem{
		Reason:  v1alpha1.ReasonRefused,
		Message: fmt.Sprintf("the API server rejects what is needed, which is tried again: %v", err),
	}, nil
}

// digest of what an object is to be, without what others may change, and without annotations.
func digest(object client.Object) (string, error) {
	copied, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return "", fmt.Errorf("copying %T", object)
	}
	copied.SetResourceVersion("")
	copied.SetAnnotations(nil)
	if deployment, ok := copied.(*appsv1.Deployment); ok {
		deployment.Spec.Replicas = nil
	}
	encoded, err := json.Marshal(copied)
	if err != nil {
		return "", fmt.Errorf("encoding %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8]), nil
}
