// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trialplan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/trialplan"
)

// sampledTrial is one of an HTTPEndpoint with two replicas.
func sampledTrial() (*v1alpha1.CompressionTrial, trialplan.Facts) {
	trial, facts := newTrial()
	trial.Spec.Source = v1alpha1.TrialSource{
		HTTPEndpoint: &v1alpha1.TrialHTTPEndpoint{Name: "shop", Duration: &metav1.Duration{Duration: 2 * time.Minute}},
	}
	facts.Claim = nil
	facts.Sampled = &trialplan.Sampled{
		ServerName: "uid.http.lighterage.internal", Addresses: []string{"10.0.0.1:9443", "10.0.0.2:9443"},
	}
	return trial, facts
}

// TestTrialOfAgents: the agent is told whom to ask, and gets no volume and no privilege.
func TestTrialOfAgents(t *testing.T) {
	for _, queue := range []bool{false, true} {
		trial, facts := sampledTrial()
		facts.PrivilegeAllowed = true
		trial.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{
			SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)},
		}
		unit, seconds := wirev1.TrialUnit_TRIAL_UNIT_BODY, int64(120)
		if queue {
			trial.Spec.Source = v1alpha1.TrialSource{Queue: &v1alpha1.TrialQueue{Name: "orders"}}
			unit, seconds = wirev1.TrialUnit_TRIAL_UNIT_MESSAGE, 0
		}
		decision := trialplan.Decide(trial, facts, image)
		if decision.Start == nil {
			t.Fatalf("%+v", decision.Status.Conditions)
		}
		pod := decision.Start.Job().Spec.Template.Spec
		for _, volume := range pod.Volumes {
			if volume.PersistentVolumeClaim != nil {
				t.Errorf("%+v", volume)
			}
		}
		if c := pod.Containers[0].SecurityContext; c == nil || c.Capabilities == nil || len(c.Capabilities.Add) != 0 {
			t.Errorf("%+v", c)
		}
		text, err := decision.Start.Config()
		var config wirev1.TrialConfig
		if err != nil || protojson.Unmarshal(text, &config) != nil {
			t.Fatal(err)
		}
		if a := config.Agents; a.GetUnit() != unit || a.GetServerName() != facts.Sampled.ServerName ||
			!slices.Equal(a.GetAddresses(), facts.Sampled.Addresses) ||
			a.GetDuration().GetSeconds() != seconds || config.Volume != "" || config.Path != "" {
			t.Errorf("%s", text)
		}
	}
}

func TestTrialOfAgentsBadInput(t *testing.T) {
	for name, test := range map[string]struct {
		change       func(*v1alpha1.CompressionTrial, *trialplan.Facts)
		reason, says string
	}{
		"no endpoint": {
			func(_ *v1alpha1.CompressionTrial, f *trialplan.Facts) { f.Sampled = nil }, v1alpha1.ReasonSourceNotFound,
			`no HTTPEndpoint "shop"`,
		},
		"endpoint that goes": {func(_ *v1alpha1.CompressionTrial, f *trialplan.Facts) { f.Sampled.Deleting = true },
			v1alpha1.ReasonSourceNotFound, "is being deleted"},
		"no replica": {func(_ *v1alpha1.CompressionTrial, f *trialplan.Facts) { f.Sampled.Addresses = nil },
			v1alpha1.ReasonSourceNotReady, `no replica of HTTPEndpoint "shop" is ready`},
		"no member": {func(t *v1alpha1.CompressionTrial, f *trialplan.Facts) {
			t.Spec.Source = v1alpha1.TrialSource{Queue: &v1alpha1.TrialQueue{Name: "orders"}}
			f.Sampled.Addresses = nil
		}, v1alpha1.ReasonSourceNotReady, `no member of Queue "orders" is ready`},
		"two sources": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) {
			t.Spec.Source.Queue = &v1alpha1.TrialQueue{Name: "orders"}
		}, v1alpha1.ReasonInvalidSpec, "exactly one of"},
		"no source": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) { t.Spec.Source = v1alpha1.TrialSource{} },
			v1alpha1.ReasonInvalidSpec, "exactly one of"},
		"patterns": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) { t.Spec.Include = []string{"*.x"} },
			v1alpha1.ReasonInvalidSpec, "choose among files"},
		"too long": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) {
			t.Spec.Source.HTTPEndpoint.Duration = &metav1.Duration{Duration: time.Hour}
		}, v1alpha1.ReasonInvalidSpec, "between 1s and 10m"},
		"nameless": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) { t.Spec.Source.HTTPEndpoint.Name = "" },
			v1alpha1.ReasonInvalidSpec, "must name an HTTPEndpoint"},
	} {
		trial, facts := sampledTrial()
		test.change(trial, &facts)
		decision := trialplan.Decide(trial, facts, image)
		kind, reason, message := verdict(t, decision.Status.Conditions)
		if kind != v1alpha1.ConditionStalled || reason != test.reason || !strings.Contains(message, test.says) ||
			decision.Start != nil {
			t.Errorf("%s: %s %s: %s", name, kind, reason, message)
		}
	}
}

// TestTrialOfAgentsSaysWhatWasMeasured: status says of what and in which pieces.
func TestTrialOfAgentsSaysWhatWasMeasured(t *testing.T) {
	trial, facts := runningTrial()
	trial.Spec.Source = v1alpha1.TrialSource{Queue: &v1alpha1.TrialQueue{Name: "orders"}}
	result := trialResult()
	result.Sample.Unit, result.Sample.Items, result.Sample.ItemsTotal = wirev1.TrialUnit_TRIAL_UNIT_MESSAGE, 4096, 70000
	result.Sample.CutItems, result.Sample.UnreadableItems = 2, 1
	result.Sample.Agents, result.Sample.SilentAgents, result.Sample.Silence = 1, 2, "no route"
	facts.Pod = ended(0, "", trialReport(t, result))
	status := trialplan.Decide(trial, facts, image).Status
	if s := status.Sample; s == nil || s.Unit != v1alpha1.TrialUnitMessage || s.Items != 4096 || s.ItemsTotal != 70000 ||
		s.CutItems != 2 || s.UnreadableItems != 1 ||
		s.Agents != 1 || s.SilentAgents != 2 || s.SilentMessage != "no route" ||
		status.Recommendation == nil {
		t.Errorf("%+v %+v", s, status.Recommendation)
	}
	result.Sample.Unit = 77
	facts.Pod = ended(0, "", trialReport(t, result))
	if _, _, message := verdict(
		t, trialplan.Decide(trial, facts, image).Status.Conditions,
	); !strings.Contains(message, "unit 77") {
		t.Errorf("%s", message)
	}
}
