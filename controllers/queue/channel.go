// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/route"
)

// Neighbours decide which Queues of other clusters a Queue may exchange messages with, and whether it has somewhere to
// put its archive.
type Neighbours struct {
	Peers []v1alpha1.Peer
	// Grants of the Queue's namespace that have not expired.
	Grants []v1alpha1.PeerGrant
	// ChannelKey makes the server names of channels; nil where no PeerGrant opens the Queue.
	ChannelKey []byte
	// Tunnels is the endpoint of this cluster's own gateways, see package route.
	Tunnels string
	// NamespaceUID of the Queue's namespace.
	NamespaceUID types.UID
	// Claims that spec.archive and spec.restore name, if they exist.
	Claims []corev1.PersistentVolumeClaim
	// Stores that spec.archive and spec.restore name, if they exist.
	Stores []v1alpha1.ObjectStore
}

// destination of the channel, for people.
func destination(queue *v1alpha1.Queue) string {
	c := queue.Spec.Channel
	return c.Peer + "/" + channelNamespace(queue) + "/" + c.Queue
}

func channelNamespace(queue *v1alpha1.Queue) string {
	if queue.Spec.Channel.Namespace != "" {
		return queue.Spec.Channel.Namespace
	}
	return queue.Namespace
}

// channelOf is the sending end, and who vouches for the other one; nil without spec.channel. The problem is why there
// can be none now.
func channelOf(
	queue *v1alpha1.Queue, resolved policy.Resolved, peers []v1alpha1.Peer, tunnels string,
) (*wirev1.ChannelConfig, []byte, *agentpod.Problem) {
	spec := queue.Spec.Channel
	if spec == nil {
		return nil, nil, nil
	}
	i := slices.IndexFunc(peers, func(p v1alpha1.Peer) bool { return p.Name == spec.Peer })
	if i < 0 {
		return nil, nil, channelProblem(v1alpha1.ReasonPeerNotFound, "Peer %q, which spec.channel names, does not exist; "+
			"create it with the other cluster's endpoint and CA, or name another", spec.Peer)
	}
	peer := &peers[i]
	to, ok := route.To(peer, tunnels)
	if !ok {
		return nil, nil, channelProblem(
			v1alpha1.ReasonPeerHasNoEndpoint,
			"Peer %q has no endpoint, so nothing can be sent to it; set spec.endpoint of the Peer", spec.Peer,
		)
	}
	if _, err := pki.ParseBundle(peer.Spec.CABundle); err != nil {
		return nil, nil, channelProblem(
			v1alpha1.ReasonPeerUntrusted, "spec.caBundle of Peer %q cannot be used: %v", spec.Peer, err,
		)
	}
	codecs, levels := codings(queue, resolved)
	config := &wirev1.ChannelConfig{
		GatewayEndpoint: to.Endpoint,
		GatewayTunnel:   to.Tunnel,
		Namespace:       channelNamespace(queue),
		Queue:           spec.Queue,
		Codecs:          codecs,
		Levels:          levels,
		BatchMessages:   uint32(max(spec.Batch.Messages, 0)),
	}
	if spec.Batch.Delay != nil {
		config.BatchDelay = durationpb.New(spec.Batch.Delay.Duration)
	}
	return config, peer.Spec.CABundle, nil
}

func channelProblem(reason, format string, args ...any) *agentpod.Problem {
	return &agentpod.Problem{
		Reason: reason, Message: fmt.Sprintf(format, args...) + "; messages wait in this Queue meanwhile",
	}
}

// codings are the sender's list: that of the spec, else those in which messages are stored here. Levels are at the
// places of their codecs; nil where no coding has one.
func codings(queue *v1alpha1.Queue, resolved policy.Resolved) (codecs []string, levels []wirev1.CompressionLevel) {
	if given := queue.Spec.Channel.Codings; len(given) > 0 {
		own := false
		for _, coding := range given {
			name, level, has := strings.Cut(string(coding), "-")
			codecs, levels, own = append(codecs, name), append(levels, channelLevel(level)), own || has
		}
		if !own {
			levels = nil
		}
		return codecs, levels
	}
	if minSize(queue.Spec.Compression, resolved) == 0 || resolved.Mode == v1alpha1.CompressionNever {
		return nil, nil
	}
	for _, codec := range resolved.Codecs {
		codecs = append(codecs, string(codec))
	}
	return codecs, nil
}

