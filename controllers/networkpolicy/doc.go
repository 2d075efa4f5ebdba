// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package networkpolicy says which NetworkPolicy goes with the pods that the manager makes: a pure function for each
// kind of agent, and a Keeper that writes what they say. A policy admits what an agent needs to do its work, in both
// directions; all else is what a cluster's policy engine then drops. Clients of Queues and HTTPEndpoints are admitted
// from everywhere, because only their users know who they are: policies add up, so that a stricter one needs policies
// that the user writes for other labels, or the operator's switched off. Addresses are left open where a rule names a
// port only: names are resolved when they are dialled.
package networkpolicy
