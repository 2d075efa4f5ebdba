// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/topology"
	"github.com/lighterage/lighterage/controllers/wake"
)

const (
	// ComponentLabel with the value NodeAgent is on the pods of the node agent.
	ComponentLabel = "app.kubernetes.io/component"
	// NodeAgent is the value of ComponentLabel.
	NodeAgent = "node-agent"
	// ControlPort is the port on which node agents answer.
	ControlPort = 9443

	// retryFirst is the shortest wait for the end of trust.
	retryFirst = 2 * time.Second
	// trust is for how long the last figures of an agent that does not answer say where agents are placed. After that
	// the node counts as one without an accelerator: what ended the agent may end others.
	trust = 10 * time.Minute
	// implausibleInterval is how often what cannot be is looked at again.
	implausibleInterval = 5 * time.Minute
	// workers is how many nodes are looked at at the same time.
	workers = 4
)

// Options of Setup.
type Options struct {
	// Profiles are what node agents measured.
	Profiles agentpoll.Poller[*wirev1.NodeMeasurement]
	// Namespace of the operator, where the node agents run.
	Namespace string
	// Slots is how many agents may be placed on a node for its accelerator; 0: any number. Takes the right to patch
	// nodes/status.
	Slots int64
	// Use is what agents say of accelerators; nil: NodeProfiles do not show it. Metrics of it; nil: there are none.
	Use     *Use
	Metrics *metrics.Nodes
	// Paths are what runs say of paths; nil: NodeProfiles do not show it.
	Paths *Paths
	// Recorder of events; none are recorded without one.
	Recorder events.EventRecorder
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// The right to patch Nodes is in a role of its own, which is there with the node agents and not without them.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=nodeprofiles,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=lighterage.dev,resources=nodeprofiles/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Profiles has node agents asked what they measured.
func Profiles(pool *agentpoll.Pool, agents agentclient.Agents) agentpoll.Poller[*wirev1.NodeMeasurement] {
	return agentpoll.NewPoller(pool, agentpoll.Question[*wirev1.NodeMeasurement]{
		Name: "node", Class: agentpoll.Nodes, Ask: agents.Profile,
		News: func(before, after *wirev1.NodeMeasurement) bool {
			return !proto.Equal(lasting(before), lasting(after))
		},
	})
}

// lasting is what does not change with every answer.
func lasting(measured *wirev1.NodeMeasurement) *wirev1.NodeMeasurement {
	if measured == nil {
		return nil
	}
	measured = proto.CloneOf(measured)
	if use := measured.GetAcceleratorUse(); use != nil {
		measured.AcceleratorUse = &wirev1.AcceleratorUse{CountersReason: use.GetCountersReason()}
	}
	return measured
}

// Setup adds the controller to the manager. Its requests carry names of nodes, which those of NodeProfiles are too.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(mgr.GetClient(), o)
	isAgent := predicate.NewPredicateFuncs(func(pod client.Object) bool {
		return pod.GetNamespace() == o.Namespace && pod.GetLabels()[ComponentLabel] == NodeAgent
	})
	controller := ctrl.NewControllerManagedBy(mgr).Named("nodeprofile").
		For(&v1alpha1.NodeProfile{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(nodeOfPod), builder.WithPredicates(isAgent)).
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(topology.NodeChanged())).
		WatchesRawSource(o.Profiles.Source()).
		WithOptions(refusal.ControllerOptions(workers))
	if o.Paths != nil {
		controller.WatchesRawSource(o.Paths.source())
	}
	return controller.Complete(wake.Again(r))
}

// Reconciler is made by NewReconciler.
type Reconciler struct {
	client  client.Client
	options Options

	mu      sync.Mutex
	windows map[string]*window // by node
}

// NewReconciler returns the reconciler of the controller.
func NewReconciler(c client.Client, o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{client: c, options: o, windows: map[string]*window{}}
}

