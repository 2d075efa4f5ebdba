// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/hmac"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	// queuePort is that of a Queue's Service for channels.
	queuePort = "8444"
	// queueKeyPrefix is that of the keys of targets which are queues.
	queueKeyPrefix = "queue/"
)

// OpenQueue tells a Queue of a peer by which name it reaches a Queue here. Nothing is made for it: whether the Queue
// serves, and has come to know of the grant, shows when the caller connects. Only who is granted learns whether it
// exists, here by the answer, and at the passed port by a server name that nobody else can guess.
func (s *service) OpenQueue(ctx context.Context, in *wirev1.OpenQueueRequest) (_ *wirev1.OpenQueueResponse, err error) {
	from, err := s.caller(ctx)
	defer func() { s.ended("OpenQueue", from, err) }()
	if err != nil {
		return nil, err
	}
	wanted, err := newQueueRequest(from, in)
	if err != nil {
		return nil, err
	}
	var grants v1alpha1.PeerGrantList
	if err := s.options.Client.List(ctx, &grants, client.InNamespace(wanted.ToNamespace)); err != nil {
		s.log.Error(err, "PeerGrants cannot be listed")
		return nil, unavailable("the gateway cannot reach its API server now")
	}
	if verdict := peergrant.Decide(grants.Items, wanted, s.options.Clock.Now()); !verdict.Allowed {
		return nil, refuse(codes.PermissionDenied, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED, "%s", verdict.Refusal)
	}
	err = s.options.Client.Get(ctx, client.ObjectKey{Namespace: wanted.ToNamespace, Name: wanted.Name}, queueMetadata())
	if apierrors.IsNotFound(err) {
		return nil, refuse(codes.NotFound, wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND,
			"there is no Queue %s in namespace %s of the receiving cluster; create it there, or correct spec.channel here",
			wanted.Name, wanted.ToNamespace)
	}
	if err != nil {
		s.log.Error(err, "Queues cannot be looked up")
		return nil, unavailable("the gateway cannot reach its API server now")
	}
	key, err := s.options.ChannelKey()
	if err != nil {
		s.log.Error(err, "Server names of channels cannot be made")
		return nil, unavailable("the gateway has no key for server names of channels yet")
	}
	return &wirev1.OpenQueueResponse{
		ServerName: pki.ChannelServerName(key, from.peer, wanted.Namespace, wanted.ToNamespace, wanted.Name),
		KnownAs:    from.peer,
	}, nil
}

// queueMetadata is a Queue of which only the metadata are read, so that only they are kept in memory.
func queueMetadata() *metav1.PartialObjectMetadata {
	queue := &metav1.PartialObjectMetadata{}
	queue.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Queue"))
	return queue
}

// newQueueRequest checks what a caller asks for and returns what a PeerGrant must allow.
func newQueueRequest(from caller, in *wirev1.OpenQueueRequest) (peergrant.Request, error) {
	namespace, _, ok := from.identity.Queue()
	if !ok {
		return peergrant.Request{}, untrusted(
			"the certificate names %s, and only a Queue may send to a Queue", from.identity.Path,
		)
	}
	if !wirev1.Speaks(in.GetProtocolVersion()) {
		return peergrant.Request{}, refuse(codes.FailedPrecondition, wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
			"the sending queue speaks protocol %d and the receiving cluster (version %s) %d; upgrade the older cluster",
			in.GetProtocolVersion(), wirev1.Version, wirev1.ProtocolVersion)
	}
	if len(validation.IsDNS1123Label(in.GetNamespace())) > 0 {
		return peergrant.Request{}, invalid("namespace must be the name of a namespace")
	}
	if len(validation.IsDNS1123Label(in.GetName())) > 0 {
		return peergrant.Request{}, invalid("name must be the name of a Queue")
	}
	return peergrant.Request{
		Peer: from.peer, Namespace: namespace, Kind: v1alpha1.GrantedQueue, ToNamespace: in.GetNamespace(),
		Name: in.GetName(),
	}, nil
}

// queueWay is the way of the queues in a namespace of a peer to a Queue.
type queueWay struct {
	// label is what only they were told.
	label           string
	namespace, name string
}

func parseQueueWay(serverName string) (queueWay, bool) {
	label, namespace, name, ok := pki.ParseChannelServerName(serverName)
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Label(name)) > 0 {
		return queueWay{}, false
	}
	return queueWay{label: label, namespace: namespace, name: name}, true
}

func (w queueWay) key() string {
	return queueKeyPrefix + w.label + "/" + w.namespace + "/" + w.name
}

func parseQueueKey(key string) (queueWay, bool) {
	rest, ok := strings.CutPrefix(key, queueKeyPrefix)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return queueWay{}, false
	}
	return queueWay{label: parts[0], namespace: parts[1], name: parts[2]}, true
}

// queueTarget finds a Queue that some PeerGrant opens to the caller. That the caller is who it must be, the queue sees
// by its certificate.
func (g *Gateway) queueTarget(way queueWay) (passthrough.Target, bool) {
	of, open, err := g.open(way)
	switch {
	case errors.Is(err, pki.ErrNoChannelKey):
		// Strangers must not fill the log; OpenQueue logs it for those who are authenticated.
		g.options.Log.V(1).Info("Whether a channel is granted cannot be looked up", "cause", err.Error())
	case err != nil:
		g.options.Log.Error(err, "Whether a channel is granted cannot be looked up")
	}
	if !open {
		return passthrough.Target{}, false
	}
	return passthrough.Target{
		Address: g.options.QueueAddress(way.namespace, way.name), Key: way.key(), Peer: of.Peer, Namespace: of.Namespace,
	}, true
}

// open reports whether a PeerGrant opens the way, and for whom.
func (g *Gateway) open(way queueWay) (of peergrant.Request, open bool, err error) {
	key, err := g.options.ChannelKey()
	if err != nil {
		return of, false, err
	}
	var grants v1alpha1.PeerGrantList
	if err := g.options.Client.List(context.Background(), &grants, client.InNamespace(way.namespace)); err != nil {
		return of, false, err
	}
	for _, grant := range grants.Items {
		for _, from := range grant.Spec.From {
			at := slices.IndexFunc(from.Namespaces, func(namespace string) bool {
				return hmac.Equal([]byte(pki.ChannelLabel(key, from.Peer, namespace, way.namespace, way.name)), []byte(way.label))
			})
			if from.Peer == "" || at < 0 {
				continue
			}
			of = peergrant.Request{
				Peer: from.Peer, Namespace: from.Namespaces[at], Kind: v1alpha1.GrantedQueue, ToNamespace: way.namespace,
				Name: way.name,
			}
			if !peergrant.Allowed([]v1alpha1.PeerGrant{grant}, of, g.options.Clock.Now()) {
				continue
			}
			err := g.options.Client.Get(context.Background(), client.ObjectKey{Name: from.Peer}, &v1alpha1.Peer{})
			if err == nil || !apierrors.IsNotFound(err) {
				return of, err == nil, err
			}
		}
	}
	return of, false, nil
}
