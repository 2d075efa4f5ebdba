// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

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

// reach finds the service of the Queue. Nothing is sent yet.
func (q *queue) reach(ctx context.Context) (*service, error) {
	config, token, err := q.security(ctx)
	if err != nil {
		return nil, err
	}
	s := &service{where: q.server, token: token != "", log: &connectionLog{}}
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", q.server) }
	if q.server == "" {
		found, err := q.object(ctx)
		if err != nil {
			return nil, err
		}
		pod, port, err := readyMember(ctx, q.cluster, found)
		if err != nil {
			return nil, err
		}
		s.where = "pod " + pod.Name
		dial = func(ctx context.Context) (net.Conn, error) { return forward(ctx, q.config, pod, port) }
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
		grpc.WithUserAgent("kubectl-lighterage/" + wirev1.Version), grpc.WithDisableServiceConfig(),
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
