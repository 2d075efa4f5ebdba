// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentsecret writes the Secrets through which agents that run all the time get their configuration and
// identity. The manager may not read Secrets, so it remembers what it wrote.
package agentsecret

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/owned"
	"github.com/lighterage/lighterage/controllers/pki"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;update

const configKey = "config.json"

// rewriteInterval is how often a Secret is written again while agents do not come to do what it holds: it may have been
// deleted, and the manager may not look.
const rewriteInterval = 3 * time.Minute

// Keeper writes Secrets. It is safe for concurrent use.
type Keeper struct {
	// Client writes. Secrets are never read.
	Client client.Client
	// Authority issues the certificates with which agents answer the manager; Lifetime is theirs, renewed at half of
	// it.
	Authority *pki.Authority
	Lifetime  time.Duration
	Clock     clock.PassiveClock
}

// State is what is remembered of one Secret. A manager that was started again reads from the holder what the Secret
// holds.
type State struct {
	// held is what the Secret holds, and written when it was written or read from the holder.
	held    held
	written time.Time
	// pair is empty until this manager has written the Secret.
	pair pki.KeyPair
	// noted is what the holder was last given.
	noted held
	// Settled: the agents were all seen to do what the Secret holds.
	Settled bool
}

// Numbered is a configuration with the generation of the one that the Secret holds, which it must be.
func Numbered[T dialer](s *State, config T) T {
	config = proto.CloneOf(config)
	number(config, s.held.Generation)
	return config
}

func number(config proto.Message, generation uint64) {
	switch config := config.(type) {
	case *wirev1.HTTPConfig:
		config.Generation = generation
	case *wirev1.QueueConfig:
		config.Generation = generation
	}
}

// next is the generation of a configuration that is written now. It follows the clock, so that it is higher than those
// of a manager whose note of them was lost, and never goes back when that is set back.
func (s *State) next(newest uint64, now time.Time) uint64 {
	return max(s.held.Generation+1, newest+1, uint64(max(now.UnixMilli(), 1)))
}

// Unchanged reports whether the Secret is as a manager that ran before has left it.
func (s *State) Unchanged() bool { return s.held != (held{}) && s.pair.Leaf == nil }

// Content is what a Secret is to hold.
type Content struct {
	// Identity of the agents, and the DNS names under which they serve.
	Identity    pki.Identity
	ServerNames []string
	// Config is what becomes config.json, and Revision names it.
	Config   proto.Message
	Revision string
	// Files are further ones, by their keys.
	Files map[string][]byte
	// Newest is the highest generation of a configuration that agents know.
	Newest uint64
}

// dialer is a configuration of agents that dial at the wish of a tenant.
type dialer interface {
	proto.Message
	*wirev1.HTTPConfig | *wirev1.QueueConfig
}

// Permit returns content with what agents may dial. It is written again when that changes, and agents act on it, while
// their reports and the record name the same revision.
func Permit[T dialer](c Content, config T, policy *wirev1.DialPolicy) (Content, error) {
	revision, err := Revision(policy)
	if err != nil {
		return c, err
	}
	config = proto.CloneOf(config)
	switch config := any(config).(type) {
	case *wirev1.HTTPConfig:
		config.DialPolicy = policy
	case *wirev1.QueueConfig:
		config.DialPolicy = policy
	}
	c.Config, c.Revision = config, c.Revision+"/"+revision
	return c, nil
}

// digest names all that the Secret holds but the key pair and the CA, and what the certificate is to say.
func (c Content) digest(lifetime time.Duration) string {
	sum := sha256.New()
	// A hash never fails to take what is written. Quotes and lengths keep one thing from passing for two.
	_, _ = fmt.Fprintf(sum, "%q %q %q %s\n", c.Revision, c.Identity, c.ServerNames, lifetime)
	for _, key := range slices.Sorted(maps.Keys(c.Files)) {
		_, _ = fmt.Fprintf(sum, "%q %d %s\n", key, len(c.Files[key]), c.Files[key])
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// Ensure writes a Secret when its configuration has changed or its certificate is to be renewed. It overwrites what may
// be there: the name must be that of no other's. The holder is an object in the manager's cache that is made with the
// agents; nil while there is none. It is told what the Secret holds, so that a manager that is started again writes
// nothing. The problem is what the API server has against the Secret.
func (k *Keeper) Ensure(
	ctx context.Context, state *State, meta metav1.ObjectMeta, content Content, holder client.Object,
) (*agentpod.Problem, error) {
	now := k.Clock.Now()
	ca, err := k.Authority.CA(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's CA: %w", err)
	}
	state.recall(holder, now, k.Lifetime)
	wanted := held{Digest: content.digest(k.Lifetime), CA: fingerprint(ca)}
	issue := state.held.CA != wanted.CA || !pki.FreshUntil(state.held.Issued, state.held.Expires, now)
	lost := !state.Settled && now.Sub(state.written) >= rewriteInterval
	wanted.Generation = state.held.Generation
	// Agents that know a newer one, of which there is no note, would ignore this.
	if state.held.Digest != wanted.Digest || wanted.Generation > 0 && content.Newest > wanted.Generation {
		wanted.Generation = state.next(content.Newest, now)
	}
	if !issue && !lost && state.held.Digest == wanted.Digest && state.held.Generation == wanted.Generation {
		return nil, k.note(ctx, state, holder)
	}
	pair := state.pair
	if issue || pair.Leaf == nil {
		template := pki.Template{Identity: content.Identity, DNSNames: content.ServerNames, Lifetime: k.Lifetime}
		if pair, ca, err = k.Authority.Issue(ctx, template); err != nil {
			return nil, fmt.Errorf("issuing the certificate of %s: %w", content.Identity, err)
		}
	}
	numbered := proto.Clone(content.Config)
	number(numbered, wanted.Generation)
	config, err := wirev1.MarshalConfig(numbered)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration of %s: %w", content.Identity, err)
	}
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Type:       corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			configKey: config, corev1.TLSCertKey: pair.CertificatePEM, corev1.TLSPrivateKeyKey: pair.KeyPEM,
			pki.ClusterCAKey: ca.CertificatePEM,
		},
	}
	maps.Copy(secret.Data, content.Files)
	if err := k.write(ctx, secret); err != nil {
		return owned.Refusal(secret, err)
	}
	wanted.CA, wanted.Issued, wanted.Expires = fingerprint(ca), pki.Issued(pair.Leaf).UTC(), pair.Leaf.NotAfter.UTC()
	state.held, state.pair, state.written, state.Settled = wanted, pair, now, false
	return nil, k.note(ctx, state, holder)
}

func (k *Keeper) write(ctx context.Context, secret *corev1.Secret) error {
	err := k.Client.Create(ctx, secret.DeepCopy(), client.FieldOwner(conditions.FieldOwner))
	if apierrors.IsAlreadyExists(err) {
		err = k.Client.Update(ctx, secret, client.FieldOwner(conditions.FieldOwner))
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// Revision is a digest of a configuration, so that one that means the same is the same.
func Revision(config proto.Message) (string, error) {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("encoding the configuration of agents: %w", err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:6]), nil
}
