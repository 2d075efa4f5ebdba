// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectstore is a client of stores that speak the S3 protocol, for one prefix of one bucket, and a probe of
// what such a server does.
//
// Names are relative to the prefix; CheckName says which can be written. Every answer is bounded: a body by what was
// asked for, everything else by maxAnswer. What a server may do better the next time (5xx, throttling, a connection
// that broke) is tried again with back-off, as long as the context and Retry permit. Errors carry a reason
// (package failure) and one of the Err values, and quote nothing of what a server wrote but its error code, since the
// server is of a tenant's choice.
//
// A conditional write whose answer was lost is not taken for one that failed: each bears a token in its metadata, which
// tells one's own object from another's.
package objectstore
