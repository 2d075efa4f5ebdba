// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentjob makes, finds and removes what an attempt consists of in a cluster: a Job, its pod, and a Secret with
// the agent's configuration and certificate.
package agentjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/networkpolicy"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/refusal"
)

// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;update;delete

// Options of NewCluster.
type Options struct {
	// Client reads Jobs and pods (from a cache, as a rule) and writes. Secrets are written and never read.
	Client client.Client
	// Reader reads past any cache. Start asks it, because a second start of an attempt would take the Secret from under
	// its agent.
	Reader client.Reader
	// Authority issues the agents' certificates.
	Authority *pki.Authority
	// Lifetime of the agents' certificates.
	Lifetime time.Duration
	// Networks writes the NetworkPolicy of an owner's attempts; nil: they have none.
	Networks *networkpolicy.Keeper
}

// Cluster is where attempts live. Every method is idempotent.
type Cluster struct {
	options   Options
	deletions Deletions
}

// NewCluster returns a Cluster.
func NewCluster(o Options) *Cluster {
	return &Cluster{options: o}
}

// Find returns the owner's Job of that name and the newest of its pods; either is nil when there is none. Labels alone
// make nothing the owner's: whoever may create pods could have them report what they like.
func (c *Cluster) Find(ctx context.Context, owner client.Object, name string) (*batchv1.Job, *corev1.Pod, error) {
	namespace := owner.GetNamespace()
	job := &batchv1.Job{}
	err := c.options.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading Job %s/%s: %w", namespace, name, err)
	}
	if job.DeletionTimestamp != nil || !metav1.IsControlledBy(job, owner) {
		return nil, nil, nil
	}
	pods := &corev1.PodList{}
	if err := c.options.Client.List(ctx, pods, client.InNamespace(namespace), ownedBy(owner)); err != nil {
		return nil, nil, fmt.Errorf("listing the pods of Job %s/%s: %w", namespace, name, err)
	}
	var newest *corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		if metav1.IsControlledBy(pod, job) && (newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			newest = pod
		}
	}
	return job, newest, nil
}

