// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tunnel asks a proxy for a connection by HTTP CONNECT (RFC 9110, section 9.3.6). A cluster's own gateway is
// such a proxy, for connections to peers that the cluster cannot dial.
package tunnel

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// maxAnswer bounds the header of an answer, in bytes.
	maxAnswer = 8 << 10
	// Timeout bounds what it takes to get a tunnel, the connection to the proxy included. A gateway answers before.
	Timeout = 30 * time.Second
	// ReasonHeader of a gateway's answer holds a Reason.
	ReasonHeader = "Lighterage-Reason"

	targetSuffix = ".peer.lighterage.internal:443"
)

// Reason is why there is no tunnel.
type Reason string

// Reasons.
const (
	// NotConnected: the peer's gateway keeps no control connection to this cluster's gateway.
	NotConnected Reason = "NotConnected"
	// NoAnswer: it keeps one, and made no data connection in time.
	NoAnswer Reason = "NoAnswer"
	// Unreachable: nobody accepts connections at the peer's endpoint, or its name cannot be resolved.
	Unreachable Reason = "Unreachable"
	// ProxyAuthentication: the proxy wants other credentials (407).
	ProxyAuthentication Reason = "ProxyAuthentication"
	// ProxyRefused: the proxy answered with another status than 200 and 407, or with no HTTP.
	ProxyRefused Reason = "ProxyRefused"
	// ProxyUnreachable: the proxy does not accept connections, or does not answer in time.
	ProxyUnreachable Reason = "ProxyUnreachable"
	// Busy: the gateway has as many tunnels as it may have, or the peer's as many requests.
	Busy Reason = "Busy"
	// NotAllowed: the gateway does not accept the asker's certificate, or has no such Peer.
	NotAllowed Reason = "NotAllowed"
)

// Error is that of a tunnel that was refused.
type Error struct {
	Reason Reason
	// Status of HTTP; 0: there was no answer.
	Status int
	// Cause may be nil.
	Cause error
}

// Error implements error.
func (e *Error) Error() string {
	text := "no tunnel: " + string(e.Reason)
	if e.Status != 0 {
		text += fmt.Sprintf(" (HTTP status %d)", e.Status)
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// ReasonOf returns the reason that a refused tunnel among the causes of an error has.
func ReasonOf(err error) (Reason, bool) {
	var refused *Error
	if !errors.As(err, &refused) {
		return "", false
	}
	return refused.Reason, true
}

// Target is what a cluster's own gateway is asked for: a connection to the gateway of a Peer.
func Target(peer string) string { return peer + targetSuffix }

// PeerOf takes apart what Target made. The name was not checked further.
func PeerOf(target string) (peer string, ok bool) {
	peer, ok = strings.CutSuffix(target, targetSuffix)
	return peer, ok && peer != ""
}

// Request for a tunnel. Nothing in it may hold a line end.
type Request struct {
	// Target is host:port.
	Target string
	// Authorization is the value of Proxy-Authorization; empty: none is sent.
	Authorization string
	// Header has further fields.
	Header map[string]string
}

// Ask sends CONNECT over a connection and returns when it carries what the target sends. After an error, which is an
// *Error unless the context ended as the answer came, the connection is of no use. The error's reason is that of a
// gateway, or one of those that begin with Proxy.
func Ask(ctx context.Context, conn net.Conn, request Request) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err := ask(conn, request)
	if !stop() && err == nil {
		err = ctx.Err() // the deadline of the connection may be set any time
	}
	return err
}

func ask(conn net.Conn, r Request) error {
	var request strings.Builder
	fmt.Fprintf(&request, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", r.Target, r.Target)
	if r.Authorization != "" {
		fmt.Fprintf(&request, "Proxy-Authorization: %s\r\n", r.Authorization)
	}
	for name, value := range r.Header {
		fmt.Fprintf(&request, "%s: %s\r\n", name, value)
	}
	request.WriteString("\r\n")
	if _, err := io.WriteString(conn, request.String()); err != nil {
		return &Error{Reason: ProxyUnreachable, Cause: err}
	}
	header, err := readHeader(conn)
	if err != nil {
		return &Error{Reason: ProxyUnreachable, Cause: err}
	}
	return parseAnswer(header)
}

// parseAnswer returns nil for an answer that makes the connection a tunnel.
func parseAnswer(header []byte) error {
	answer, err := http.ReadResponse(
		bufio.NewReader(bytes.NewReader(header)), &http.Request{Method: http.MethodConnect},
	)
	if err != nil {
		return &Error{Reason: ProxyRefused, Cause: fmt.Errorf("reading the proxy's answer: %w", err)}
	}
	_ = answer.Body.Close()
	refused := &Error{Reason: Reason(answer.Header.Get(ReasonHeader)), Status: answer.StatusCode}
	switch {
	case answer.StatusCode/100 == 2:
		return nil
	case known[refused.Reason]:
	case answer.StatusCode == http.StatusProxyAuthRequired:
		refused.Reason = ProxyAuthentication
	default:
		refused.Reason = ProxyRefused
	}
	return refused
}

// known reasons of gateways.
var known = map[Reason]bool{
	NotConnected: true, NoAnswer: true, Unreachable: true, ProxyAuthentication: true, ProxyRefused: true,
	ProxyUnreachable: true, Busy: true, NotAllowed: true,
}

// readHeader reads up to the empty line and nothing behind it, which is the target's.
func readHeader(conn io.Reader) ([]byte, error) {
	header := make([]byte, 0, 256)
	var one [1]byte
	for !bytes.HasSuffix(header, []byte("\r\n\r\n")) {
		if len(header) == maxAnswer {
			return nil, fmt.Errorf("the header of the proxy's answer is longer than %d bytes", maxAnswer)
		}
		if _, err := io.ReadFull(conn, one[:]); err != nil {
			return nil, fmt.Errorf("reading the proxy's answer: %w", err)
		}
		header = append(header, one[0])
	}
	return header, nil
}
