// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package line

import (
	"context"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/lighterage/lighterage/controllers/quota"
)

// Pods are what the pods of a kind's agents hold beside the objects: one whose attempt is over holds something as long
// as it runs. Whoever removes a Job or its owner from under its pod gains nothing in the namespace.
type Pods[T client.Object] struct {
	// Label that they have.
	Label string
	// Job is the name of the Job whose pods belong to what an object holds; empty: none do.
	Job func(T) string
	// Stray is what one holds that belongs to no such Job.
	Stray func(pod client.ObjectKey) quota.Held
	// Abandoned reports whether one that is being deleted counts no more, as it may never end.
	Abandoned func(pod types.UID) bool
}

// pods are those that have not ended, by namespace, as events of the manager's cache tell. The zero value is ready for
// use, by several goroutines.
type pods struct {
	mu         sync.RWMutex
	namespaces map[string]map[string]running // by name
}

type running struct {
	key     client.ObjectKey
	uid     types.UID
	job     string
	deleted bool
}

// set notes a pod that an event tells of, and reports whether it ran before, with the label, and does not any more.
func (p *pods) set(pod *corev1.Pod, label string) (ended bool) {
	phase := pod.Status.Phase
	if pod.Labels[label] == "" || phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		return p.remove(pod, false)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.namespaces[pod.Namespace]
	if own == nil {
		if p.namespaces == nil {
			p.namespaces = map[string]map[string]running{}
		}
		own = map[string]running{}
		p.namespaces[pod.Namespace] = own
	}
	was, replaced := own[pod.Name]
	own[pod.Name] = running{
		key: client.ObjectKeyFromObject(pod), uid: pod.UID, job: pod.Labels[batchv1.JobNameLabel],
		deleted: pod.DeletionTimestamp != nil,
	}
	return replaced && was.uid != pod.UID // where a watch was lost
}

// remove notes that a pod is gone or runs no more, and reports whether one of its name ran before. If same is true,
// only the pod itself counts.
func (p *pods) remove(pod client.Object, same bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.namespaces[pod.GetNamespace()]
	was, ran := own[pod.GetName()]
	if !ran || same && was.uid != pod.GetUID() {
		return false
	}
	if delete(own, pod.GetName()); len(own) == 0 {
		delete(p.namespaces, pod.GetNamespace())
	}
	return true
}

// strays calls f with the pods in a namespace, "" for all, that are of none of the jobs.
func (p *pods) strays(namespace string, jobs map[client.ObjectKey]bool, f func(running)) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for of, own := range p.namespaces {
		if namespace != "" && of != namespace {
			continue
		}
		for _, pod := range own {
			if !jobs[client.ObjectKey{Namespace: of, Name: pod.job}] {
				f(pod)
			}
		}
	}
}

// strays are what pods hold beside the objects whose pods are of those jobs.
func (l *Line[T]) strays(namespace string, jobs map[client.ObjectKey]bool) (held []quota.Held) {
	l.pods.strays(namespace, jobs, func(pod running) {
		if !pod.deleted || !l.Pods.Abandoned(pod.uid) {
			held = append(held, l.Pods.Stray(pod.key))
		}
	})
	return held
}

// podEvents takes over which pods run, and wakes the next when one has ended.
func (l *Line[T]) podEvents() handler.EventHandler {
	set := func(ctx context.Context, object client.Object, q queue) {
		if pod, ok := object.(*corev1.Pod); ok && l.pods.set(pod, l.Pods.Label) {
			l.wake(ctx, pod.Namespace, q)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { set(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { set(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if l.pods.remove(e.Object, true) {
				l.wake(ctx, e.Object.GetNamespace(), q)
			}
		},
	}
}
