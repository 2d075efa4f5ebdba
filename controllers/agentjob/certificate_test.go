// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentjob_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/plan"
)

func sending(t *testing.T, peers ...*pki.CA) agentjob.Certificate {
	t.Helper()
	wanted := agentjob.Certificate{
		Identity: pki.TransferIdentity("east", "bank", "ledger"), ServerName: pki.SendServerName("uid"),
		Claims: &pki.RunClaims{Run: "a2b3c", Namespace: "vault", Claim: "ledger-copy", Path: "/"},
	}
	for _, peer := range peers {
		wanted.PeerCA = append(wanted.PeerCA, peer.CertificatePEM...)
	}
	return wanted
}

func newCA(t *testing.T, cluster string) *pki.CA {
	t.Helper()
	ca, _, err := pki.NewCA(cluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func read(t *testing.T, c client.Client) (*corev1.Secret, *x509.Certificate) {
	t.Helper()
	found := &corev1.Secret{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "bank", Name: ownSecret()}, found); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(found.Data[corev1.TLSCertKey])
	if block == nil {
		return found, nil
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return found, leaf
}

// M1: the certificate of a run names the CAs of the cluster that may be asked: those of the Peer's caBundle, or its
// own.
func TestAudience(t *testing.T) {
	west, next := newCA(t, "west"), newCA(t, "west")
	for name, c := range map[string]struct {
		peers []*pki.CA
		want  []string
	}{
		"another cluster": {
			[]*pki.CA{west, next},
			[]string{pki.Fingerprint(west.Certificate), pki.Fingerprint(next.Certificate)},
		},
		"this cluster": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			store := newBuilder().Build()
			d := owner()
			problem, err := cluster(store).Start(
				t.Context(), d, plan.ReceiveAttempt(d, false, placement.Plan{}, agentpod.Image{}), sending(t, c.peers...),
			)
			if err != nil || problem != nil {
				t.Fatal(problem, err)
			}
			secret, leaf := read(t, store)
			if c.want == nil {
				block, _ := pem.Decode(secret.Data[pki.ClusterCAKey])
				ca, err := x509.ParseCertificate(block.Bytes)
				if err != nil {
					t.Fatal(err)
				}
				c.want = []string{pki.Fingerprint(ca)}
			}
			claims, err := wirev1.RunClaimsOf(leaf)
			if err != nil || !slices.Equal(claims.Audience, c.want) || claims.Run != "a2b3c" {
				t.Errorf("claims %+v, %v; want the audience %v", claims, err, c.want)
			}
		})
	}
	broken := sending(t)
	broken.PeerCA = []byte("not PEM")
	d := owner()
	problem, err := cluster(newBuilder().Build()).Start(
		t.Context(), d, plan.ReceiveAttempt(d, false, placement.Plan{}, agentpod.Image{}), broken,
	)
	if err != nil || problem == nil || problem.Reason != v1alpha1.ReasonInvalidCABundle {
		t.Errorf("a bundle that cannot be used: %+v, %v", problem, err)
	}
}

// M1: a renewal changes certificate, key and CAs, leaves the rest and reads nothing.
func TestRenew(t *testing.T) {
	west := newCA(t, "west")
	present := secret(ownSecret())
	present.Data["config.json"] = []byte("{}")
	store := newBuilder().WithObjects(present).Build()
	blind := interceptor.NewClient(store, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("the manager may not read Secrets here")
		},
	})
	c := cluster(blind)
	if err := c.Renew(t.Context(), owner(), own, sending(t, west)); err != nil {
		t.Fatal(err)
	}
	renewed, first := read(t, store)
	if string(renewed.Data["config.json"]) != "{}" || string(renewed.Data[pki.PeerCAKey]) != string(west.CertificatePEM) {
		t.Errorf("data %q", renewed.Data)
	}
	if err := c.Renew(t.Context(), owner(), own, sending(t, west)); err != nil {
		t.Fatal(err)
	}
	if _, second := read(t, store); second.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("the second renewal changed nothing")
	}
	// Somebody deleted it: the attempt that follows gets another one.
	if err := c.Renew(t.Context(), owner(), "gone", sending(t, west)); err != nil {
		t.Error(err)
	}
	if err := store.Get(
		t.Context(), client.ObjectKey{Namespace: "bank", Name: attempt.SecretName("gone", owner())}, &corev1.Secret{},
	); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("a Secret that was deleted: %v", err)
	}
}
