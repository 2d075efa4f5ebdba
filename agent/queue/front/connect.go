// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/queue/roles"
)

// acceptWord in the name of a connection asks for all messages as they are stored.
const acceptWord = "lighterage-accept=stored"

// greetTimeout bounds how long a client may take to say who it is, TLS included.
const greetTimeout = 10 * time.Second

var (
	errAuthentication = errors.New("no valid token or certificate")
	// errCertificate is said by TLS.
	errCertificate = errors.New("the certificate is of none of the CAs that clients may have")
)

// dialTimeout bounds how long the server may take to be reached.
const dialTimeout = 10 * time.Second

// serve connects to the server, shakes hands with both sides, and has passed on what they say.
func (c *conn) serve() {
	defer c.cancel()
	ctx, cancel := context.WithTimeout(c.context, dialTimeout)
	inner, err := c.front.options.Server.Dial(ctx)
	cancel()
	if err != nil {
		c.front.options.Log.Error("Client cannot be served", "error", err.Error())
		return
	}
	c.inner = inner
	context.AfterFunc(c.context, func() { _ = inner.Close() })
	client, server, err := c.greet()
	if c.guest != nil {
		defer c.guest.Leave()
	}
	if err != nil {
		c.end(err)
		return
	}
	c.session = c.front.audit.Begin(c.client, natsProtocol, c.outer.RemoteAddr().String())
	defer func() {
		c.session.Bytes.Store(c.said.Load())
		c.session.End()
	}()
	c.greeted.Store(true)
	if c.front.draining.Load() {
		c.leave(0)
	}
	c.relay(client, server)
}

// greet shakes hands with both sides. It returns what was read of the client and the
// server beyond that.
func (c *conn) greet() (client, server []byte, err error) {
	s := c.front.settings.Load()
	if err := c.outer.SetDeadline(time.Now().Add(greetTimeout)); err != nil {
		return nil, nil, err
	}
	if c.front.draining.Load() {
		return nil, nil, ErrClosed // The deadline of leave, which is shorter, may have been replaced.
	}
	args, server, err := readFirst(c.inner, fromServer, opInfo)
	if err != nil {
		return nil, nil, fmt.Errorf("read what the store says: %w", err)
	}
	info, err := c.info(args, false)
	if err != nil {
		return nil, nil, err
	}
	var asks struct {
		Nonce    string `json:"nonce"`
		ClientID uint64 `json:"client_id"`
	}
	if err := json.Unmarshal(args, &asks); err != nil {
		return nil, nil, fmt.Errorf("read what the store says of itself: %w", err)
	}
	c.serverID = asks.ClientID
	if _, err := c.outer.Write(info); err != nil {
		return nil, nil, err
	}
	var certificate *Credential
	if config := c.front.tlsConfig(s); config != nil {
		secured := tls.Server(c.outer, config)
		if err := secured.HandshakeContext(c.front.context); err != nil {
			if _, refused := errors.AsType[*tls.CertificateVerificationError](err); refused {
				err = fmt.Errorf("%w: %w", errCertificate, err)
			}
			return nil, nil, fmt.Errorf("TLS: %w", err)
		}
		state := secured.ConnectionState()
		if certificate = Certificate(&state); certificate != nil {
			certificate.vouched.Store(s)
		}
		c.outer = secured
	}
	args, client, err = readFirst(c.outer, fromClient, opConnect)
	if err != nil {
		return nil, nil, err
	}
	connect, err := c.connect(args, certificate, asks.Nonce)
	if err != nil {
		return nil, nil, err
	}
	if _, err := c.inner.Write(connect); err != nil {
		return nil, nil, fmt.Errorf("say who it is to the store: %w", err)
	}
	return client, server, c.outer.SetDeadline(time.Time{})
}

// readFirst reads the operation that a side begins with, and what comes with it.
func readFirst(from io.Reader, who peer, want kind) (args, rest []byte, err error) {
	buf := make([]byte, 0, 1<<smallestBuffer)
	for {
		var op operation
		if _, err := op.read(buf, who, maxConnect); err != nil {
			return nil, nil, err
		}
		if op.raw != nil && op.kind != want {
			return nil, nil, fmt.Errorf("%w: it begins with %.20q", errProtocol, op.raw)
		}
		if op.raw != nil {
			return op.args, buf[len(op.raw):], nil
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if n == 0 && err != nil {
			return nil, nil, err
		}
	}
}

// info returns what a client is told of the server: what that says, as far as it is true
// of the front.
func (c *conn) info(args []byte, ending bool) ([]byte, error) {
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("read what the store says of itself: %w", err)
	}
	s := c.front.settings.Load()
	for _, name := range []string{
		"nonce", "connect_urls", "ws_connect_urls", "client_ip", "ip", "xkey", "tls_available", "tls_verify",
	} {
		delete(fields, name)
	}
	fields["host"], fields["port"] = "", 0
	if tcp, ok := c.outer.LocalAddr().(*net.TCPAddr); ok {
		fields["host"], fields["port"] = tcp.IP.String(), tcp.Port
	}
	fields["max_payload"] = s.MaxMessageSize
	fields["auth_required"] = !s.Open
	fields["tls_required"] = c.front.options.Certificate != nil
	if ending {
		fields["ldm"] = true
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	args = bytes.Clone(args)
	c.lastInfo.Store(&args)
	return append(append([]byte("INFO "), out...), "\r\n"...), nil
}

// connect returns what the server is told of a client that may come in.
func (c *conn) connect(args []byte, certificate *Credential, nonce string) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(args, &fields); err != nil || fields == nil {
		return nil, fmt.Errorf("%w: CONNECT without a JSON object", errProtocol)
	}
	var said struct {
		Token   string `json:"auth_token"`
		Name    string `json:"name"`
		Headers bool   `json:"headers"`
	}
	if err := json.Unmarshal(args, &said); err != nil {
		return nil, fmt.Errorf("%w: CONNECT: %w", errProtocol, err)
	}
	c.guest = c.front.Watch(func(client roles.Client) { go c.revoked(client) }, Token(said.Token), certificate)
	if c.client = c.guest.Client(); c.client.Operations == roles.None {
		return nil, errAuthentication
	}
	c.headers = said.Headers
	for word := range strings.FieldsSeq(said.Name) {
		c.acceptsStored = c.acceptsStored || word == acceptWord
	}
	kept := make(map[string]any)
	for _, name := range []string{"verbose", "pedantic", "name", "lang", "version", "protocol", "echo", "no_responders"} {
		if value, ok := fields[name]; ok {
			kept[name] = value
		}
	}
	if !said.Headers {
		delete(kept, "no_responders")
	}
	// Without headers the form of messages would be lost.
	kept["headers"] = true
	if err := c.front.options.Server.Introduce(kept, nonce); err != nil {
		return nil, fmt.Errorf("say who it is to the store: %w", err)
	}
	out, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	return append(append([]byte("CONNECT "), out...), "\r\n"...), nil
}
