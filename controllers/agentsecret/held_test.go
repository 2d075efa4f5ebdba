// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentsecret_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentsecret"
	"github.com/lighterage/lighterage/controllers/pki"
)

// kept is a Secret with its holder, looked after by managers that are started one after the other.
type kept struct {
	*testing.T
	store   client.WithWatch
	clock   *clocktesting.FakeClock
	holder  *corev1.ConfigMap
	content agentsecret.Content
	life    time.Duration
	writes  int
}

func keep(t *testing.T) *kept {
	k := &kept{
		T: t, clock: clocktesting.NewFakeClock(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)), life: 24 * time.Hour,
		holder: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "holder"}},
		content: agentsecret.Content{
			Identity: pki.QueueIdentity("east", "bank", "orders"), ServerNames: []string{pki.QueueServerName("uid")},
			Config: &wirev1.QueueConfig{Queue: "orders"}, Revision: "r1", Files: map[string][]byte{"peer-ca.crt": {1}},
		},
	}
	k.store = interceptor.NewClient(fake.NewClientBuilder().WithObjects(k.holder).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			k.writes++
			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			k.writes++
			return c.Update(ctx, object, options...)
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption,
		) error {
			k.writes++
			return c.Patch(ctx, object, patch, options...)
		},
	})
	k.restart(true)
	return k
}

// restart has a manager look twice that remembers nothing, and sees whether it writes.
func (k *kept) restart(writes bool) *agentsecret.State {
	k.Helper()
	keeper := &agentsecret.Keeper{
		Client: k.store, Lifetime: k.life, Clock: k.clock,
		Authority: pki.NewAuthority(
			pki.Options{Client: k.store, Reader: k.store, Clock: k.clock, Namespace: "operator", Cluster: "east"},
		),
	}
	state := &agentsecret.State{}
	if _, err := keeper.Authority.CA(k.Context()); err != nil { // made the first time
		k.Fatal(err)
	}
	k.writes = 0
	for range 2 {
		if err := k.store.Get(k.Context(), client.ObjectKeyFromObject(k.holder), k.holder); err != nil {
			k.Fatal(err)
		}
		problem, err := keeper.Ensure(
			k.Context(), state, metav1.ObjectMeta{Namespace: "bank", Name: "orders"}, k.content, k.holder,
		)
		if problem != nil || err != nil {
			k.Fatal(problem, err)
		}
	}
	if (k.writes > 0) != writes {
		k.Errorf("%d writes", k.writes)
	}
	if state.Unchanged() == writes {
		k.Errorf("unchanged: %v", state.Unchanged())
	}
	return state
}

func TestRestartWritesNothing(t *testing.T) {
	k := keep(t)
	k.restart(false)
	k.clock.Step(11 * time.Hour)
	k.restart(false)
	k.clock.Step(2 * time.Hour)
	k.restart(true) // the certificate is in the second half of its lifetime
	k.restart(false)
}

