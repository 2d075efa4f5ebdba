// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/api/messages"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// servicePort is the name that the port of the service has in members' pods.
const servicePort = "service"

// service is a MessageService that was found, and how it was.
type service struct {
	*messages.Client
	// where it is, for people.
	where string
	// token is true when one is shown, and not a certificate.
	token bool
}

// reach finds the service of the Queue. Nothing is sent yet.
func (q *queue) reach(ctx context.Context) (*service, error) {
	config, token, err := q.security(ctx)
	if err != nil {
		return nil, err
	}
	s := &service{where: q.server, token: token != ""}
	options := []messages.Option{messages.WithTLS(config), messages.WithUserAgent("kubectl-lighterage/" + wirev1.Version)}
	if token != "" {
		options = append(options, messages.WithToken(token))
	}
	address := q.server
	if address == "" {
		found, err := q.object(ctx)
		if err != nil {
			return nil, err
		}
		pod, port, err := readyMember(ctx, q.cluster, found)
		if err != nil {
			return nil, err
		}
		s.where, address = "pod "+pod.Name, config.ServerName
		options = append(options, messages.WithDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return forward(ctx, q.config, pod, port)
		}))
	}
	if s.Client, err = messages.New(address, options...); err != nil {
		return nil, err
	}
	return s, nil
}

// readyMember is a pod of the Queue that serves: the leader if it is known, because every get goes through it.
func readyMember(ctx context.Context, cluster client.Client, queue *v1alpha1.Queue) (client.ObjectKey, int32, error) {
	var pods corev1.PodList
	err := cluster.List(
		ctx, &pods, client.InNamespace(queue.Namespace), client.MatchingLabels{v1alpha1.QueueLabel: string(queue.UID)},
	)
	switch {
	case apierrors.IsForbidden(err):
		return client.ObjectKey{}, 0, fmt.Errorf("you may not list pods in namespace %q, one of which serves the Queue; "+
			"ask for a Role there with the verb list on pods, or give the address of the service with --server: %w",
			queue.Namespace, err)
	case err != nil:
		return client.ObjectKey{}, 0, fmt.Errorf("listing the members of Queue %s/%s: %w", queue.Namespace, queue.Name, err)
	}
	rank := map[string]int{}
	for _, member := range queue.Status.Members {
		if member.Leader {
			rank[member.Name] = -1
		}
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(rank[a.Name], rank[b.Name]), cmp.Compare(a.Name, b.Name))
	})
	ready := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !isReady(pod) {
			continue
		}
		ready++
		if port, ok := portOf(pod); ok {
			return client.ObjectKeyFromObject(pod), port, nil
		}
	}
	if ready > 0 {
		return client.ObjectKey{}, 0, fmt.Errorf("the members of Queue %s/%s run a version of the agent that does not "+
			"serve put and get; upgrade the operator and wait until it has replaced them",
			queue.Namespace, queue.Name)
	}
	return client.ObjectKey{}, 0, fmt.Errorf("no member of Queue %s/%s is ready (it has %d pods); %s; kubectl -n %s "+
		"describe queue %s tells more, kubectl -n %s wait --for=condition=Ready queue/%s waits for it",
		queue.Namespace, queue.Name, len(pods.Items), strings.TrimSuffix(
			cmp.Or(problemOf(queue), "its pods are not"), ".",
		), queue.Namespace, queue.Name, queue.Namespace, queue.Name)
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func portOf(pod *corev1.Pod) (int32, bool) {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == servicePort {
				return port.ContainerPort, true
			}
		}
	}
	return 0, false
}
