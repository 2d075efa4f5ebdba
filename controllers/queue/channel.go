// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
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
	"github.com/lighterage/lighterage/controllers/tariff"
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
	// DataPath that connections of channels are to take; empty: TCP.
	DataPath string
	// Queues of the Queue's namespace that send within it, and those that the Queue sends to.
	Queues []v1alpha1.Queue
	// CA is this cluster's, as PEM; nil where no Queue of the namespace sends to the Queue.
	CA []byte
	// Dictionaries: all members know what it is that a message refers to one, and DeflateDictionaries: also of deflate.
	Dictionaries, DeflateDictionaries bool
	// NamespaceUID of the Queue's namespace.
	NamespaceUID types.UID
	// Claims that spec.archive and spec.restore name, if they exist.
	Claims []corev1.PersistentVolumeClaim
	// Stores that spec.archive and spec.restore name, if they exist.
	Stores []v1alpha1.ObjectStore
}

// destination of a channel, for people. No two channels of a Queue have the same.
func destination(queue *v1alpha1.Queue, channel v1alpha1.QueueChannel) string {
	if channel.Peer == "" {
		return queue.Namespace + "/" + channel.Queue
	}
	return channel.Peer + "/" + channelNamespace(queue, channel) + "/" + channel.Queue
}

// destinations are those of all channels.
func destinations(queue *v1alpha1.Queue) string {
	var all []string
	for _, channel := range queue.Spec.SendingChannels() {
		all = append(all, destination(queue, channel))
	}
	return strings.Join(all, ", ")
}

func channelNamespace(queue *v1alpha1.Queue, channel v1alpha1.QueueChannel) string {
	return cmp.Or(channel.Namespace, queue.Namespace)
}

// sendsHere reports whether a Queue sends to one of its namespace, by a channel.
func sendsHere(from *v1alpha1.Queue, to string) bool {
	return slices.ContainsFunc(from.Spec.SendingChannels(), func(c v1alpha1.QueueChannel) bool {
		return c.Peer == "" && c.Queue == to
	})
}

// addChannels says how members send. A channel that cannot be set up now is there nevertheless, so that nothing that it
// is to send leaves, and clients do not get it.
func (w *Wanted) addChannels() error {
	channels := w.Queue.Spec.SendingChannels()
	w.ChannelProblems = make([]*agentpod.Problem, len(channels))
	for i, spec := range channels {
		name := destination(w.Queue, spec)
		if slices.ContainsFunc(channels[:i], func(c v1alpha1.QueueChannel) bool { return destination(w.Queue, c) == name }) {
			return &policy.InvalidError{Field: "spec.channels", Fix: "must name each Queue once, and has " + name + " twice"}
		}
		config, ca, problem := channelOf(w.Queue, spec, w.Policy, w.neighbours)
		if problem == nil {
			problem = sameCluster(channels[:i], spec, w.Queue, w.neighbours.Peers)
		}
		if w.ChannelProblems[i] = problem; problem != nil {
			config, ca = &wirev1.ChannelConfig{}, nil
		} else if spec.Peer != "" && w.Policy.Objective == v1alpha1.ObjectiveCost {
			config.Prices = tariff.Wire(w.Policy.Priced(w.tariffs, spec.Peer, w.now).Prices)
		}
		if w.Queue.Spec.Channel != nil {
			w.Config.Channel = config
			w.vouch(pki.PeerCAKey, ca)
			continue
		}
		if config.Name = name; ca != nil {
			config.CaFile = spec.Peer + "." + pki.PeerCAKey
			w.vouch(config.GetCaFile(), ca)
		}
		w.Config.Channels = append(w.Config.Channels, config)
	}
	return nil
}

// sameCluster is the problem of a channel to a Queue that one before it has by another Peer: the receiver knows both as
// one channel, and each would end the other. Peers are of one cluster if they share an endpoint or a CA.
func sameCluster(
	before []v1alpha1.QueueChannel, spec v1alpha1.QueueChannel, queue *v1alpha1.Queue, peers []v1alpha1.Peer,
) *agentpod.Problem {
	named := func(name string) *v1alpha1.Peer {
		i := slices.IndexFunc(peers, func(p v1alpha1.Peer) bool { return p.Name == name })
		if name == "" || i < 0 {
			return nil
		}
		return &peers[i]
	}
	peer := named(spec.Peer)
	if peer == nil {
		return nil
	}
	own := fingerprints(peer)
	for _, other := range before {
		first := named(other.Peer)
		if first == nil || first.Name == peer.Name || other.Queue != spec.Queue ||
			channelNamespace(queue, other) != channelNamespace(queue, spec) {
			continue
		}
		if peer.Spec.Endpoint != "" && peer.Spec.Endpoint == first.Spec.Endpoint ||
			slices.ContainsFunc(fingerprints(first), func(f string) bool { return slices.Contains(own, f) }) {
			return channelProblem(
				v1alpha1.ReasonInvalidSpec, "Peers %q and %q have the same endpoint or CA, so that %s and %s are one Queue; "+
					"take one of them out of spec.channels", first.Name, peer.Name, destination(queue, other),
				destination(queue, spec),
			)
		}
	}
	return nil
}

// vouch adds a file with the CA of a peer; nil: there is none.
func (w *Wanted) vouch(key string, ca []byte) {
	if ca == nil {
		return
	}
	if w.Files == nil {
		w.Files = map[string][]byte{}
	}
	w.Files[key] = ca
}