func TestRestartWithSomethingElse(t *testing.T) {
	for name, change := range map[string]func(*kept){
		"another configuration": func(k *kept) { k.content.Revision = "r2" },
		"another file":          func(k *kept) { k.content.Files = map[string][]byte{"peer-ca.crt": {2}} },
		"another server name":   func(k *kept) { k.content.ServerNames = []string{"other"} },
		"another identity":      func(k *kept) { k.content.Identity = pki.QueueIdentity("west", "bank", "orders") },
		"a shorter lifetime":    func(k *kept) { k.life = time.Hour },
		"another CA":            func(k *kept) { k.replaceCA() },
		"a holder made again":   func(k *kept) { k.annotate(func(string) string { return "" }) },
		"a record that is none": func(k *kept) { k.annotate(func(string) string { return "[" }) },
		"a record without times": func(k *kept) {
			k.annotate(func(old string) string { return strings.ReplaceAll(old, "2026", "0001") })
		},
		"a record of the future": func(k *kept) {
			k.annotate(func(old string) string { return strings.ReplaceAll(old, "2026", "2036") })
		},
		"a record of ever": func(k *kept) {
			k.annotate(func(old string) string { return strings.Replace(old, `"expires":"2026`, `"expires":"2036`, 1) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := keep(t)
			change(k)
			k.restart(true)
			k.restart(false)
		})
	}
}

func (k *kept) annotate(change func(string) string) {
	annotations := maps.Clone(k.holder.Annotations)
	for key, value := range annotations {
		annotations[key] = change(value)
	}
	k.holder.Annotations = annotations
	if err := k.store.Update(k.Context(), k.holder); err != nil {
		k.Fatal(err)
	}
}

func (k *kept) replaceCA() {
	ca, key, err := pki.NewCA("east", k.clock.Now())
	if err != nil {
		k.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := k.store.Get(k.Context(), client.ObjectKey{Namespace: "operator", Name: pki.CAName}, secret); err != nil {
		k.Fatal(err)
	}
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = ca.CertificatePEM, key.KeyPEM
	if err := k.store.Update(k.Context(), secret); err != nil {
		k.Fatal(err)
	}
}

// What the agents do not come to do is written again also by a manager that found it written.
func TestLostSecretIsWrittenAgain(t *testing.T) {
	k := keep(t)
	state := k.restart(false)
	keeper := &agentsecret.Keeper{
		Client: k.store, Lifetime: k.life, Clock: k.clock,
		Authority: pki.NewAuthority(
			pki.Options{Client: k.store, Reader: k.store, Clock: k.clock, Namespace: "operator", Cluster: "east"},
		),
	}
	k.clock.Step(4 * time.Minute)
	for settled, writes := range map[bool]bool{true: false, false: true} {
		before := *state
		before.Settled, k.writes = settled, 0
		if _, err := keeper.Ensure(
			t.Context(), &before, metav1.ObjectMeta{Namespace: "bank", Name: "orders"}, k.content, k.holder,
		); err != nil {
			t.Fatal(err)
		}
		if (k.writes > 0) != writes {
			t.Errorf("settled: %v, %d writes", settled, k.writes)
		}
	}
}

// generation is that of the configuration in the Secret.
func (k *kept) generation() uint64 {
	k.Helper()
	secret, config := &corev1.Secret{}, &wirev1.QueueConfig{}
	if err := k.store.Get(k.Context(), client.ObjectKey{Namespace: "bank", Name: "orders"}, secret); err != nil {
		k.Fatal(err)
	}
	if err := wirev1.UnmarshalConfig(secret.Data["config.json"], config); err != nil {
		k.Fatal(err)
	}
	return config.GetGeneration()
}

// TestGenerations: each configuration has a higher generation than those before, whatever clock and notes say, and one
// that stays has the one that it had.
func TestGenerations(t *testing.T) {
	k := keep(t)
	first := k.generation()
	if first != uint64(k.clock.Now().UnixMilli()) {
		t.Errorf("the first is %d", first)
	}
	k.clock.Step(13 * time.Hour)
	state := k.restart(true) // another certificate alone
	if got := k.generation(); got != first {
		t.Errorf("%d with another certificate, before %d", got, first)
	}
	if got := agentsecret.Numbered(state, &wirev1.QueueConfig{}).GetGeneration(); got != first {
		t.Errorf("%d is sent, and the Secret has %d", got, first)
	}
	k.clock.Step(-365 * 24 * time.Hour)
	k.content.Revision = "r2"
	k.restart(true)
	second := k.generation()
	if second <= first {
		t.Errorf("%d with the clock set back, before %d", second, first)
	}
	// Agents know one of which there is no note.
	k.content.Newest = second + 5
	k.restart(true)
	if got := k.generation(); got != second+6 {
		t.Errorf("%d, and agents know %d", got, second+5)
	}
	k.content.Newest = second + 6
	k.restart(false)
}
