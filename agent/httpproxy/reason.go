// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import "github.com/lighterage/lighterage/agent/policy"

// The reasons of responses that travel as they are, beside those of package policy.
// There, PeerRefused means that the client accepts none of the codings that are
// offered, or prefers none.
const (
	// OtherContentType means: the type of the body is not one that is compressed.
	OtherContentType policy.Reason = "OtherContentType"
	// AlreadyEncoded means: the backend sent it with a Content-Encoding.
	AlreadyEncoded policy.Reason = "AlreadyEncoded"
	// NoTransform means: the client or the backend forbids it with Cache-Control.
	NoTransform policy.Reason = "NoTransform"
	// PartialContent means: it is a range of something.
	PartialContent policy.Reason = "PartialContent"
	// CrossSiteCookie means: it sets a cookie across sites, and the settings spare such
	// responses.
	CrossSiteCookie policy.Reason = "CrossSiteCookie"
	// Busy means: as many responses as the settings allow, or the memory for bodies,
	// were in use.
	Busy policy.Reason = "Busy"
	// CPUBudget means: this process used more CPU than the settings allow.
	CPUBudget policy.Reason = "CPUBudget"
	// EngineFailed means: the engine returned an error, which is a fault of it.
	EngineFailed policy.Reason = "EngineFailed"
)
