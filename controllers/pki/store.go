// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names in the operator's namespace, and keys in Secrets and ConfigMaps.
const (
	// CAName is the name of the Secret with the CA, unless another is given, and of the ConfigMap with its public part.
	CAName = "lighterage-ca"
	// CAKey is the key of the public part in the ConfigMap.
	CAKey = "ca.crt"
	// ClusterCAKey and PeerCAKey are keys in the Secrets that agents and the gateway mount.
	ClusterCAKey = "cluster-ca.crt"
	PeerCAKey    = "peer-ca.crt"
)

// QueueCAName is the name of the ConfigMap, beside a Queue, with the public part of the CA under CAKey.
func QueueCAName(queue string) string { return queue + "-ca" }

// caMaxAge is how long a CA is used before its Secret is read again, so that a CA that was replaced is noticed.
const caMaxAge = time.Minute

// Authority gives out the cluster's CA and issues from it. It loads or makes the CA when it is first asked, and reads
// it again after a minute. A Secret that was lost meanwhile is written back. It is safe for concurrent use.
type Authority struct {
	options Options

	mu     sync.Mutex
	ca     *CA
	loaded time.Time
	// channelKey is the last one that was read.
	channelKey       []byte
	channelKeyLoaded time.Time
}

// NewAuthority returns an Authority; it touches nothing yet.
func NewAuthority(o Options) *Authority {
	return &Authority{options: o}
}

// Cluster is this cluster's name in identities.
func (a *Authority) Cluster() string {
	return a.options.Cluster
}

// CA returns the cluster's CA.
func (a *Authority) CA(ctx context.Context) (*CA, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.options.Clock.Now()
	if a.ca != nil && now.Sub(a.loaded) < caMaxAge {
		return a.ca, nil
	}
	ca, err := a.options.load(ctx, a.ca)
	if err != nil {
		return nil, err
	}
	a.ca, a.loaded = ca, now
	return ca, nil
}

// Issue makes a key pair, and returns it with the CA that issued it.
func (a *Authority) Issue(ctx context.Context, template Template) (KeyPair, *CA, error) {
	ca, err := a.CA(ctx)
	if err != nil {
		return KeyPair{}, nil, err
	}
	pair, err := ca.Issue(template, a.options.Clock.Now())
	return pair, ca, err
}

// EnsureServingSecret keeps a Secret with tls.crt, tls.key and cluster-ca.crt for who serves under dnsNames, and renews
// it when half of its lifetime is over or the CA has changed. That of the gateway has channel.key as well, which never
// changes. It is idempotent.
func (a *Authority) EnsureServingSecret(
	ctx context.Context, name string, identity Identity, lifetime time.Duration, dnsNames ...string,
) error {
	ca, err := a.CA(ctx)
	if err != nil {
		return err
	}
	now := a.options.Clock.Now()
	key := client.ObjectKey{Namespace: a.options.Namespace, Name: name}
	secret := &corev1.Secret{}
	err = a.options.Reader.Get(ctx, key, secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading Secret %s: %w", key, err)
	}
	exists := err == nil
	if exists && stillServes(secret, ca, identity, dnsNames, now) && (name != GatewaySecret || hasChannelKey(secret)) {
		return nil
	}
	pair, err := ca.Issue(Template{Identity: identity, DNSNames: dnsNames, Lifetime: lifetime}, now)
	if err != nil {
		return err
	}
	data := map[string][]byte{
		corev1.TLSCertKey:       pair.CertificatePEM,
		corev1.TLSPrivateKeyKey: pair.KeyPEM,
		ClusterCAKey:            ca.CertificatePEM,
	}
	if name == GatewaySecret { // it outlives certificates
		if data[ChannelKeyName], err = a.keptChannelKey(secret); err != nil {
			return err
		}
	}
	if exists {
		secret.Data = data
		err = a.options.Client.Update(ctx, secret)
	} else {
		err = a.options.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: labels()},
			Type:       corev1.SecretTypeTLS,
			Data:       data,
		})
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s: %w", key, err)
	}
	return nil
}

// stillServes says whether the certificate in the Secret is the right one and in the first half of its life.
func stillServes(secret *corev1.Secret, ca *CA, identity Identity, dnsNames []string, now time.Time) bool {
	if string(secret.Data[ClusterCAKey]) != string(ca.CertificatePEM) {
		return false
	}
	pair := KeyPair{CertificatePEM: secret.Data[corev1.TLSCertKey], KeyPEM: secret.Data[corev1.TLSPrivateKeyKey]}
	parsed, err := pair.TLS()
	if err != nil || parsed.Leaf == nil {
		return false
	}
	present, err := IdentityOf(parsed.Leaf)
	if err != nil || present != identity || !slices.Equal(parsed.Leaf.DNSNames, dnsNames) {
		return false
	}
	return parsed.Leaf.CheckSignatureFrom(ca.Certificate) == nil && Fresh(parsed.Leaf, now)
}

// Fresh says of a certificate that this cluster's CA issued that it needs no renewal: it is in the first half of its
// lifetime, and was not issued by a clock that was ahead and has been set back since, which would leave less of
// ClockSkew to peers that are behind.
func Fresh(leaf *x509.Certificate, now time.Time) bool {
	return FreshUntil(Issued(leaf), leaf.NotAfter, now)
}

// FreshUntil is Fresh for a certificate of which only this is known.
func FreshUntil(issued, expires, now time.Time) bool {
	return issued.Before(now.Add(maxAhead)) && now.Before(issued.Add(expires.Sub(issued)/2))
}

func labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "lighterage", "app.kubernetes.io/managed-by": "lighterage-manager"}
}
