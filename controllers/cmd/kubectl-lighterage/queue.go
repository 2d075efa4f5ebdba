// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// errNoMessage is the outcome of a get that nothing came of.
var errNoMessage = errors.New("there is no message that can be got now; kubectl lighterage queue stat says how many are with others")

// runQueue does what is to be done with a Queue.
func runQueue(ctx context.Context, s settings, program streams) error {
	h := &home{settings: s}
	if s.queue.verb == verbStat {
		return stat(ctx, h, s, program.out)
	}
	service, err := reach(ctx, h, s.queue)
	if err != nil {
		return err
	}
	defer service.Close()
	if s.queue.verb == verbPut {
		return put(ctx, service, s.queue, program)
	}
	return get(ctx, service, s.queue, s.output, program)
}

// home is the Queue's cluster, which is asked for what the command line does not say, and not before.
type home struct {
	settings  settings
	namespace string
	config    *rest.Config
	cluster   client.Client
	found     *v1alpha1.Queue
}

// open reads the kubeconfig.
func (h *home) open() error {
	if h.cluster != nil {
		return nil
	}
	loader := kubeconfigOf(h.settings)
	var err error
	if h.namespace, _, err = loader.Namespace(); err != nil {
		return unreadable(err)
	}
	if h.config, err = loader.ClientConfig(); err != nil {
		return unreadable(err)
	}
	h.cluster, err = newClient(h.config)
	return err
}

// queue reads the Queue, once.
func (h *home) queue(ctx context.Context) (*v1alpha1.Queue, error) {
	if h.found != nil {
		return h.found, nil
	}
	if err := h.open(); err != nil {
		return nil, err
	}
	key := client.ObjectKey{Namespace: h.namespace, Name: h.settings.queue.name}
	queue := &v1alpha1.Queue{}
	if err := h.cluster.Get(ctx, key, queue); err != nil {
		return nil, refused(err, "Queue", "queues", key)
	}
	h.found = queue
	return queue, nil
}

// secret reads a Secret of the Queue's namespace. what says what is wanted of it, and instead what else will do.
func (h *home) secret(ctx context.Context, name, what, instead string) (*corev1.Secret, error) {
	key := client.ObjectKey{Namespace: h.namespace, Name: name}
	secret := &corev1.Secret{}
	err := h.cluster.Get(ctx, key, secret)
	switch {
	case err == nil:
		return secret, nil
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no Secret %q in namespace %q, in which the Queue has %s; make it, or %s", name, h.namespace, what, instead)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not read Secret %q in namespace %q, in which the Queue has %s; ask for a Role there with the verb get on that secret, or %s: %w",
			name, h.namespace, what, instead, err)
	}
	return nil, fmt.Errorf("reading Secret %s: %w", key, err)
}
