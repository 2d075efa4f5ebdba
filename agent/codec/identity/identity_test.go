// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/identity"
)

func TestConformance(t *testing.T) {
	codectest.Run(t, identity.New())
}