// Reconcile is of reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	if err := r.client.Get(ctx, request.NamespacedName, node); err != nil {
		if apierrors.IsNotFound(err) {
			r.options.Profiles.Forget(request.NamespacedName)
			r.forgetUse(request.Name)
			if r.options.Paths != nil {
				r.options.Paths.take(request.Name)
			}
		}
		return ctrl.Result{}, client.IgnoreNotFound(err) // the profile goes with its owner
	}
	pod, err := r.agentOn(ctx, node.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	profile, err := r.ensureProfile(ctx, node, pod != nil)
	if profile == nil || err != nil {
		if r.options.Paths != nil && err == nil {
			r.options.Paths.take(request.Name)
		}
		return ctrl.Result{}, err
	}
	said := r.listen(request.NamespacedName, pod)
	if pod != nil && runs(pod) && (!said.Asked || said.Report == nil && !said.Silent && measuredBefore(profile)) {
		// This wakes when it has been asked, answers or has been silent for long. Meanwhile what is known stays: a manager
		// that has just started knows less than status does.
		return ctrl.Result{}, nil
	}
	before := profile.DeepCopy()
	now := r.options.Clock.Now()
	wanted, label := r.measure(node, profile, pod, said)
	if label != "" {
		err := r.ensureLabel(ctx, node, label)
		if err != nil && !apierrors.IsForbidden(err) {
			return ctrl.Result{}, err
		}
		if has := node.Labels[v1alpha1.DeflateLabel]; err != nil && has != "" {
			wanted = conditions.Stalled(v1alpha1.ReasonRefused, fmt.Sprintf("%s. But the node keeps label %s=%s, because the "+
				"manager may not change it: the right comes with the node agents (nodeAgent.enabled of the chart); without them "+
				"remove it by kubectl label node %s %s-",
				wanted[0].Message, v1alpha1.DeflateLabel, has, node.Name, v1alpha1.DeflateLabel))
		}
	}
	if err := r.ensureSlots(ctx, node, cmp.Or(label, node.Labels[v1alpha1.DeflateLabel])); err != nil {
		return ctrl.Result{}, err
	}
	announced := confirmed(node, profile, label)
	if announced != nil {
		wanted = append(wanted, *announced)
	} else {
		meta.RemoveStatusCondition(&profile.Status.Conditions, v1alpha1.ConditionFeatureConfirmed)
	}
	again, err := r.use(ctx, profile, said.Report.GetAcceleratorUse(), now)
	if err != nil {
		return ctrl.Result{}, err
	}
	if r.options.Paths != nil && !equality.Semantic.DeepEqual(before.Status.LastChange, profile.Status.LastChange) {
		r.options.Paths.take(request.Name) // It is of the node as it was.
	}
	again = sooner(again, r.paths(profile, node.Status.Capacity.Cpu().Value(), now))
	profile.Status.Conditions = conditions.Merge(profile.Status.Conditions, wanted, profile.Generation, now)
	profile.Status.ObservedGeneration = profile.Generation
	wrote, err := conditions.WriteStatus(ctx, r.client, before, profile)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wrote {
		log.FromContext(ctx).Info("NodeProfile changed", "reason", wanted[0].Reason, "message", wanted[0].Message)
		r.tell(node, before, profile)
	}
	return ctrl.Result{RequeueAfter: sooner(pause(profile, label, now), again)}, nil
}

// sooner of two pauses, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// told are the conditions of which an event tells when they turn False, or do so for another reason.
var told = []string{v1alpha1.ConditionFeatureConfirmed, v1alpha1.ConditionReady}

// tell records what an operator should know of, on the Node too.
func (r *Reconciler) tell(node *corev1.Node, before, after *v1alpha1.NodeProfile) {
	if r.options.Recorder == nil {
		return
	}
	for _, conditionType := range told {
		is := meta.FindStatusCondition(after.Status.Conditions, conditionType)
		was := meta.FindStatusCondition(before.Status.Conditions, conditionType)
		if is == nil || is.Status != metav1.ConditionFalse ||
			was != nil && was.Status == is.Status && was.Reason == is.Reason {
			continue
		}
		if was == nil && is.Reason == v1alpha1.ReasonNodeAgentUnreachable {
			continue // it has only just been started
		}
		r.options.Recorder.Eventf(after, node, corev1.EventTypeWarning, is.Reason, "Measure", "%s", is.Message)
	}
}

// measuredBefore reports whether figures are in force.
func measuredBefore(profile *v1alpha1.NodeProfile) bool {
	return meta.IsStatusConditionTrue(profile.Status.Conditions, v1alpha1.ConditionReady)
}

// listen returns what is known of the agent of a pod, which may be nil, and has no other agent of the node asked.
func (r *Reconciler) listen(node types.NamespacedName, pod *corev1.Pod) agentpoll.Observation[*wirev1.NodeMeasurement] {
	if pod == nil || !runs(pod) {
		r.options.Profiles.Forget(node)
		return agentpoll.Observation[*wirev1.NodeMeasurement]{}
	}
	return r.options.Profiles.Observe(node, agentpoll.Target{Pod: pod.UID, Target: agentclient.Target{
		Address:    net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(ControlPort)),
		ServerName: pki.NodeAgentServerName,
	}}).Agents[0]
}

