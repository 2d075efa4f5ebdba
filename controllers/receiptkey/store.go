// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package receiptkey keeps the keys with which the manager signs receipts: the private ones in a Secret of the
// operator's namespace, which no agent mounts, and all public ones that there ever were in a ConfigMap beside it.
//
// A key signs for Period and is valid for Overlap longer. The next one is published Overlap before it signs, so that
// verifiers have it in time.
package receiptkey

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lighterage/lighterage/controllers/receipt"
)

// +kubebuilder:rbac:groups="",namespace=lighterage-system,resources=secrets;configmaps,verbs=get;create;update

const (
	// Name of the Secret and of the ConfigMap.
	Name = "lighterage-receipt-keys"
	// PublicKey is the key in the ConfigMap; its value is a receipt.KeySet.
	PublicKey = "keys.json"
	// Period is how long a key signs.
	Period = 365 * 24 * time.Hour
	// Overlap is how long a key is published before, and valid after, its Period.
	Overlap = 30 * 24 * time.Hour

	pemType = "PRIVATE KEY"
	// pause between rounds of Start, and after an error.
	pause      = time.Hour
	errorPause = 10 * time.Second
)

// ErrNoKey is returned when no key may sign now.
var ErrNoKey = errors.New("there is no receipt key that is valid now")

// Options of a Store.
type Options struct {
	Client client.Client
	// Reader reads past the cache.
	Reader    client.Reader
	Clock     clock.WithTicker
	Namespace string
	// Cluster is this cluster's name in identities.
	Cluster string
}

// Store makes, rotates and gives out the keys. It holds none in memory. As a controller-runtime Runnable, it needs
// leader election.
type Store struct {
	options Options
}

// New returns a Store; it touches nothing yet.
func New(o Options) *Store { return &Store{options: o} }

// keys is what the two objects hold.
type keys struct {
	secret    *corev1.Secret
	configMap *corev1.ConfigMap
	public    *receipt.KeySet
}

// Signing returns the key to sign with now, and makes the first one.
func (s *Store) Signing(ctx context.Context) (receipt.PrivateKey, error) {
	now := s.options.Clock.Now()
	held, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	if id := held.signing(now); id != "" {
		return held.private(id)
	}
	if err := s.Ensure(ctx); err != nil {
		return nil, err
	}
	if held, err = s.read(ctx); err != nil {
		return nil, err
	}
	if id := held.signing(now); id != "" {
		return held.private(id)
	}
	return nil, fmt.Errorf("%w; was the clock set back?", ErrNoKey)
}

// Private returns the key with an identifier, with which a part was begun.
func (s *Store) Private(ctx context.Context, id string) (receipt.PrivateKey, error) {
	held, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	return held.private(id)
}

// Public returns all public keys that there ever were.
func (s *Store) Public(ctx context.Context) (*receipt.KeySet, error) {
	held, err := s.read(ctx)
	return held.public, err
}

// Ensure makes the keys that are due, publishes them and removes private ones that may not sign any more. It is
// idempotent. A key is published before it is used, and never taken back.
func (s *Store) Ensure(ctx context.Context) error {
	held, err := s.read(ctx)
	if err != nil {
		return err
	}
	now := s.options.Clock.Now()
	if err := s.publishHeld(ctx, &held, now); err != nil {
		return err
	}
	begin, due := held.due(now)
	if !due {
		return s.dropExpired(ctx, &held, now)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("making a receipt key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return fmt.Errorf("encoding a receipt key: %w", err)
	}
	id := receipt.PrivateKey(private).ID()
	if err := s.publish(ctx, &held, s.describe(id, begin)); err != nil {
		return err
	}
	// A crash here leaves a public key that nobody has the private one of: harmless, as it signs nothing.
	return s.writeSecret(ctx, &held, func(data map[string][]byte) {
		data[id] = pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der})
	})
}

// describe returns the public key that begins to sign at a time.
func (s *Store) describe(id string, begin time.Time) receipt.PublicKey {
	return receipt.PublicKey{
		KeyID: id, Cluster: s.options.Cluster, NotBefore: receipt.At(begin),
		NotAfter: receipt.At(begin.Add(Period + Overlap)),
	}
}

// publishHeld publishes private keys that the ConfigMap lacks, as it does when it was lost or is older than the
// Secret. How old they are is not known then: they are valid from now on, and what they signed before does not
// verify with this publication.
func (s *Store) publishHeld(ctx context.Context, held *keys, now time.Time) error {
	for id := range held.secret.Data {
		if _, err := held.private(id); err != nil || held.public.Find(id) != nil {
			continue
		}
		if err := s.publish(ctx, held, s.describe(id, now)); err != nil {
			return err
		}
	}
	return nil
}

