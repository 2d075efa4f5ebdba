// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import messagesv1 "github.com/lighterage/lighterage/api/messages/v1"

// Unget gives back what Get returned and no client heard of, and does not count it as a delivery. It does not wait:
// that happens as soon as a member leads, unless Run ends before.
func (h *Hub) Unget(given []*messagesv1.ReceivedMessage) { h.giveBack(receiptsOf(given)) }
