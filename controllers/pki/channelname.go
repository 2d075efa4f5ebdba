// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// ChannelKeyName is the key in GatewaySecret of what server names of channels are made with.
	ChannelKeyName = "channel.key"
	// channelKeyBytes and channelLabelBytes are the lengths of that key and of what of an HMAC is in a name.
	channelKeyBytes   = 32
	channelLabelBytes = 16
)

// ErrNoChannelKey is returned where the gateway's Secret holds no channel.key.
var ErrNoChannelKey = errors.New(
	"the gateway's Secret " + GatewaySecret + " holds no " + ChannelKeyName +
		" of 32 bytes; the manager that leads adds it within a minute",
)

// ChannelDomain is what the TLS server names of a Queue end with under which the Queues of other clusters reach it.
// Each caller has its own, one label longer, so that the gateway can end the connections of one whose grant was
// withdrawn.
func ChannelDomain(namespace, queue string) string {
	return queue + "." + namespace + queueSuffix
}

// ChannelServerName is the TLS server name of a Queue for the Queues in a namespace of a Peer. Who does not have the
// key cannot guess it.
func ChannelServerName(key []byte, peer, peerNamespace, namespace, queue string) string {
	return ChannelLabel(key, peer, peerNamespace, namespace, queue) + "." + ChannelDomain(namespace, queue)
}

// ChannelLabel is the first label of ChannelServerName.
func ChannelLabel(key []byte, peer, peerNamespace, namespace, queue string) string {
	mac := hmac.New(sha256.New, key)
	// None of them has a slash. A hash never fails to take what is written.
	_, _ = mac.Write([]byte(strings.Join([]string{peer, peerNamespace, namespace, queue}, "/")))
	return hex.EncodeToString(mac.Sum(nil)[:channelLabelBytes])
}

// OwnChannelServerName is the TLS server name of a Queue for the Queues of its own namespace. It may be guessed: members
// believe the certificates of their own cluster's CA alone under it, and no gateway passes it.
func OwnChannelServerName(namespace, queue string) string {
	return "own." + ChannelDomain(namespace, queue)
}

// ParseChannelServerName takes apart what ChannelServerName made. What it returns was not checked further.
func ParseChannelServerName(name string) (label, namespace, queue string, ok bool) {
	labels, found := strings.CutSuffix(name, queueSuffix)
	parts := strings.Split(labels, ".")
	if !found || len(parts) != 3 {
		return "", "", "", false
	}
	return parts[0], parts[2], parts[1], true
}

// ChannelKey returns the cluster's key for server names of channels, which Renewer makes. The error of a Secret
// without one matches ErrNoChannelKey.
func (a *Authority) ChannelKey(ctx context.Context) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.options.Clock.Now()
	if a.channelKey != nil && now.Sub(a.channelKeyLoaded) < caMaxAge {
		return a.channelKey, nil
	}
	key := client.ObjectKey{Namespace: a.options.Namespace, Name: GatewaySecret}
	secret := &corev1.Secret{}
	err := a.options.Reader.Get(ctx, key, secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	if err != nil || !hasChannelKey(secret) {
		return nil, ErrNoChannelKey
	}
	a.channelKey, a.channelKeyLoaded = secret.Data[ChannelKeyName], now
	return a.channelKey, nil
}

func hasChannelKey(secret *corev1.Secret) bool {
	return len(secret.Data[ChannelKeyName]) == channelKeyBytes
}

// keptChannelKey is the key in a Secret. Where there is none it is the last one that was read, else a new one.
func (a *Authority) keptChannelKey(secret *corev1.Secret) ([]byte, error) {
	if hasChannelKey(secret) {
		return secret.Data[ChannelKeyName], nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.channelKey != nil {
		return a.channelKey, nil
	}
	key := make([]byte, channelKeyBytes)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("making the key for server names of channels: %w", err)
	}
	return key, nil
}

// ChannelKeyFile is the channel.key in a directory, which is read again when it has changed there. It is safe for
// concurrent use.
type ChannelKeyFile struct {
	path string

	mu       sync.Mutex
	key      []byte
	modified time.Time
}

// NewChannelKeyFile returns the key in a directory. Nothing is read yet.
func NewChannelKeyFile(directory string) *ChannelKeyFile {
	return &ChannelKeyFile{path: filepath.Join(directory, ChannelKeyName)}
}

// Key returns the newest key that could be read. The error of a directory that never had one matches ErrNoChannelKey.
func (f *ChannelKeyFile) Key() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.key != nil && info.ModTime().Equal(f.modified) {
		return f.key, nil
	}
	var key []byte
	if err == nil && info.Size() == channelKeyBytes {
		key, err = os.ReadFile(f.path)
	}
	switch {
	case err == nil && len(key) == channelKeyBytes:
		f.key, f.modified = key, info.ModTime()
	case f.key != nil: // it is being replaced
	case err != nil:
		return nil, fmt.Errorf("%w (%w)", ErrNoChannelKey, err)
	default:
		return nil, ErrNoChannelKey
	}
	return f.key, nil
}
