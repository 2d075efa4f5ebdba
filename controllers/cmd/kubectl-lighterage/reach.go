// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// connectTimeout bounds how long connecting takes, TLS included.
	connectTimeout = 20 * time.Second
	// maxAnswer is the longest answer in bytes: a message of 64 MiB with what is about it.
	maxAnswer = 65 << 20
	// servicePort is the name that the port of the service has in members' pods.
	servicePort = "service"
)

// service is a MessageService that was found, and how it was.
type service struct {
	wirev1.MessageServiceClient
	// where it is, for people.
	where string
	// token is true when one is shown, and not a certificate.
	token bool
	conn  *grpc.ClientConn
	log   *connectionLog
}

// Close ends the connection.
func (s *service) Close() { s.conn.Close() }

// reach finds the service of a Queue. Nothing is sent yet.
func reach(ctx context.Context, h *home, q queueSettings) (*service, error) {
	config, token, err := security(ctx, h, q)
	if err != nil {
		return nil, err
	}
	s := &service{where: q.server, token: token != "", log: &connectionLog{}}
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", q.server) }
	if q.server == "" {
		queue, err := h.queue(ctx)
		if err != nil {
			return nil, err
		}
		pod, port, err := readyMember(ctx, h.cluster, queue)
		if err != nil {
			return nil, err
		}
		s.where = "pod " + pod.Name
		dial = func(ctx context.Context) (net.Conn, error) { return forward(ctx, h.config, pod, port) }
	}
	return s, s.connect(config, token, dial)
}

func (s *service) connect(config *tls.Config, token string, dial func(context.Context) (net.Conn, error)) error {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(&loggedTLS{credentials.NewTLS(config), s.log}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := dial(ctx)
			if err != nil {
				s.log.record(err)
			}
			return conn, err
		}),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: connectTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithUserAgent("kubectl-lighterage/" + version()), grpc.WithDisableServiceConfig(),
	}
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(token)))
	}
	var err error
	if s.conn, err = grpc.NewClient("passthrough:///"+config.ServerName, options...); err != nil {
		return fmt.Errorf("making a client of the service: %w", err)
	}
	s.MessageServiceClient = wirev1.NewMessageServiceClient(s.conn)
	return nil
}

// bearer is a token, which is shown over TLS only.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (bearer) RequireTransportSecurity() bool { return true }

// readyMember is a pod of the Queue that serves: the one that orders messages if it is known, for gets go there in the end.
func readyMember(ctx context.Context, cluster client.Client, queue *v1alpha1.Queue) (client.ObjectKey, int32, error) {
	var pods corev1.PodList
	err := cluster.List(ctx, &pods, client.InNamespace(queue.Namespace), client.MatchingLabels{v1alpha1.QueueLabel: string(queue.UID)})
	switch {
	case apierrors.IsForbidden(err):
		return client.ObjectKey{}, 0, fmt.Errorf("you may not list pods in namespace %q, of which one is to be reached; ask for a Role there with the verb list on pods, or reach the service otherwise with --server: %w",
			queue.Namespace, err)
	case err != nil:
		return client.ObjectKey{}, 0, fmt.Errorf("listing the members of Queue %s/%s: %w", queue.Namespace, queue.Name, err)
	}
	leaders := map[string]bool{}
	for _, member := range queue.Status.Members {
		leaders[member.Name] = member.Leader
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int {
		if leaders[a.Name] != leaders[b.Name] {
			if leaders[a.Name] {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
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
		return client.ObjectKey{}, 0, fmt.Errorf("the members of Queue %s/%s do not serve put and get yet, for their agent is of a version before that; upgrade the operator and wait for its members to be replaced",
			queue.Namespace, queue.Name)
	}
	return client.ObjectKey{}, 0, fmt.Errorf("no member of Queue %s/%s is ready (%d pods are there)%s; kubectl -n %s describe queue %s says more, kubectl -n %s wait --for=condition=Ready queue/%s waits for it",
		queue.Namespace, queue.Name, len(pods.Items), whyNot(queue), queue.Namespace, queue.Name, queue.Namespace, queue.Name)
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

// whyNot is what the Queue's conditions say.
func whyNot(queue *v1alpha1.Queue) string {
	for _, wanted := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionReady} {
		for _, c := range queue.Status.Conditions {
			if c.Type == wanted && (c.Type == v1alpha1.ConditionReady) != (c.Status == "True") && c.Message != "" {
				return ": " + strings.TrimSuffix(c.Message, ".")
			}
		}
	}
	return ""
}
