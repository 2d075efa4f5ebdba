// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import "time"

// SetBounds changes how many bytes of messages are held, asked for and read again at once, of dead letters a quarter,
// and how long what was given out stays. It is for before the first get.
func (h *Hub) SetBounds(bytes, pull, fetch int, answered time.Duration) {
	h.bounds = bounds{bytes, pull, fetch, answered}
}

// WindowMessages is how many messages a dispatcher holds.
const WindowMessages = windowMessages
