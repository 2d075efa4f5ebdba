// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/quota/line"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=dataquotas,verbs=get;list;watch

// newLine is that of Queues.
func (r *Reconciler) newLine() *line.Line[*v1alpha1.Queue] {
	return &line.Line[*v1alpha1.Queue]{
		Client: r.Client, Reader: r.Reader, List: queues, Holds: quota.QueueHolds, Waits: quota.QueueWaits,
	}
}

// decide has the namespace's quotas admit the storage that a Queue asks for. written is to be called as line.Line says
// when the status that was decided is written, or is not going to be.
func (r *Reconciler) decide(
	ctx context.Context, queue *v1alpha1.Queue, in inputs,
) (d decision, written func(error), err error) {
	now, written := r.Clock.Now().Truncate(time.Second), func(error) {}
	if d, err = decide(queue, in, r.Image, now, nil); err != nil || d.ask == nil {
		return d, written, err
	}
	quotas, err := lookup.DataQuotas(ctx, r.Client, queue.Namespace)
	if err != nil {
		return d, written, err
	}
	answer, written, err := r.line.Admit(ctx, queue, *d.ask, quotas)
	if err != nil {
		return d, written, err
	}
	d, err = decide(queue, in, r.Image, now, &answer)
	return d, written, err
}

// noteAdmitted writes the storage that was admitted to status, before anything is made of it.
func (r *Reconciler) noteAdmitted(ctx context.Context, queue *v1alpha1.Queue, size *resource.Quantity) error {
	if size == nil {
		return nil
	}
	before := queue.DeepCopy()
	queue.Status.StorageSize = size
	_, err := conditions.WriteStatus(ctx, r.Client, before, queue)
	return err
}

// storageExceeds says which limit a Queue exceeds.
func storageExceeds(queue *v1alpha1.Queue, e quota.Exceeded) string {
	fix := fmt.Sprintf("delete a Queue that is not needed, or ask the platform team to raise the limit of the %s", e.Kind)
	if queue.Status.StorageSize != nil {
		fix += fmt.Sprintf("; until then members go on with %s each", queue.Status.StorageSize)
	}
	text := e.Resource.Text
	return fmt.Sprintf("%s %q allows %s of storage of Queues in this namespace (spec.hard.%s); others have %s, and this "+
		"Queue needs %s, which is storage.size, and storage.spill.size if there is one, times replicas; %s",
		e.Kind, e.Name, text(e.Limit), e.Resource, text(e.Used), text(e.Wanted), fix)
}
