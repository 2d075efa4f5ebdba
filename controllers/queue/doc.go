// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue reconciles Queues: a StatefulSet of agents in mode queue, each with a claim unless external servers
// keep the messages, a Service for clients, one for the members among themselves, a disruption budget, and a ConfigMap
// with the CA that clients need. What is
// wanted and what status says are pure functions of what was gathered.
//
// A Queue whose deletion would lose messages is not let go: its finalizer stays, and it goes on serving, until it is
// empty or its annotation says that the messages may be deleted.
package queue

import "time"

const (
	// kind of the owner of everything made here.
	kind = "Queue"

	// The container's ports: of clients of NATS, of clients of gRPC and HTTP, of the other members, of the manager and
	// of health checks.
	clientPort   = 4222
	messagesPort = 8443
	routePort    = 6222
	controlPort  = 9443
	healthPort   = 8081
	// channelPort is for Queues of other clusters. The gateway dials it at the Service.
	channelPort = 8444

	configDirectory  = "/etc/lighterage"
	servingDirectory = "/etc/lighterage-serving"
	tokensDirectory  = "/etc/lighterage-tokens" //nolint:gosec // It is a path, and holds no secret.
	dataDirectory    = "/var/lib/lighterage"
	// externalDirectory has what members show to external servers.
	externalDirectory = "/etc/lighterage-external"

	// dataVolume is the name of the members' claims, before that of the member.
	dataVolume = "data"

	// freshness is how long ago members may have said that there is nothing in a Queue that is let go for it.
	freshness = 2 * time.Second
	// startGrace is how long a pod may take to start before that is called Stalled. A volume has to be made and
	// attached.
	startGrace = 2 * time.Minute

	// endpointPause is how long a member that is to stop goes on as if nothing were, while the word spreads that it is
	// no endpoint of the Service any more.
	endpointPause = 5 * time.Second
	// drainTimeout is how long clients are answered after that.
	drainTimeout = 10 * time.Second
	// stopReserve is what a member gets on top of both to sync and to end its process.
	stopReserve = 30 * time.Second

	// maxMembersShown and maxReceivedShown are what the API allows in status, maxSourceLength how long the name of a
	// source may be there.
	maxMembersShown  = 8
	maxReceivedShown = 64
	maxSourceLength  = 400
)
