// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// CheckReports is about agents that do not answer, or have not taken the present configuration; nil if there are none.
// who is what the agents are called, and port where they are asked.
func CheckReports[R Report](who string, agents []Agent[R], revision string, port int) []metav1.Condition {
	var none R
	var silent, old []string
	for _, agent := range agents {
		switch {
		case agent.Report == none:
			silent = append(silent, agent.Pod.Name)
		case agent.Report.GetRevision() != revision:
			old = append(old, agent.Pod.Name)
		}
	}
	slices.Sort(silent)
	slices.Sort(old)
	if len(silent) > 0 {
		return conditions.Reconciling(v1alpha1.ReasonAgentUnreachable, fmt.Sprintf("%s are ready but %d of them do not "+
			"answer the manager (%s), so what they do is not known; let the manager's namespace reach their port %d",
			who, len(silent), ShortList(silent), port))
	}
	if len(old) > 0 {
		return conditions.Reconciling(v1alpha1.ReasonRollingOut, fmt.Sprintf("%d of %d %s have not taken the present spec "+
			"yet (%s); those that the manager cannot tell get it from the kubelet within about two minutes",
			len(old), len(agents), who, ShortList(old)))
	}
	return nil
}

// CheckCertificates is about the certificate for clients in a Secret, in the agents' words; nil if nothing is wrong
// with it. who is what the agents are called.
func CheckCertificates[R Report](
	who, namespace, secret string, agents []Agent[R], now time.Time,
) []metav1.Condition {
	for _, agent := range agents {
		certificate := agent.Report.GetCertificate()
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

// FirstExpiration of agents' certificates for clients, nil when none is served.
func FirstExpiration[R Report](agents []Agent[R]) *metav1.Time {
	var first *metav1.Time
	for _, agent := range agents {
		expires := agent.Report.GetCertificate().GetNotAfter()
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
	reason, used := status.Reason, agentreport.HardwareUsed(status)
	if used {
		reason = v1alpha1.CompressionHardwareUsed
	}
	message, known := messages[reason]
	if !known {
		return nil
	}
	return []metav1.Condition{conditions.New(v1alpha1.ConditionHardwareCompression, used, reason, message)}
}
