// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package service is where clients put, get and acknowledge messages of a queue by gRPC or
// HTTP, on one port with TLS, beside the front for clients of NATS. It admits whom the
// front admits, compresses and inflates as the front does, and counts where the front
// counts.
//
// MessageService has the calls; gRPC reflection describes them. By HTTP they are
//
//	POST /v1/put, /v1/get, /v1/acknowledge, /v1/release, /v1/extend, /v1/reject
//
// with the requests and responses as JSON. For one message at a time without JSON there are
//
//	POST   /v1/message                                   the body is the payload
//	POST   /v1/message/next?wait=20s&visibility=1m&dead=true   and so is that of the answer
//	DELETE /v1/message/RECEIPT                           acknowledges
//
// with id, key, receipt and the rest in headers; see raw.go for these.
package service
