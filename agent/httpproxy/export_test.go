// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import "time"

// WaitForBodies makes the server wait longer for the rest of a body whose beginning has come. It is called before any request.
func (s *Server) WaitForBodies(patience time.Duration) { s.firstPatience = patience }

// Exhaust takes all the memory that there is for bodies until the function that it returns is called.
func (s *Server) Exhaust() (release func()) {
	s.buffers.used.Add(maxBuffered)
	return func() { s.buffers.used.Add(-maxBuffered) }
}
