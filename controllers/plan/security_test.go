// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

var keepsOwners = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP"}

func capabilities(names ...corev1.Capability) *corev1.Capabilities {
	return &corev1.Capabilities{Add: names}
}

func TestSecurityContextOfTheUser(t *testing.T) {
	for name, test := range map[string]struct {
		given corev1.SecurityContext
		user  *int64
		// added to the sending agent, and whether the receiving one is asked to keep owners.
		added      []corev1.Capability
		privileged bool
	}{
		"nothing": {corev1.SecurityContext{}, nil, nil, false},
		"root": {
			corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}, ptr.To[int64](0), []corev1.Capability{"DAC_READ_SEARCH"}, true,
		},
		"a capability takes root": {
			corev1.SecurityContext{Capabilities: capabilities("CHOWN")}, ptr.To[int64](0),
			[]corev1.Capability{"DAC_READ_SEARCH"}, true,
		},
		"only reading": {
			corev1.SecurityContext{Capabilities: capabilities("DAC_READ_SEARCH")}, ptr.To[int64](0),
			[]corev1.Capability{"DAC_READ_SEARCH"}, false,
		},
		"all that there are": {
			corev1.SecurityContext{
				RunAsUser: ptr.To[int64](0), Capabilities: capabilities(append(keepsOwners, "DAC_READ_SEARCH")...),
			},
			ptr.To[int64](0), []corev1.Capability{"DAC_READ_SEARCH"}, true,
		},
		"another user": {corev1.SecurityContext{RunAsUser: ptr.To[int64](1000)}, ptr.To[int64](1000), nil, false},
		"nothing is dropped twice": {
			corev1.SecurityContext{
				RunAsUser: ptr.To[int64](65532), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"NET_RAW"}},
			},
			ptr.To[int64](65532), nil, false,
		},
		"root that insists it is not": {corev1.SecurityContext{RunAsUser: ptr.To[int64](0), RunAsNonRoot: ptr.To(true)},
			ptr.To[int64](0), []corev1.Capability{"DAC_READ_SEARCH"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			attempt, job := sendJob(t, func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
				transfer.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{SecurityContext: &test.given}
			})
			pod := job.Spec.Template.Spec
			got := pod.Containers[0].SecurityContext
			isRoot := test.user != nil && *test.user == 0
			if ptr.Deref(got.RunAsUser, -1) != ptr.Deref(test.user, -1) || isRoot && *got.RunAsNonRoot ||
				*got.AllowPrivilegeEscalation || got.Privileged != nil {
				t.Errorf("%+v", got)
			}
			if !slices.Equal(got.Capabilities.Add, test.added) ||
				!slices.Equal(got.Capabilities.Drop, []corev1.Capability{"ALL"}) {
				t.Errorf("%+v", got.Capabilities)
			}
			text, err := attempt.Config()
			if err != nil {
				t.Fatal(err)
			}
			config := &wirev1.SendConfig{}
			if err := protojson.Unmarshal(text, config); err != nil {
				t.Fatal(err)
			}
			if config.GetPrivileged() != test.privileged {
				t.Errorf("the receiving agent is asked to keep owners: %v", config.GetPrivileged())
			}
		})
	}
}

func TestNoAgentGetsMore(t *testing.T) {
	for name, test := range map[string]struct {
		given corev1.SecurityContext
		says  string
	}{
		"privileged": {corev1.SecurityContext{Privileged: ptr.To(true)}, "privileged: true"},
		"escalation": {
			corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(true)}, "allowPrivilegeEscalation: true",
		},
		"another capability": {
			corev1.SecurityContext{Capabilities: capabilities("CHOWN", "SYS_ADMIN")}, "capability SYS_ADMIN",
		},
		"all of them": {corev1.SecurityContext{Capabilities: capabilities("ALL")}, "capability ALL"},
		"a capability without effect": {
			corev1.SecurityContext{RunAsUser: ptr.To[int64](1000), Capabilities: capabilities("CHOWN")},
			"a capability for user 1000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
			facts.PrivilegeAllowed = true
			transfer.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{SecurityContext: &test.given}
			decision := plan.DecideTransfer(transfer, facts, image)
			kind, reason, message := verdict(t, decision.Status.Conditions)
			if decision.Start != nil || kind != "Stalled" || reason != v1alpha1.ReasonPrivilegeNotAllowed ||
				!strings.Contains(message, test.says+", which no agent gets; ") {
				t.Errorf("%s %s: %s", kind, reason, message)
			}
		})
	}
}

func TestReceivingWithPrivilege(t *testing.T) {
	for name, test := range map[string]struct{ asked, allowed, root bool }{
		"asked and allowed": {true, true, true},
		"only asked":        {true, false, false},
		"only allowed":      {false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			delivery, facts := newDelivery("ledger-abcde-1-01234567", 1), goodDeliveryFacts()
			facts.PrivilegeAllowed = test.allowed
			if test.asked {
				delivery.Spec.Privilege = v1alpha1.AgentPrivilegeKeepOwners
			}
			decision := plan.DecideDelivery(delivery, facts, image)
			pod := decision.Start.Job().Spec.Template.Spec
			if !test.root {
				restricted(t, pod)
			} else if got := pod.Containers[0].SecurityContext; !slices.Equal(got.Capabilities.Add, keepsOwners) ||
				*got.RunAsUser != 0 || pod.SecurityContext.FSGroup != nil {
				t.Errorf("%+v %+v", pod.SecurityContext, got)
			}
			_, _, message := verdict(t, decision.Status.Conditions)
			if refused := strings.Contains(message, `annotate namespace "bank"`); refused != (test.asked && !test.allowed) {
				t.Errorf("says %q", message)
			}
		})
	}
}
