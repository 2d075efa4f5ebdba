// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package egress says what agents may dial of this cluster: the Services that an object names and that it may use.
// Agents check every address by that (agent/egress); what they refuse whatever the configuration, such as loopback, is
// there.
//
// A Service of the object's own namespace may be used. One of another namespace may be used when that namespace
// consents by the annotation lighterage.dev/allow-backends-from. The API server never may. What a policy says is a
// pure function of the networks of the cluster and of the Services that were looked up.
package egress
