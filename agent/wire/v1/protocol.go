// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wirev1

const (
	// ProtocolVersion is the newest version of the protocol between clusters that this release speaks. It changes when
	// a peer of an earlier release could misread what one of this release says.
	ProtocolVersion = 2
	// OldestProtocolVersion is the oldest that it speaks: the one before ProtocolVersion, unless that lacks a check of
	// security. In version 1 certificates said nothing of what a run may do.
	OldestProtocolVersion = 2
)

// Speaks reports whether this release speaks a version of the protocol.
func Speaks(version uint32) bool { return spoken.speaks(version) }

// InCommon returns the version in which to speak to a peer whose newest is theirs; false when there is none. A release
// speaks its own and at most the one before, so a peer may be one version ahead.
func InCommon(theirs uint32) (version uint32, ok bool) { return spoken.inCommon(theirs) }

var spoken = versions{oldest: OldestProtocolVersion, newest: ProtocolVersion}

type versions struct{ oldest, newest uint32 }

func (v versions) speaks(version uint32) bool { return version >= v.oldest && version <= v.newest }

func (v versions) inCommon(theirs uint32) (uint32, bool) {
	if theirs < v.oldest || theirs > v.newest+1 {
		return 0, false
	}
	return min(theirs, v.newest), true
}

// SharesVariable is the environment variable of an agent with host and port of the node agent of its node, which grants
// shares of the accelerator. Unset or empty: the agent uses the accelerator as it likes.
const SharesVariable = "LIGHTERAGE_ACCELERATOR_SHARES"
