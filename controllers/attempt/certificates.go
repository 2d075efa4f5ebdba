// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// clockStep is how much later than expected a certificate may end before the manager's clock was set back, by that
// much.
const clockStep = time.Minute

// RenewalRetry is the wait after a certificate could not be renewed, which is tried with half of its life left.
const RenewalRetry = 30 * time.Second

// Certify records that the agent of the attempt in status gets a certificate now, and reports whether it is due: there
// was none, half of its life is over, or its end is not what certificates of this lifetime have, because the lifetime
// or the clock was changed. An attempt that follows another one soon keeps the earlier end, which is safe and changes
// no status. A lifetime of 0 is not known.
func Certify(run *v1alpha1.RunStatus, now time.Time, lifetime time.Duration) bool {
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

// UntilRenewal is how long until Certify reports that a certificate is due; 0 when it is not known.
func UntilRenewal(run *v1alpha1.RunStatus, now time.Time, lifetime time.Duration) time.Duration {
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