// channelOf is a sending end, and who vouches for the other one; nil for a Queue of this cluster. The problem is why
// there can be none now.
func channelOf(
	queue *v1alpha1.Queue, spec v1alpha1.QueueChannel, resolved policy.Resolved, neighbours Neighbours,
) (*wirev1.ChannelConfig, []byte, *agentpod.Problem) {
	codecs, levels := codings(queue, spec, resolved)
	config := &wirev1.ChannelConfig{
		Namespace:     channelNamespace(queue, spec),
		Queue:         spec.Queue,
		Codecs:        codecs,
		Levels:        levels,
		BatchMessages: uint32(max(spec.Batch.Messages, 0)),
		DataPath:      neighbours.DataPath,
	}
	if spec.Batch.Delay != nil {
		config.BatchDelay = durationpb.New(spec.Batch.Delay.Duration)
	}
	if spec.Peer == "" {
		return withinCluster(config, queue, neighbours.Queues)
	}
	i := slices.IndexFunc(neighbours.Peers, func(p v1alpha1.Peer) bool { return p.Name == spec.Peer })
	if i < 0 {
		return nil, nil, channelProblem(v1alpha1.ReasonPeerNotFound, "Peer %q, which %s names, does not exist; "+
			"create it with the other cluster's endpoint and CA, or name another", spec.Peer, channelField(queue))
	}
	peer := &neighbours.Peers[i]
	to, ok := route.To(peer, neighbours.Tunnels)
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
	config.GatewayEndpoint, config.GatewayTunnel = to.Endpoint, to.Tunnel
	return config, peer.Spec.CABundle, nil
}

// withinCluster completes the sending end to a Queue of the same namespace.
func withinCluster(
	config *wirev1.ChannelConfig, queue *v1alpha1.Queue, queues []v1alpha1.Queue,
) (*wirev1.ChannelConfig, []byte, *agentpod.Problem) {
	to := config.GetQueue()
	if !slices.ContainsFunc(queues, func(q v1alpha1.Queue) bool { return q.Name == to }) {
		return nil, nil, channelProblem(
			v1alpha1.ReasonDestinationNotFound, "there is no Queue %s in namespace %s; create it, or correct %s", to,
			queue.Namespace, channelField(queue),
		)
	}
	if way := wayBack(queue.Name, to, queues); way != nil {
		return nil, nil, channelProblem(
			v1alpha1.ReasonChannelCycle, "messages would go round: %s; send to another Queue, or take one of these channels "+
				"away", strings.Join(append([]string{queue.Name}, way...), " sends to "),
		)
	}
	config.Address = net.JoinHostPort(to+"."+queue.Namespace+".svc", strconv.Itoa(channelPort))
	config.ServerName = pki.OwnChannelServerName(queue.Namespace, to)
	return config, nil, nil
}

// wayBack is the way by channels within the namespace from one Queue to another, both included; nil: there is none.
func wayBack(home, from string, queues []v1alpha1.Queue) []string {
	seen := map[string]bool{}
	var search func(at string) []string
	search = func(at string) []string {
		if at == home {
			return []string{at}
		}
		i := slices.IndexFunc(queues, func(q v1alpha1.Queue) bool { return q.Name == at })
		if i < 0 || seen[at] {
			return nil
		}
		seen[at] = true
		for _, next := range queues[i].Spec.SendingChannels() {
			if next.Peer != "" {
				continue
			}
			if way := search(next.Queue); way != nil {
				return append([]string{at}, way...)
			}
		}
		return nil
	}
	return search(from)
}

// channelField is where the spec has its channels.
func channelField(queue *v1alpha1.Queue) string {
	if queue.Spec.Channel != nil {
		return "spec.channel"
	}
	return "spec.channels"
}

func channelProblem(reason, format string, args ...any) *agentpod.Problem {
	return &agentpod.Problem{
		Reason: reason, Message: fmt.Sprintf(format, args...) + "; messages wait in this Queue meanwhile",
	}
}

// codings are the sender's list: that of the spec, else those in which messages are stored here. Levels are at the
// places of their codecs; nil where no coding has one.
func codings(
	queue *v1alpha1.Queue, spec v1alpha1.QueueChannel, resolved policy.Resolved,
) (codecs []string, levels []wirev1.CompressionLevel) {
	if given := spec.Codings; len(given) > 0 {
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
	if neighbours.DataPath == string(v1alpha1.DataPathSMC) {
		acceptance.DataPath = neighbours.DataPath // members listen by TCP and MPTCP anyway
	}
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
	if neighbours.CA != nil {
		acceptance.Peers = append(acceptance.Peers, &wirev1.ChannelPeer{
			CaBundle: neighbours.CA, Namespaces: []*wirev1.ChannelNamespace{{
				Name: queue.Namespace, ServerName: pki.OwnChannelServerName(queue.Namespace, queue.Name),
			}},
		})
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

// fingerprints of a Peer's CAs, each once; none if they cannot be used.
func fingerprints(peer *v1alpha1.Peer) []string {
	certificates, err := pki.ParseBundle(peer.Spec.CABundle)
	if err != nil {
		return nil
	}
	var all []string
	for _, certificate := range certificates {
		all = append(all, pki.Fingerprint(certificate))
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
		own[i] = fingerprints(&peers[i])
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
