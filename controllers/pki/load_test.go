// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/pki"
)

// installation is an operator's namespace, its CA as first made, and the manager that made it.
type installation struct {
	options  pki.Options
	clock    *clocktesting.FakeClock
	recorder *events.FakeRecorder
	running  *pki.Authority
	first    *pki.CA
}

func install(t *testing.T) *installation {
	t.Helper()
	i := &installation{recorder: events.NewFakeRecorder(100)}
	i.options, i.clock = options()
	i.options.Recorder = i.recorder
	i.running = pki.NewAuthority(i.options)
	var err error
	if i.first, err = i.running.CA(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.reported(t, "Normal CACreated")
	return i
}

// after is the CA that the manager uses once it reads the Secret again; restarted: a new process that holds nothing in
// memory.
func (i *installation) after(t *testing.T, restarted bool) (*pki.CA, error) {
	t.Helper()
	if restarted {
		i.running = pki.NewAuthority(i.options)
	}
	i.clock.Step(2 * time.Minute)
	return i.running.CA(t.Context())
}

func (i *installation) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	err := i.options.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: pki.CAName}, secret)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return secret
}

func (i *installation) published(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	published := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: namespace, Name: pki.CAName}
	if err := i.options.Client.Get(t.Context(), key, published); err != nil {
		t.Fatal(err)
	}
	return published
}

func (i *installation) lose(t *testing.T, object client.Object) {
	t.Helper()
	object.SetNamespace(namespace)
	object.SetName(pki.CAName)
	if err := i.options.Client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// spoil puts something in the Secret that is not a CA's key pair.
func (i *installation) spoil(t *testing.T) {
	t.Helper()
	secret := i.secret(t)
	secret.Data[corev1.TLSPrivateKeyKey] = []byte("not a key")
	if err := i.options.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

func (i *installation) allowReplacing(t *testing.T) {
	t.Helper()
	published := i.published(t)
	metav1.SetMetaDataAnnotation(&published.ObjectMeta, pki.ReplaceCAAnnotation, "true")
	if err := i.options.Client.Update(t.Context(), published); err != nil {
		t.Fatal(err)
	}
}

// reported checks that an event begins with those words, and drains the rest.
func (i *installation) reported(t *testing.T, want string) {
	t.Helper()
	var seen []string
	for {
		select {
		case event := <-i.recorder.Events:
			seen = append(seen, event)
			continue
		default:
		}
		break
	}
	for _, event := range seen {
		if strings.HasPrefix(event, want) {
			return
		}
	}
	t.Errorf("no event %q; there are %q", want, seen)
}

var losses = map[string]func(*installation, *testing.T){
	"deleted":    func(i *installation, t *testing.T) { i.lose(t, &corev1.Secret{}) },
	"unreadable": (*installation).spoil,
}

// H3: a manager that runs writes the CA back that it holds: peers and agents keep trusting this cluster.
func TestLostCAIsWrittenBackByARunningManager(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			i := install(t)
			before := i.secret(t)
			lose(i, t)
			ca, err := i.after(t, false)
			if err != nil || !ca.Certificate.Equal(i.first.Certificate) {
				t.Fatalf("another CA, or none: %v", err)
			}
			after := i.secret(t)
			for key, value := range before.Data {
				if string(after.Data[key]) != string(value) {
					t.Errorf("%s of the Secret is not what it was", key)
				}
			}
			i.reported(t, "Warning CARestored")
			if restarted, err := i.after(t, true); err != nil || !restarted.Certificate.Equal(i.first.Certificate) {
				t.Errorf("a manager that starts later uses another CA: %v", err)
			}
		})
	}
}

// H3: a manager that starts and finds that there was a CA makes no other one.
func TestLostCAIsNotReplacedByARestartedManager(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			i := install(t)
			backup := i.secret(t)
			lose(i, t)
			before := i.secret(t)
			for range 2 {
				if _, err := i.after(t, true); !errors.Is(err, pki.ErrCALost) {
					t.Fatalf("error %v", err)
				}
				i.reported(t, "Warning CALost")
			}
			if after := i.secret(t); string(after.Data[corev1.TLSCertKey]) != string(before.Data[corev1.TLSCertKey]) {
				t.Error("the Secret was written")
			}
			if i.published(t).Data[pki.CAKey] != string(i.first.CertificatePEM) {
				t.Error("another CA is published")
			}
			// An administrator restores the Secret from a backup.
			restored := i.secret(t)
			restored.Namespace, restored.Name, restored.Data = namespace, pki.CAName, backup.Data
			var err error
			if restored.ResourceVersion == "" {
				err = i.options.Client.Create(t.Context(), restored)
			} else {
				err = i.options.Client.Update(t.Context(), restored)
			}
			if err != nil {
				t.Fatal(err)
			}
			if ca, err := i.running.CA(t.Context()); err != nil || !ca.Certificate.Equal(i.first.Certificate) {
				t.Errorf("the restored CA is not used: %v", err)
			}
		})
	}
}

