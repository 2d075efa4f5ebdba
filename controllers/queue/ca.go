// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/pki"
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;patch

// republishInterval is how often it is looked whether the published CA is still there. ConfigMaps are not watched.
const republishInterval = 3 * time.Minute

// published is what the manager remembers of the ConfigMap with the CA.
type published struct {
	ca      string
	written time.Time
}

// publishCA puts the CA of the members' certificate beside the Queue, where its clients can mount it: the operator's
// own ConfigMap is in a namespace that they cannot read. Somebody else's ConfigMap of that name is left alone. Where
// spec.tls names another certificate there is nothing to publish; what was before stays, since the CA is still the one
// that its clients may have to know when spec.tls is taken away.
func (r *Reconciler) publishCA(ctx context.Context, wanted Wanted, m *memory) (*agentpod.Problem, error) {
	if wanted.Queue.Spec.TLS != nil {
		return nil, nil
	}
	ca, err := r.Authority.CA(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's CA: %w", err)
	}
	now := r.Clock.Now()
	if m.published.ca == "" && m.secret.Unchanged() {
		// A manager that ran before has published the CA of the members' certificate. It is looked for later, and not
		// for all Queues at once.
		m.published = published{ca: string(ca.CertificatePEM), written: now.Add(-rand.N(republishInterval))}
	}
	if m.published.ca == string(ca.CertificatePEM) && now.Sub(m.published.written) < republishInterval {
		return nil, nil
	}
	_, problem, err := r.objects.Ensure(ctx, wanted.Queue, wanted.publicCA(ca.CertificatePEM))
	if err != nil {
		return nil, err
	}
	if problem != nil && problem.Reason == v1alpha1.ReasonNameConflict {
		r.Recorder.Eventf(wanted.Queue, nil, corev1.EventTypeWarning, problem.Reason, "PublishCA",
			"The CA that clients need is not published: ConfigMap %q is somebody else's; rename that, or copy %s of ConfigMap "+
				"%s in the operator's namespace yourself",
			pki.QueueCAName(wanted.Queue.Name), pki.CAKey, pki.CAName)
		problem = nil
	}
	if problem == nil {
		m.published = published{ca: string(ca.CertificatePEM), written: now}
	}
	return problem, nil
}

func (w Wanted) publicCA(bundle []byte) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: w.meta(pki.QueueCAName(w.Queue.Name)),
		Data:       map[string]string{pki.CAKey: string(bundle)},
	}
}
