// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queuefaults checks what a queue promises while it is broken in every way that
// this machine can break it: no acknowledged message is lost, none is there twice within
// the window of de-duplication, messages of a key keep their order, and none is changed.
//
// A History is what clients saw: every put, acknowledgement of a put, get and
// acknowledgement of a get. Check judges it and knows nothing of how it came about. The
// tests, with the build tag faults, run members of a queue as processes of the agent, put
// and get through their fronts, and meanwhile kill, stop, part, fill up, empty and restart
// them. They need no rights on the machine: everything happens in namespaces of their own,
// which end with them.
package queuefaults