// Start makes the Secret and the Job of an attempt where they do not exist yet. An agent with several receivers has a
// certificate for each. The problem is what the API server, a
// Job of somebody else or a Peer's caBundle has against it: trying again at once would meet it again.
func (c *Cluster) Start(
	ctx context.Context, owner client.Object, a *attempt.Attempt, wanted ...Certificate,
) (*agentpod.Problem, error) {
	job := a.Job()
	present := &batchv1.Job{}
	err := c.options.Reader.Get(ctx, client.ObjectKeyFromObject(job), present)
	if err == nil {
		return foreign(present, owner), nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	if problem, err := c.ensureNetwork(ctx, owner, a); problem != nil || err != nil {
		return problem, err
	}
	issued, err := c.issue(ctx, wanted...)
	if errors.Is(err, pki.ErrInvalidBundle) {
		return &agentpod.Problem{Reason: v1alpha1.ReasonInvalidCABundle, Message: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	if issued.Config, err = a.Config(); err != nil {
		return nil, err
	}
	if a.NeedsArchiveKey() {
		if issued.ArchiveKey, err = c.options.Authority.ArchiveKey(ctx, owner.GetUID()); err != nil {
			return nil, err
		}
	}
	secret := a.Secret(issued)
	if err := c.writeSecret(ctx, secret); err != nil {
		return rejection("Secret", owner, err)
	}
	err = c.options.Client.Create(ctx, job, client.FieldOwner(conditions.FieldOwner))
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil, nil
	}
	problem, err := rejection("Job", owner, fmt.Errorf("creating Job %s/%s: %w", job.Namespace, job.Name, err))
	if problem != nil {
		// Nobody will use the key.
		err = c.RemoveSecret(ctx, owner, job.Name)
	}
	return problem, err
}

// Replace has the owner's one attempt be the wanted one: it removes the other Jobs of the owner, which have its UID in
// that label, and starts it. It does nothing when none is wanted.
func (c *Cluster) Replace(
	ctx context.Context, owner client.Object, label string, a *attempt.Attempt, wanted Certificate,
) (*agentpod.Problem, error) {
	if a == nil {
		return nil, nil
	}
	if err := c.Retire(ctx, owner, label, a.Name()); err != nil {
		return nil, err
	}
	return c.Start(ctx, owner, a, wanted)
}

// foreign is the problem with a Job that somebody else has made under the name of an attempt; nil if it is the owner's.
func foreign(job *batchv1.Job, owner client.Object) *agentpod.Problem {
	if metav1.IsControlledBy(job, owner) {
		return nil
	}
	return &agentpod.Problem{Reason: v1alpha1.ReasonAgentNotStarted, Message: fmt.Sprintf(
		"Job %q in namespace %q has the name of the agent's Job and was made by somebody else; delete it", job.Name,
		job.Namespace)}
}

// rejection turns the API server's refusal of what was to be created into a problem, and leaves other errors as they
// are. The text is for people of this cluster: plan.RefuseDelivery keeps it from the sender.
func rejection(kind string, owner client.Object, err error) (*agentpod.Problem, error) {
	words, final := refusal.Final(err)
	if !final {
		return nil, err
	}
	change := "spec.podTemplate, or the quota or policy that it names"
	switch owner.(type) {
	case *v1alpha1.Delivery, *v1alpha1.ObjectStore:
		change = "the quota or policy that it names"
	}
	return &agentpod.Problem{Reason: v1alpha1.ReasonAgentNotStarted, Message: fmt.Sprintf(
		"the API server of this cluster rejects the agent's %s in namespace %q; change %s: %s",
		kind, owner.GetNamespace(), change, words)}, nil
}

// writeSecret overwrites what an interrupted start may have left: there is no Job, so nobody uses it. The manager may
// not read Secrets in users' namespaces, so it cannot ask whose the Secret is: attempt.SecretName is what keeps it
// from being somebody else's.
func (c *Cluster) writeSecret(ctx context.Context, secret *corev1.Secret) error {
	err := c.options.Client.Create(ctx, secret.DeepCopy(), client.FieldOwner(conditions.FieldOwner))
	if apierrors.IsAlreadyExists(err) {
		err = c.options.Client.Update(ctx, secret, client.FieldOwner(conditions.FieldOwner))
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// RemoveSecret removes the Secret that was made for a Job of the owner's.
func (c *Cluster) RemoveSecret(ctx context.Context, owner client.Object, job string) error {
	namespace, name := owner.GetNamespace(), attempt.SecretName(job, owner)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.options.Client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Secret %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Retire removes the owner's Jobs, which have its UID in that label, and their Secrets, but not those named keep. Pods
// end in the background.
func (c *Cluster) Retire(ctx context.Context, owner client.Object, label string, keep ...string) error {
	namespace := owner.GetNamespace()
	jobs := &batchv1.JobList{}
	err := c.options.Client.List(
		ctx, jobs, client.InNamespace(namespace), ownedBy(owner), client.MatchingLabels{label: string(owner.GetUID())},
	)
	if err != nil {
		return fmt.Errorf("listing Jobs in %s: %w", namespace, err)
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		// An owner reference can be forged like a label.
		if slices.Contains(keep, job.Name) || !metav1.IsControlledBy(job, owner) || !attempt.IsName(owner.GetName(), job.Name) {
			continue
		}
		err := c.options.Client.Delete(
			ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID},
		)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Job %s/%s: %w", namespace, job.Name, err)
		}
		if err := c.RemoveSecret(ctx, owner, job.Name); err != nil {
			return err
		}
	}
	return nil
}

func ownedBy(owner client.Object) client.MatchingFields {
	return client.MatchingFields{index.Owner: string(owner.GetUID())}
}

// PodsLeft reports whether pods of the owner's Jobs, with its UID in that label, still run, or may. The Jobs may be
// gone already.
func (c *Cluster) PodsLeft(ctx context.Context, owner client.Object, label string) (bool, error) {
	namespace := owner.GetNamespace()
	pods := &corev1.PodList{}
	err := c.options.Client.List(
		ctx, pods, client.InNamespace(namespace), ownedBy(owner), client.MatchingLabels{label: string(owner.GetUID())},
	)
	if err != nil {
		return false, fmt.Errorf("listing pods in %s: %w", namespace, err)
	}
	for i := range pods.Items {
		job := metav1.GetControllerOf(&pods.Items[i])
		if job == nil || job.Kind != "Job" || !attempt.IsName(owner.GetName(), job.Name) {
			continue
		}
		if phase := pods.Items[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			return true, nil
		}
	}
	return false, nil
}

// writerPatience is how long a pod that is being deleted counts as a writer: one whose node is gone never ends.
const writerPatience = 2 * time.Minute

// Abandoned reports whether a pod that is being deleted counts no more. It is by when that was asked first.
func (c *Cluster) Abandoned(pod types.UID, now time.Time) bool {
	return c.deletions.Since(pod, now) > writerPatience
}

// Writers returns the names of the Jobs whose pods hold both claims of a Transfer and may still write.
func (c *Cluster) Writers(ctx context.Context, transfer *v1alpha1.Transfer, now time.Time) ([]string, error) {
	pods := &corev1.PodList{}
	err := c.options.Client.List(ctx, pods, client.InNamespace(transfer.Namespace),
		ownedBy(transfer),
		client.MatchingLabels{v1alpha1.TransferLabel: string(transfer.UID), agentpod.ComponentLabel: attempt.LocalMode})
	if err != nil {
		return nil, fmt.Errorf("listing pods in %s: %w", transfer.Namespace, err)
	}
	var jobs []string
	for i := range pods.Items {
		pod := &pods.Items[i]
		job := metav1.GetControllerOf(pod)
		if job == nil || job.Kind != "Job" || !attempt.IsName(transfer.Name, job.Name) ||
			pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed ||
			pod.DeletionTimestamp != nil && c.Abandoned(pod.UID, now) {
			continue
		}
		jobs = append(jobs, job.Name)
	}
	return jobs, nil
}
