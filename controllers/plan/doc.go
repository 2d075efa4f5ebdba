// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what is to be done for a Transfer and a Delivery. It is pure: it is given what was seen and the
// time, and returns the status to write and what to do. It knows the Kubernetes types and reads or writes no cluster.
package plan