// measure returns the conditions and, if it is known, the value of the node's label, by what the agent said.
func (r *Reconciler) measure(
	node *corev1.Node, profile *v1alpha1.NodeProfile, pod *corev1.Pod, said agentpoll.Observation[*wirev1.NodeMeasurement],
) ([]metav1.Condition, string) {
	switch {
	case pod == nil:
		return r.distrust(
			profile,
			"No node agent is on this node; if there should be one, see nodeAgent.tolerations and nodeAgent.nodeSelector of "+
				"the chart",
		)
	case !runs(pod):
		return r.distrust(profile, ailment(pod))
	}
	if said.Report == nil || said.Silent {
		return r.distrust(profile, fmt.Sprintf("Node agent %s gives no figures (%v); while it starts that is so, later "+
			"kubectl -n %s describe pod %s, and its log, may say why", pod.Name, said.Err, pod.Namespace, pod.Name))
	}
	measured := agentreport.Bounded(said.Report)
	now := r.options.Clock.Now()
	if lie := implausible(measured, node.Status.NodeInfo.Architecture, now); lie != "" {
		return conditions.Stalled(v1alpha1.ReasonImplausibleMeasurement, fmt.Sprintf("Node agent %s reports what cannot "+
			"be: %s. Agents are placed as on a node without an accelerator; is the agent's image the manager's, and its node "+
			"sound?", pod.Name, lie)), placement.Software
	}
	setMeasurement(&profile.Status, measured, imageOf(pod), now)
	return conditions.Ready(v1alpha1.ReasonMeasured, "The node agent has measured"), deflate(measured)
}

// distrust is what follows when the agent does not answer: for a while the last figures count. That they do not any
// more is another reason, so that an event tells of it.
func (r *Reconciler) distrust(profile *v1alpha1.NodeProfile, message string) ([]metav1.Condition, string) {
	ready := meta.FindStatusCondition(profile.Status.Conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.Status == metav1.ConditionFalse &&
		r.options.Clock.Now().Sub(ready.LastTransitionTime.Time) >= trust {
		return conditions.Stalled(v1alpha1.ReasonNodeAgentSilent, fmt.Sprintf("%s. There were no figures to go by for %.0f "+
			"minutes or longer, so agents are placed as on a node without an accelerator", message,
			trust.Minutes())), placement.Software
	}
	if profile.Status.MeasuredTime != nil {
		message += "; the figures are the last known"
	}
	return conditions.Reconciling(v1alpha1.ReasonNodeAgentUnreachable, message), ""
}

// imageOf is what the agent's pod runs.
func imageOf(pod *corev1.Pod) string {
	if len(pod.Spec.Containers) == 0 {
		return ""
	}
	return cut(pod.Spec.Containers[0].Image, maxMessage)
}

// ensureProfile returns the node's profile, which it makes if an agent is there to fill it, or should be. It is nil if
// there is none.
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

// formerDeflateLabel is what v1alpha1.DeflateLabel was. Kubelets may set it, so nothing reads it; it is removed.
const formerDeflateLabel = "lighterage.dev/deflate"

// ensureLabel is idempotent.
func (r *Reconciler) ensureLabel(ctx context.Context, node *corev1.Node, value string) error {
	if _, former := node.Labels[formerDeflateLabel]; node.Labels[v1alpha1.DeflateLabel] == value && !former {
		return nil
	}
	labelled := node.DeepCopy()
	if labelled.Labels == nil {
		labelled.Labels = map[string]string{}
	}
	labelled.Labels[v1alpha1.DeflateLabel] = value
	delete(labelled.Labels, formerDeflateLabel)
	if err := r.client.Patch(ctx, labelled, client.MergeFrom(node), client.FieldOwner(conditions.FieldOwner)); err != nil {
		return fmt.Errorf("labelling Node %s: %w", node.Name, err)
	}
	return nil
}

// ensureSlots has a node with an accelerator advertise its slots, and any other none. It is idempotent. The kubelet
// makes them allocatable.
func (r *Reconciler) ensureSlots(ctx context.Context, node *corev1.Node, label string) error {
	if r.options.Slots == 0 {
		return nil
	}
	present, advertised := node.Status.Capacity[v1alpha1.AcceleratorSlotsResource]
	wanted := label == placement.Hardware
	if wanted == advertised && (!wanted || present.Value() == r.options.Slots) {
		return nil
	}
	changed := node.DeepCopy()
	if wanted {
		if changed.Status.Capacity == nil {
			changed.Status.Capacity = corev1.ResourceList{}
		}
		changed.Status.Capacity[v1alpha1.AcceleratorSlotsResource] = *resource.NewQuantity(
			r.options.Slots, resource.DecimalSI,
		)
	} else {
		delete(changed.Status.Capacity, v1alpha1.AcceleratorSlotsResource)
		delete(changed.Status.Allocatable, v1alpha1.AcceleratorSlotsResource)
	}
	if err := r.client.Status().Patch(
		ctx, changed, client.MergeFrom(node), client.FieldOwner(conditions.FieldOwner),
	); err != nil {
		return fmt.Errorf("advertising slots of the accelerator of Node %s: %w", node.Name, err)
	}
	return nil
}

// pause is how long until an agent that does not answer is not trusted any more, or until what one said that cannot be
// may be, as when only its clock is ahead; 0 when it has to do something first.
func pause(profile *v1alpha1.NodeProfile, label string, now time.Time) time.Duration {
	ready := meta.FindStatusCondition(profile.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready.Reason == v1alpha1.ReasonImplausibleMeasurement:
		return implausibleInterval
	case label != "":
		return 0
	}
	return max(trust-now.Sub(ready.LastTransitionTime.Time), retryFirst)
}
