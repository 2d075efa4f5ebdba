// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpproxy is a reverse proxy that compresses what a backend answers, and
// says what that cost.
//
// A request takes this way: Server accepts the connection and hands it to the newest
// generation, which is what was made of the settings; handler.go asks the backend
// (package backend) and reads the header of the answer; plan.go decides once, by
// negotiate and package policy, whether and how to compress; whole.go compresses bodies
// of known length in one piece, stream.go others as they arrive, both with what package
// coding makes of the engines of package codec; response.go sends header, body and trailers.
package httpproxy