// due says whether another key is to be made, and from when on it signs.
func (k *keys) due(now time.Time) (begin time.Time, due bool) {
	last := time.Time{}
	for _, key := range k.public.Keys {
		if _, held := k.secret.Data[key.KeyID]; held && key.NotBefore.After(last) {
			last = key.NotBefore.Time
		}
	}
	switch next := last.Add(Period); {
	case last.IsZero() || now.After(next):
		return now, true
	case now.Before(last):
		// The clock was set back by more than the next key is ahead, or the last one has not begun.
		return now, k.signing(now) == ""
	case now.After(next.Add(-Overlap)):
		return next, true
	}
	return time.Time{}, false
}

// signing is the newest key that is held and valid; empty if there is none.
func (k *keys) signing(now time.Time) string {
	var best receipt.PublicKey
	for _, key := range k.public.Keys {
		if _, held := k.secret.Data[key.KeyID]; held && key.Valid(now) && key.NotBefore.After(best.NotBefore.Time) {
			best = key
		}
	}
	return best.KeyID
}

// private returns a private key of the Secret.
func (k *keys) private(id string) (receipt.PrivateKey, error) {
	block, rest := pem.Decode(k.secret.Data[id])
	if block == nil || block.Type != pemType || len(rest) > 0 {
		return nil, fmt.Errorf("%w: Secret %s/%s has no private key %s; restore it from a backup", ErrNoKey,
			k.secret.Namespace, k.secret.Name, id)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok || receipt.PrivateKey(key).ID() != id {
		return nil, fmt.Errorf("%w: what Secret %s/%s has under %s is not that key", ErrNoKey, k.secret.Namespace,
			k.secret.Name, id)
	}
	return receipt.PrivateKey(key), nil
}

// read reads both objects; what is missing is empty and has no resource version.
func (s *Store) read(ctx context.Context) (keys, error) {
	meta := metav1.ObjectMeta{Namespace: s.options.Namespace, Name: Name, Labels: map[string]string{
		"app.kubernetes.io/name": "lighterage", "app.kubernetes.io/managed-by": "lighterage-manager",
	}}
	k := keys{
		secret:    &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque},
		configMap: &corev1.ConfigMap{ObjectMeta: meta},
		public:    &receipt.KeySet{},
	}
	for _, object := range []client.Object{k.secret, k.configMap} {
		if err := s.options.Reader.Get(ctx, client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
			return k, fmt.Errorf("reading %T %s/%s: %w", object, s.options.Namespace, Name, err)
		}
	}
	if text, ok := k.configMap.Data[PublicKey]; ok {
		var err error
		// One that cannot be read is never replaced: it may be all that is left of former keys.
		if k.public, err = receipt.ParseKeySet([]byte(text)); err != nil {
			return k, fmt.Errorf("ConfigMap %s/%s has no set of keys under %s; restore it from a backup: %w",
				s.options.Namespace, Name, PublicKey, err)
		}
	}
	return k, nil
}

// publish adds a public key to the ConfigMap.
func (s *Store) publish(ctx context.Context, k *keys, key receipt.PublicKey) error {
	set := &receipt.KeySet{Keys: append(slices.Clone(k.public.Keys), key)}
	text, err := set.Encode()
	if err != nil {
		return err
	}
	if k.configMap.Data == nil {
		k.configMap.Data = map[string]string{}
	}
	k.configMap.Data[PublicKey] = string(text)
	if err := s.write(ctx, k.configMap); err != nil {
		return err
	}
	k.public = set
	return nil
}

// dropExpired removes private keys that are not valid any more.
func (s *Store) dropExpired(ctx context.Context, k *keys, now time.Time) error {
	var expired []string
	for _, key := range k.public.Keys {
		if _, held := k.secret.Data[key.KeyID]; held && now.After(key.NotAfter.Time) {
			expired = append(expired, key.KeyID)
		}
	}
	if len(expired) == 0 {
		return nil
	}
	return s.writeSecret(ctx, k, func(data map[string][]byte) {
		for _, id := range expired {
			delete(data, id)
		}
	})
}

func (s *Store) writeSecret(ctx context.Context, k *keys, change func(map[string][]byte)) error {
	if k.secret.Data == nil {
		k.secret.Data = map[string][]byte{}
	}
	change(k.secret.Data)
	return s.write(ctx, k.secret)
}

// write creates an object or updates the version that was read.
func (s *Store) write(ctx context.Context, object client.Object) error {
	var err error
	if object.GetResourceVersion() == "" {
		err = s.options.Client.Create(ctx, object)
	} else {
		err = s.options.Client.Update(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("writing %T %s/%s: %w", object, s.options.Namespace, Name, err)
	}
	return nil
}

// Start keeps the keys until the context ends.
func (s *Store) Start(ctx context.Context) error {
	for {
		wait := pause
		if err := s.rotate(ctx); err != nil {
			log.FromContext(ctx).Error(err, "Receipt keys cannot be renewed, trying again soon")
			wait = errorPause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.options.Clock.After(wait):
		}
	}
}

// rotate is Ensure, without what another manager did at the same time.
func (s *Store) rotate(ctx context.Context) error {
	err := s.Ensure(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil // The next round looks again.
	}
	return err
}

// NeedLeaderElection keeps managers that do not lead from writing.
func (s *Store) NeedLeaderElection() bool { return true }
