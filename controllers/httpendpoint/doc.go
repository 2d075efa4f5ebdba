// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpendpoint reconciles HTTPEndpoints: a Deployment of agents in mode http with a Service, a disruption
// budget and, if asked for, an autoscaler before it. What is wanted and what status says are pure functions of what was
// gathered.
//
// Keys of clients' certificates are mounted into the replicas and never read by the manager, which may not: the
// replicas say what they think of them. The configuration is mounted too, so that a change reaches the replicas without
// a restart, and reports say which configuration each has taken.
package httpendpoint

import "time"

const (
	// kind of the owner of everything made here.
	kind = "HTTPEndpoint"

	// httpPort, controlPort and healthPort are the container's.
	httpPort    = 8443
	controlPort = 9443
	healthPort  = 8081

	configDirectory  = "/etc/lighterage"
	servingDirectory = "/etc/lighterage-serving"

	// startGrace is how long a pod may take to start before that is called Stalled.
	startGrace = time.Minute

	// endpointPause is how long a replica that is to stop goes on as if nothing were, while the word spreads that it is
	// no endpoint of the Service any more.
	endpointPause = 10 * time.Second
	// stopReserve is what a replica gets on top of both to end its process.
	stopReserve = 10 * time.Second

	// defaultReplicas is what spec.replicas is without a value.
	defaultReplicas = 2
	// maxReplicasShown is what the API allows in status.
	maxReplicasShown = 32
)

// defaultContentTypes are those of spec.contentTypes without a value.
var defaultContentTypes = []string{
	"text/*",
	"application/json", "application/ld+json", "application/geo+json", "application/problem+json", "application/x-ndjson",
	"application/manifest+json", "application/vnd.api+json", "application/graphql-response+json",
	"application/xml", "application/xhtml+xml", "application/atom+xml", "application/rss+xml", "application/soap+xml",
	"application/problem+xml",
	"application/javascript", "application/ecmascript", "application/wasm", "application/yaml", "application/toml",
	"application/sql",
	"application/rtf", "application/x-www-form-urlencoded", "application/x-javascript",
	"application/vnd.ms-fontobject", "font/otf", "font/ttf", "image/svg+xml", "image/bmp", "image/x-icon",
	"image/vnd.microsoft.icon",
}
