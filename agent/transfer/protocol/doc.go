// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package protocol is what the two ends of a Transfer have to agree about, beyond the messages of agent/wire/v1: the
// limits that each holds and the other keeps within, the form of what goes over a connection for blocks, the digests
// that are compared, and the reasons for which either gives the other up. It knows neither end.
package protocol
