// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wirev1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	channelSuffix = ".queue.lighterage.internal"
	// channelCallerBytes of a hash that stand for a caller: an accident would only let the one use the other's way to the queue, which then
	// asks for a certificate.
	channelCallerBytes = 8
)

// ChannelDomain is what the TLS server names of a queue end with under which the queues of other clusters reach it. Each caller has
// its own, one label longer, so that the gateway can end the connections of one whose grant was withdrawn.
func ChannelDomain(namespace, queue string) string {
	return queue + "." + namespace + channelSuffix
}

// ChannelServerName is the TLS server name of a queue for the queues in a namespace of a peer.
func ChannelServerName(peer, peerNamespace, namespace, queue string) string {
	return ChannelCaller(peer, peerNamespace) + "." + ChannelDomain(namespace, queue)
}

// ChannelCaller is the first label of ChannelServerName.
func ChannelCaller(peer, namespace string) string {
	sum := sha256.Sum256([]byte(peer + "/" + namespace)) // neither has a slash
	return hex.EncodeToString(sum[:channelCallerBytes])
}

// ParseChannelServerName takes apart what ChannelServerName made. What it returns was not checked further.
func ParseChannelServerName(name string) (caller, namespace, queue string, ok bool) {
	labels, found := strings.CutSuffix(name, channelSuffix)
	parts := strings.Split(labels, ".")
	if !found || len(parts) != 3 {
		return "", "", "", false
	}
	return parts[0], parts[2], parts[1], true
}
