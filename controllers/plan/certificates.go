// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"path"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
)

// clockStep is how much later than expected a certificate may end before the manager's clock was set back, by that
// much.
const clockStep = time.Minute

// RunClaims say what the sending agent of the run in status may ask for; who may be asked is left to who knows the
// Peer.
func RunClaims(transfer *v1alpha1.Transfer) *pki.RunClaims {
	destination := transfer.Spec.Destination.PersistentVolumeClaim
	return &pki.RunClaims{
		Run:        transfer.Status.Run.ID,
		Namespace:  DestinationNamespace(transfer),
		Claim:      destination.ClaimName,
		Path:       path.Clean("/" + destination.Path),
		Delete:     transfer.Spec.Delete,
		Privileged: asksToWrite(transfer.Spec.PodTemplate),
	}
}

// certify records that the agent of the attempt in status gets a certificate now, and reports whether it is due: there
// was none, half of its life is over, or its end is not what certificates of this lifetime have, because the lifetime
// or the clock was changed. An attempt that follows another one soon keeps the earlier end, which is safe and changes
// no status. A lifetime of 0 is not known.
func certify(run *v1alpha1.RunStatus, now time.Time, lifetime time.Duration) bool {
	if lifetime <= 0 {
		return false
	}
	if ends := run.CertificateExpirationTime; ends != nil {
		left := ends.Sub(now)
		if left > lifetime/2 && left <= lifetime+clockStep {
			return false
		}
	}
	run.CertificateExpirationTime = &metav1.Time{Time: now.Add(lifetime).Truncate(time.Second)}
	return true
}

// untilRenewal is how long until certify reports that a certificate is due; 0 when it is not known.
func untilRenewal(run *v1alpha1.RunStatus, now time.Time, lifetime time.Duration) time.Duration {
	if lifetime <= 0 || run.CertificateExpirationTime == nil {
		return 0
	}
	return max(run.CertificateExpirationTime.Sub(now)-lifetime/2, time.Second)
}

// Revoke has a receiving agent reject certificates that were issued before then; nil: none.
func (a *Attempt) Revoke(before *metav1.Time) {
	if config, receives := a.spec.Config.(*wirev1.ReceiveConfig); receives && before != nil {
		config.RevokedBefore = before.Unix()
	}
}