// channelLevel is what a coding has behind its codec; UNSPECIFIED without.
func channelLevel(name string) wirev1.CompressionLevel {
	for level, wire := range attempt.Levels {
		if strings.EqualFold(string(level), name) {
			return wire
		}
	}
	return wirev1.CompressionLevel_COMPRESSION_LEVEL_UNSPECIFIED
}

// acceptanceOf is the receiving end. Its address never changes, so that a first PeerGrant restarts nobody.
func acceptanceOf(queue *v1alpha1.Queue, neighbours Neighbours) *wirev1.ChannelAcceptance {
	acceptance := &wirev1.ChannelAcceptance{Address: address(channelPort)}
	switch receiving := queue.Spec.Receiving; receiving.Accept {
	case v1alpha1.QueueAcceptAny:
		acceptance.AnyCodec = true
	case v1alpha1.QueueAcceptListed:
		for _, codec := range receiving.Codings {
			acceptance.Codecs = append(acceptance.Codecs, string(codec))
		}
	case v1alpha1.QueueAcceptNone:
	}
	for _, peer := range distinct(neighbours.Peers) {
		granted := &wirev1.ChannelPeer{Name: peer.Name, CaBundle: peer.Spec.CABundle}
		if peer.Spec.RevokedBefore != nil {
			granted.RevokedBefore = peer.Spec.RevokedBefore.Unix()
		}
		for _, namespace := range grantedNamespaces(queue, peer.Name, neighbours.Grants) {
			granted.Namespaces = append(granted.Namespaces, &wirev1.ChannelNamespace{
				Name:       namespace,
				ServerName: pki.ChannelServerName(neighbours.ChannelKey, peer.Name, namespace, queue.Namespace, queue.Name),
			})
		}
		if len(granted.GetNamespaces()) > 0 {
			acceptance.Peers = append(acceptance.Peers, granted)
		}
	}
	return acceptance
}

// grantedNamespaces of a peer are those whose Queues may send to the Queue.
func grantedNamespaces(queue *v1alpha1.Queue, peer string, grants []v1alpha1.PeerGrant) []string {
	var all []string
	for i := range grants {
		for _, from := range grants[i].Spec.From {
			if from.Peer != peer {
				continue
			}
			for _, namespace := range from.Namespaces {
				if peergrant.Allowed(grants[i:i+1], peergrant.Request{
					Peer: peer, Namespace: namespace, Kind: v1alpha1.GrantedQueue, ToNamespace: queue.Namespace, Name: queue.Name,
				}, time.Time{}) {
					all = append(all, namespace)
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// distinct are the Peers, by name, whose CA bundles can be used and tell them from all others. The gateway refuses the
// rest as well, and their own conditions say so.
func distinct(peers []v1alpha1.Peer) []v1alpha1.Peer {
	held := map[string]int{} // Peers by fingerprint of a CA
	own := make([][]string, len(peers))
	for i := range peers {
		certificates, err := pki.ParseBundle(peers[i].Spec.CABundle)
		if err != nil {
			continue
		}
		for _, certificate := range certificates {
			own[i] = append(own[i], pki.Fingerprint(certificate))
		}
		slices.Sort(own[i])
		own[i] = slices.Compact(own[i])
		for _, fingerprint := range own[i] {
			held[fingerprint]++
		}
	}
	var usable []v1alpha1.Peer
	for i := range peers {
		if len(own[i]) > 0 && !slices.ContainsFunc(own[i], func(fingerprint string) bool { return held[fingerprint] > 1 }) {
			usable = append(usable, peers[i])
		}
	}
	slices.SortFunc(usable, func(a, b v1alpha1.Peer) int { return strings.Compare(a.Name, b.Name) })
	return usable
}

// files are what members get beside their configuration and certificate.
func (w Wanted) files() map[string][]byte {
	if w.PeerCA == nil {
		return nil
	}
	return map[string][]byte{pki.PeerCAKey: w.PeerCA}
}
