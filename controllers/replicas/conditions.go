// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
)

// CheckCertificates is about the certificate for clients in a Secret, in the replicas' words; nil if nothing is wrong
// with it. who is what the replicas are called.
func CheckCertificates(
	who, namespace, secret string, certificates []*wirev1.HTTPCertificate, now time.Time,
) []metav1.Condition {
	for _, certificate := range certificates {
		meanwhile := "; no client is served until then"
		if expires := certificate.GetNotAfter(); expires != nil {
			meanwhile = fmt.Sprintf("; %s that have the last good one serve it until then, at most until %s", who, date(expires))
		}
		switch certificate.GetState() {
		case wirev1.CertificateState_CERTIFICATE_STATE_MISSING:
			return conditions.Stalled(v1alpha1.ReasonCertificateNotFound, fmt.Sprintf("Secret %q in namespace %q does not "+
				"exist or lacks tls.crt or tls.key; create it, as type kubernetes.io/tls%s (%s notice it within about two "+
				"minutes)", secret, namespace, meanwhile, who))
		case wirev1.CertificateState_CERTIFICATE_STATE_INVALID:
			return conditions.Stalled(v1alpha1.ReasonCertificateInvalid, fmt.Sprintf("Secret %q in namespace %q holds no "+
				"usable key pair: %s; correct tls.crt and tls.key%s", secret, namespace, certificate.GetMessage(), meanwhile))
		case wirev1.CertificateState_CERTIFICATE_STATE_LOADED:
			if expires := certificate.GetNotAfter(); expires != nil && !now.Before(expires.AsTime()) {
				return conditions.Stalled(v1alpha1.ReasonCertificateExpired, fmt.Sprintf("the certificate in Secret %q expired "+
					"on %s, so clients refuse it; renew it", secret, date(expires)))
			}
		}
	}
	return nil
}

func date(t *timestamppb.Timestamp) string { return t.AsTime().UTC().Format(time.RFC3339) }

// FirstExpiration of certificates, nil when none is served.
func FirstExpiration(certificates []*wirev1.HTTPCertificate) *metav1.Time {
	var first *metav1.Time
	for _, certificate := range certificates {
		expires := certificate.GetNotAfter()
		if expires != nil && (first == nil || expires.AsTime().Before(first.Time)) {
			first = &metav1.Time{Time: expires.AsTime().Truncate(time.Second)}
		}
	}
	return first
}

// ShortList names the first three.
func ShortList(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// HardwareCompression is the condition of that name. It is absent until something was compressed or stored, and for
// reasons for which there is no message.
func HardwareCompression(status *v1alpha1.CompressionStatus, messages map[string]string) []metav1.Condition {
	if status == nil {
		return nil
	}
	reason, used := status.Reason, plan.HardwareUsed(status)
	if used {
		reason = v1alpha1.CompressionHardwareUsed
	}
	message, known := messages[reason]
	if !known {
		return nil
	}
	return []metav1.Condition{conditions.New(v1alpha1.ConditionHardwareCompression, used, reason, message)}
}