// H3: an administrator asks for another CA, once.
func TestLostCAIsReplacedWhenToldTo(t *testing.T) {
	for name, lose := range losses {
		for _, restarted := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				i := install(t)
				i.allowReplacing(t)
				if same, err := i.after(t, restarted); err != nil || !same.Certificate.Equal(i.first.Certificate) {
					t.Fatalf("the annotation alone replaced the CA: %v", err)
				}
				lose(i, t)
				second, err := i.after(t, restarted)
				if err != nil || second.Certificate.Equal(i.first.Certificate) {
					t.Fatalf("no other CA: %v", err)
				}
				i.reported(t, "Warning CAReplaced")
				published := i.published(t)
				if published.Data[pki.CAKey] != string(second.CertificatePEM) {
					t.Error("another CA is published than is used")
				}
				if _, ok := published.Annotations[pki.ReplaceCAAnnotation]; ok {
					t.Error("the annotation is good for another time")
				}
				lose(i, t)
				if _, err := i.after(t, true); !errors.Is(err, pki.ErrCALost) {
					t.Errorf("error %v after the second loss", err)
				}
			})
		}
	}
}

// TestCAReplacedByHandUsesUpTheAnnotation: what was allowed for one replacement is not left for a later accident.
func TestCAReplacedByHandUsesUpTheAnnotation(t *testing.T) {
	i := install(t)
	i.allowReplacing(t)
	_, pair, err := pki.NewCA("east", now)
	if err != nil {
		t.Fatal(err)
	}
	secret := i.secret(t)
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = pair.CertificatePEM, pair.KeyPEM
	if err := i.options.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if ca, err := i.after(t, false); err != nil || !ca.Certificate.Equal(pair.Leaf) {
		t.Fatalf("the new CA is not used: %v", err)
	}
	if _, ok := i.published(t).Annotations[pki.ReplaceCAAnnotation]; ok {
		t.Error("the annotation is left")
	}
}

// TestLostPublication: the ConfigMap alone holds nothing that cannot be made of the Secret.
func TestLostPublication(t *testing.T) {
	i := install(t)
	i.lose(t, &corev1.ConfigMap{})
	if ca, err := i.after(t, true); err != nil || !ca.Certificate.Equal(i.first.Certificate) {
		t.Fatal(err)
	}
	if i.published(t).Data[pki.CAKey] != string(i.first.CertificatePEM) {
		t.Error("another CA is published")
	}
}

// TestGivenCAIsNeverWritten: a CA that an administrator gives by name is theirs to restore.
func TestGivenCAIsNeverWritten(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		i := install(t)
		i.options.SecretName = pki.CAName
		i.running = pki.NewAuthority(i.options)
		if _, err := i.running.CA(t.Context()); err != nil {
			t.Fatal(err)
		}
		i.allowReplacing(t)
		i.lose(t, &corev1.Secret{})
		if _, err := i.after(t, restarted); !errors.Is(err, pki.ErrCANotFound) {
			t.Errorf("error %v", err)
		}
		if i.secret(t).Name != "" {
			t.Error("the Secret was made")
		}
	}
}

// TestCAThatAppearsMeanwhile: of two managers, the one that is slower uses what it finds.
func TestCAThatAppearsMeanwhile(t *testing.T) {
	i := install(t)
	i.lose(t, &corev1.Secret{})
	_, pair, err := pki.NewCA("east", now)
	if err != nil {
		t.Fatal(err)
	}
	late := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pki.CAName},
		Data:       map[string][]byte{corev1.TLSCertKey: pair.CertificatePEM, corev1.TLSPrivateKeyKey: pair.KeyPEM},
	}
	i.options.Client = racing{i.options.Client, late}
	other := pki.NewAuthority(i.options)
	i.allowReplacing(t)
	if ca, err := other.CA(context.Background()); err != nil || !ca.Certificate.Equal(pair.Leaf) {
		t.Errorf("the Secret that was there first is not used: %v", err)
	}
}

// racing creates an object before another of its kind is created.
type racing struct {
	client.Client
	first *corev1.Secret
}

func (r racing) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if _, ok := object.(*corev1.Secret); ok {
		if err := r.Client.Create(ctx, r.first.DeepCopy()); err != nil {
			return err
		}
	}
	return r.Client.Create(ctx, object, options...)
}
