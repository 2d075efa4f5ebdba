// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	// ComponentLabel with the value NodeAgent is on the pods of the node agent.
	ComponentLabel = "app.kubernetes.io/component"
	// NodeAgent is the value of ComponentLabel.
	NodeAgent = "node-agent"
	// ControlPort is the port on which node agents answer.
	ControlPort = 9443

	// readyInterval is how often an agent that answers is asked again.
	readyInterval = 5 * time.Minute
	// retryFirst and retryMost bound the pause after an agent that does not. In between it is as long as the agent has been away.
	retryFirst, retryMost = 2 * time.Second, time.Minute
	// conflictPause gives the cache time to catch up.
	conflictPause = 200 * time.Millisecond
	// workers is how many agents are asked at the same time.
	workers = 4
)

// Options of Setup.
type Options struct {
	// Agents of this cluster.
	Agents agentclient.Agents
	// Namespace of the operator, where the node agents run.
	Namespace string
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=nodeprofiles,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=lighterage.dev,resources=nodeprofiles/status,verbs=patch

// Setup adds the controller to the manager. Its requests carry names of nodes, which those of NodeProfiles are too.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(mgr.GetClient(), o)
	isAgent := predicate.NewPredicateFuncs(func(pod client.Object) bool {
		return pod.GetNamespace() == o.Namespace && pod.GetLabels()[ComponentLabel] == NodeAgent
	})
	return ctrl.NewControllerManagedBy(mgr).Named("nodeprofile").
		For(&v1alpha1.NodeProfile{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(nodeOfPod), builder.WithPredicates(isAgent)).
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Reconciler is made by NewReconciler.
type Reconciler struct {
	client  client.Client
	options Options
}

// NewReconciler returns the reconciler of the controller.
func NewReconciler(c client.Client, o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{client: c, options: o}
}

// Reconcile is of reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	if err := r.client.Get(ctx, request.NamespacedName, node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // the profile goes with its owner
	}
	pod, err := r.agentOn(ctx, node.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	profile, err := r.ensureProfile(ctx, node, pod != nil)
	if profile == nil || err != nil {
		return ctrl.Result{}, err
	}
	before := profile.DeepCopy()
	wanted, label := r.measure(ctx, profile, pod)
	if label != "" {
		if err := r.ensureLabel(ctx, node, label); err != nil {
			return ctrl.Result{}, err
		}
	}
	now := r.options.Clock.Now()
	profile.Status.Conditions = conditions.Merge(profile.Status.Conditions, wanted, profile.Generation, now)
	profile.Status.ObservedGeneration = profile.Generation
	wrote, err := conditions.WriteStatus(ctx, r.client, before, profile)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if wrote {
		log.FromContext(ctx).Info("NodeProfile changed", "reason", wanted[0].Reason, "message", wanted[0].Message)
	}
	return ctrl.Result{RequeueAfter: pause(profile, pod, now)}, nil
}

// measure asks the agent, and returns the conditions and, if the agent answered, the value of the node's label.
func (r *Reconciler) measure(ctx context.Context, profile *v1alpha1.NodeProfile, pod *corev1.Pod) ([]metav1.Condition, string) {
	if pod == nil {
		return conditions.Reconciling(v1alpha1.ReasonNodeAgentUnreachable, "No node agent is ready on this node; the figures are the last known"), ""
	}
	measured, err := r.options.Agents.Profile(ctx, agentclient.Target{
		Address:    net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(ControlPort)),
		ServerName: pki.NodeAgentServerName,
	})
	if err != nil {
		return conditions.Reconciling(v1alpha1.ReasonNodeAgentUnreachable,
			fmt.Sprintf("Node agent %s has no figures to give yet; those here are the last known: %v", pod.Name, err)), ""
	}
	setMeasurement(&profile.Status, measured)
	return conditions.Ready(v1alpha1.ReasonMeasured, "The node agent has measured"), deflate(measured)
}

// agentOn returns the newest node agent on the node that can be asked, or nil.
func (r *Reconciler) agentOn(ctx context.Context, node string) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(r.options.Namespace), client.MatchingLabels{ComponentLabel: NodeAgent}); err != nil {
		return nil, fmt.Errorf("listing node agents: %w", err)
	}
	var newest *corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != node || pod.Status.PodIP == "" || pod.Status.Phase != corev1.PodRunning || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		if newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp) {
			newest = pod
		}
	}
	return newest, nil
}

// ensureProfile returns the node's profile, which it makes if an agent is there to fill it. It is nil if there is none.
func (r *Reconciler) ensureProfile(ctx context.Context, node *corev1.Node, create bool) (*v1alpha1.NodeProfile, error) {
	profile := &v1alpha1.NodeProfile{}
	err := r.client.Get(ctx, client.ObjectKey{Name: node.Name}, profile)
	if err == nil {
		return profile, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading NodeProfile %s: %w", node.Name, err)
	}
	if !create {
		return nil, nil
	}
	profile = &v1alpha1.NodeProfile{ObjectMeta: metav1.ObjectMeta{
		Name:            node.Name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
	}}
	err = r.client.Create(ctx, profile, client.FieldOwner(conditions.FieldOwner))
	if apierrors.IsAlreadyExists(err) {
		return nil, nil // it will come as an event
	}
	if err != nil {
		return nil, fmt.Errorf("creating NodeProfile %s: %w", node.Name, err)
	}
	return profile, nil
}

// ensureLabel is idempotent.
func (r *Reconciler) ensureLabel(ctx context.Context, node *corev1.Node, value string) error {
	if node.Labels[v1alpha1.DeflateLabel] == value {
		return nil
	}
	labelled := node.DeepCopy()
	if labelled.Labels == nil {
		labelled.Labels = map[string]string{}
	}
	labelled.Labels[v1alpha1.DeflateLabel] = value
	if err := r.client.Patch(ctx, labelled, client.MergeFrom(node), client.FieldOwner(conditions.FieldOwner)); err != nil {
		return fmt.Errorf("labelling Node %s: %w", node.Name, err)
	}
	return nil
}

// pause is how long until the agent is asked again; without an agent, until there is an event.
func pause(profile *v1alpha1.NodeProfile, pod *corev1.Pod, now time.Time) time.Duration {
	ready := meta.FindStatusCondition(profile.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case pod == nil:
		return 0
	case ready.Status == metav1.ConditionTrue:
		return readyInterval
	default:
		return min(max(now.Sub(ready.LastTransitionTime.Time), retryFirst), retryMost)
	}
}

// nodeOfPod is the node that a pod was placed on.
func nodeOfPod(_ context.Context, object client.Object) []reconcile.Request {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: pod.Spec.NodeName}}}
}
