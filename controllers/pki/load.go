// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// ReplaceCAAnnotation with the value "true" on the ConfigMap with the CA's public part permits the manager to make
// another CA when the Secret is missing or cannot be read. It is removed with the first change of the published CA.
const ReplaceCAAnnotation = "lighterage.dev/replace-ca"

var (
	// ErrCANotFound is returned when the CA's Secret was given by name and does not exist.
	ErrCANotFound = errors.New("the CA's Secret does not exist")
	// ErrCALost is returned when this cluster had a CA whose Secret is missing or cannot be read. Another CA is not
	// made, because peers and agents would reject its certificates.
	ErrCALost = errors.New("the cluster's CA is lost")
)

// Reasons of events on the ConfigMap with the CA's public part.
const (
	reasonCreated  = "CACreated"
	reasonRestored = "CARestored"
	reasonReplaced = "CAReplaced"
	reasonLost     = "CALost"
)

// Options of LoadOrCreateCA and NewAuthority.
type Options struct {
	// Client writes.
	Client client.Client
	// Reader reads without a cache, so that no watch on Secrets is needed. mgr.GetAPIReader() is one.
	Reader client.Reader
	Clock  clock.PassiveClock
	// Recorder of what happens to the CA; nil: nobody is told.
	Recorder events.EventRecorder
	// Namespace of the operator.
	Namespace string
	// SecretName of a given CA. Empty: CAName, which is made when this cluster never had one.
	SecretName string
	// Cluster is this cluster's name in identities.
	Cluster string
}

// +kubebuilder:rbac:groups="",namespace=lighterage-system,resources=secrets,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=lighterage-system,resources=configmaps,verbs=get;create;update

// LoadOrCreateCA returns the CA and publishes its public part. It makes a CA when none was given and this cluster never
// had one, or when the one that it had is lost and may be replaced; see ReplaceCAAnnotation. It is idempotent, and safe
// when two do it at once.
func LoadOrCreateCA(ctx context.Context, o Options) (*CA, error) {
	return o.load(ctx, nil)
}

// load is LoadOrCreateCA for who may hold the CA in memory: it is written back when the Secret is lost.
func (o Options) load(ctx context.Context, held *CA) (*CA, error) {
	secret, err := o.readSecret(ctx)
	if err != nil {
		return nil, err
	}
	published, err := o.readPublished(ctx)
	if err != nil {
		return nil, err
	}
	var ca *CA
	unusable := fmt.Errorf("%w: it is missing", ErrCANotFound)
	if secret != nil {
		ca, unusable = ParseCA(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	}
	switch {
	case unusable == nil:
	case o.SecretName != "":
		return nil, o.givenUnusable(secret, unusable)
	default:
		if ca, err = o.recover(ctx, held, secret, published, unusable); err != nil {
			return nil, err
		}
	}
	return ca, o.publish(ctx, published, ca)
}

// key of the Secret with the CA.
func (o Options) key() client.ObjectKey {
	if o.SecretName == "" {
		return client.ObjectKey{Namespace: o.Namespace, Name: CAName}
	}
	return client.ObjectKey{Namespace: o.Namespace, Name: o.SecretName}
}

// readSecret returns nil when there is none.
func (o Options) readSecret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := o.Reader.Get(ctx, o.key(), secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the CA's Secret %s: %w", o.key(), err)
	}
	return secret, nil
}

// readPublished returns nil when there is none.
func (o Options) readPublished(ctx context.Context) (*corev1.ConfigMap, error) {
	published := &corev1.ConfigMap{}
	err := o.Reader.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: CAName}, published)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s with the CA's public part: %w", o.Namespace, CAName, err)
	}
	return published, nil
}

func (o Options) givenUnusable(secret *corev1.Secret, unusable error) error {
	if secret == nil {
		return fmt.Errorf("%w: create Secret %s of type kubernetes.io/tls with the CA's tls.crt and tls.key",
			ErrCANotFound, o.key())
	}
	return fmt.Errorf("using Secret %s: %w", o.key(), unusable)
}

// recovery is what to do about a Secret that is missing or cannot be read.
type recovery int

const (
	refuseRecovery recovery = iota
	makeFirst
	makeAnother
	writeBack
)

// decideRecovery is pure. The annotation has priority over what the manager holds: an administrator who wants another
// CA annotates the ConfigMap and deletes the Secret. A CA that is not the published one, as a manager that stands by
// may hold after a rotation, is not written back.
func decideRecovery(held *CA, secret *corev1.Secret, published *corev1.ConfigMap) recovery {
	switch {
	case published != nil && published.Annotations[ReplaceCAAnnotation] == "true":
		return makeAnother
	case held != nil && (published == nil || published.Data[CAKey] == string(held.CertificatePEM)):
		return writeBack
	case published == nil && secret == nil:
		return makeFirst
	}
	return refuseRecovery
}

