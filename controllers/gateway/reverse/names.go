// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

const (
	// dataSuffix is that of the server names of data connections.
	dataSuffix = ".data.lighterage.internal"
	// A label holds the seconds of the time, a nonce, the address of who waits, and the first bytes of a MAC: 39 bytes
	// with IPv6, which fill the 63 characters that a label may have.
	timeBytes, nonceBytes, macBytes = 4, 5, 12
	headBytes                       = timeBytes + nonceBytes
	macOf                           = "lighterage data connection\n"
	// maxNameAge is how far the time of a name may be off: longer than it is waited for, by clocks that differ.
	maxNameAge = 30 * time.Second
)

var labels = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Names makes server names of data connections. Nobody without the key can make one or guess one.
type Names struct {
	// Key that the replicas share.
	Key func() ([]byte, error)
	// Own is where the other replicas reach this one's port for other clusters. The zero value: there are no others.
	Own netip.AddrPort
	// Clock by which names expire; nil: the real one.
	Clock clock.PassiveClock
}

func (n Names) now() time.Time {
	if n.Clock == nil {
		return time.Now()
	}
	return n.Clock.Now()
}

// New returns a name that was never used.
func (n Names) New() (string, error) {
	key, err := n.Key()
	if err != nil {
		return "", fmt.Errorf("making the name of a data connection: %w", err)
	}
	label := make([]byte, headBytes, headBytes+18+macBytes)
	binary.BigEndian.PutUint32(label, uint32(n.now().Unix())) //nolint:gosec // good until 2106
	if _, err := rand.Read(label[timeBytes:]); err != nil {
		return "", fmt.Errorf("making the name of a data connection: %w", err)
	}
	if n.Own.IsValid() {
		own, err := n.Own.MarshalBinary()
		if err != nil {
			return "", fmt.Errorf("making the name of a data connection: %w", err)
		}
		label = append(label, own...)
	}
	label = append(label, mac(key, label)...)
	return labels.EncodeToString(label) + dataSuffix, nil
}

func mac(key, of []byte) []byte {
	sum := hmac.New(sha256.New, key)
	// A hash never fails to take what is written.
	_, _ = sum.Write([]byte(macOf))
	_, _ = sum.Write(of)
	return sum.Sum(nil)[:macBytes]
}

// Owner returns which replica waits, or waited a moment ago, for the connection with a name; ok is false for any other
// name.
func (n Names) Owner(serverName string) (owner netip.AddrPort, ok bool) {
	text, found := strings.CutSuffix(serverName, dataSuffix)
	if !found {
		return owner, false
	}
	label, err := labels.DecodeString(text)
	if err != nil || len(label) < headBytes+macBytes {
		return owner, false
	}
	key, err := n.Key()
	if err != nil {
		return owner, false
	}
	signed, given := label[:len(label)-macBytes], label[len(label)-macBytes:]
	if !hmac.Equal(mac(key, signed), given) {
		return owner, false
	}
	made := time.Unix(int64(binary.BigEndian.Uint32(signed)), 0)
	if n.now().Sub(made).Abs() > maxNameAge {
		return owner, false
	}
	if len(signed) == headBytes {
		return owner, true
	}
	if err := owner.UnmarshalBinary(signed[headBytes:]); err != nil || !owner.IsValid() || owner.Addr().Zone() != "" {
		return netip.AddrPort{}, false
	}
	return owner, true
}

// isDataName reports whether a name has the form of one; whether it is one only who has the key knows.
func isDataName(serverName string) bool {
	label, found := strings.CutSuffix(serverName, dataSuffix)
	_, err := labels.DecodeString(label)
	return found && err == nil && label != "" && len(label) <= 63
}

// clientHello is what a data connection begins with: a ClientHello with a server name, and nothing of which is secret.
// Load balancers that route TLS by server name pass it on.
func clientHello(serverName string) ([]byte, error) {
	kept := &writtenConn{}
	client := tls.Client(kept, &tls.Config{
		ServerName: serverName, MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519},
	})
	// It ends when the ClientHello is written and there is no answer.
	err := client.HandshakeContext(context.Background())
	if kept.Len() == 0 {
		return nil, fmt.Errorf("making a ClientHello: %w", err)
	}
	return kept.Bytes(), nil
}

// writtenConn keeps what is written and has nothing to be read.
type writtenConn struct {
	bytes.Buffer
}

var errNothing = errors.New("there is no other side")

func (*writtenConn) Read([]byte) (int, error)         { return 0, errNothing }
func (*writtenConn) Close() error                     { return nil }
func (*writtenConn) LocalAddr() net.Addr              { return nil }
func (*writtenConn) RemoteAddr() net.Addr             { return nil }
func (*writtenConn) SetDeadline(time.Time) error      { return nil }
func (*writtenConn) SetReadDeadline(time.Time) error  { return nil }
func (*writtenConn) SetWriteDeadline(time.Time) error { return nil }
