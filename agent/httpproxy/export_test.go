// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

// Exhaust takes all the memory that there is for bodies until the function that it returns is called.
func (s *Server) Exhaust() (release func()) {
	s.buffers.used.Add(maxBuffered)
	return func() { s.buffers.used.Add(-maxBuffered) }
}