// recover does what decideRecovery says, and tells.
func (o Options) recover(
	ctx context.Context, held *CA, secret *corev1.Secret, published *corev1.ConfigMap, unusable error,
) (*CA, error) {
	decision := decideRecovery(held, secret, published)
	switch decision {
	case refuseRecovery:
		err := o.lost(published, unusable)
		o.tell(published, corev1.EventTypeWarning, reasonLost, "%s", err)
		return nil, err
	case writeBack:
		pair := KeyPair{CertificatePEM: held.CertificatePEM, KeyPEM: held.keyPEM}
		message := fmt.Sprintf("Secret %s could not be used (%s); the manager wrote the CA back that it holds in memory",
			o.key(), unusable)
		return o.write(ctx, secret, pair, note{published, corev1.EventTypeWarning, reasonRestored, message})
	}
	_, pair, err := NewCA(o.Cluster, o.Clock.Now())
	if err != nil {
		return nil, err
	}
	if decision == makeFirst {
		return o.write(ctx, nil, pair, note{nil, corev1.EventTypeNormal, reasonCreated,
			fmt.Sprintf("the manager made a CA in Secret %s; back it up", o.key())})
	}
	message := fmt.Sprintf("Secret %s could not be used (%s); the manager made another CA because of the annotation %s. "+
		"Give ca.crt of this ConfigMap to every Peer of this cluster", o.key(), unusable, ReplaceCAAnnotation)
	return o.write(ctx, secret, pair, note{published, corev1.EventTypeWarning, reasonReplaced, message})
}

func (o Options) lost(published *corev1.ConfigMap, unusable error) error {
	if published == nil {
		return fmt.Errorf("%w: Secret %s cannot be used (%w); put a CA's tls.crt and tls.key into it, or delete it to have "+
			"a CA made", ErrCALost, o.key(), unusable)
	}
	return fmt.Errorf("%w: Secret %s cannot be used (%w), and another CA would make peers and agents reject this "+
		"cluster; restore the Secret from a backup, or annotate ConfigMap %s/%s with %s: \"true\" to have another CA made "+
		"and give it to every Peer",
		ErrCALost, o.key(), unusable, o.Namespace, CAName, ReplaceCAAnnotation)
}

// note is what an event says, and the ConfigMap that it is about; nil while there is none.
type note struct {
	about                 *corev1.ConfigMap
	kind, reason, message string
}

// write puts a CA into the Secret: present is what is there now, nil for nothing. What another manager, or an
// administrator, has written meanwhile is used instead.
func (o Options) write(ctx context.Context, present *corev1.Secret, pair KeyPair, told note) (*CA, error) {
	data := map[string][]byte{corev1.TLSCertKey: pair.CertificatePEM, corev1.TLSPrivateKeyKey: pair.KeyPEM}
	var err error
	if present == nil {
		err = o.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.key().Name, Labels: labels()},
			Type:       corev1.SecretTypeTLS,
			Data:       data,
		})
	} else {
		present = present.DeepCopy()
		present.Data = data
		err = o.Client.Update(ctx, present)
	}
	if err == nil {
		log.FromContext(ctx).Info("CA was written", "reason", told.reason, "cause", told.message)
		o.tell(told.about, told.kind, told.reason, "%s", told.message)
		return ParseCA(pair.CertificatePEM, pair.KeyPEM)
	}
	if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
		return nil, fmt.Errorf("writing the CA's Secret %s: %w", o.key(), err)
	}
	secret, err := o.readSecret(ctx)
	if err != nil {
		return nil, err
	}
	if secret == nil {
		return nil, fmt.Errorf("%w: Secret %s was deleted while it was being written", ErrCALost, o.key())
	}
	ca, err := ParseCA(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("using Secret %s: %w", o.key(), err)
	}
	return ca, nil
}

// publish keeps the ConfigMap, which may be nil, in accordance with the CA.
func (o Options) publish(ctx context.Context, published *corev1.ConfigMap, ca *CA) error {
	var err error
	switch {
	case published == nil:
		err = o.Client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: CAName, Labels: labels()},
			Data:       map[string]string{CAKey: string(ca.CertificatePEM)},
		})
	case published.Data[CAKey] != string(ca.CertificatePEM):
		published = published.DeepCopy()
		if published.Data == nil {
			published.Data = map[string]string{}
		}
		published.Data[CAKey] = string(ca.CertificatePEM)
		// However the CA was replaced, the permission is used up.
		delete(published.Annotations, ReplaceCAAnnotation)
		err = o.Client.Update(ctx, published)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("publishing the CA in ConfigMap %s/%s: %w", o.Namespace, CAName, err)
	}
	return nil
}

// tell records an event on the ConfigMap, which may be nil when it does not exist yet.
func (o Options) tell(published *corev1.ConfigMap, kind, reason, format string, arguments ...any) {
	if o.Recorder == nil {
		return
	}
	about := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: CAName},
	}
	if published != nil {
		about.UID = published.UID
	}
	o.Recorder.Eventf(about, nil, kind, reason, "LoadCA", format, arguments...)
}
