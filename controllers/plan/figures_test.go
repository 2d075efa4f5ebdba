// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/plan"
)

// TestAgentsAreToldFigures: both ends of a Transfer are told what node agents of their image measured.
func TestAgentsAreToldFigures(t *testing.T) {
	measured := metav1.NewTime(now)
	profiles := map[string]v1alpha1.NodeProfileStatus{"node": {
		Kernel: "6.1.0", CPUModel: "a processor", AgentImage: image.Name, MeasuredTime: &measured,
		Engines: []v1alpha1.EngineProfile{{Name: "go", DecompressBytesPerSecond: 1}},
	}}
	told := func(start *attempt.Attempt, config interface {
		proto.Message
		GetFigures() []*wirev1.HostFigures
	}) {
		t.Helper()
		if start == nil {
			t.Fatal("no agent starts")
		}
		text, err := start.Config()
		if err != nil {
			t.Fatal(err)
		}
		if err := wirev1.UnmarshalConfig(text, config); err != nil {
			t.Fatal(err)
		}
		if f := config.GetFigures(); len(f) != 1 || f[0].GetCpuModel() != "a processor" {
			t.Errorf("told %v", f)
		}
	}
	sending := goodFacts()
	sending.Placement.Profiles = profiles
	told(plan.DecideTransfer(newTransfer("ledger", time.Hour), sending, image).Start, &wirev1.SendConfig{})
	receiving := goodDeliveryFacts()
	receiving.Placement.Profiles = profiles
	told(plan.DecideDelivery(newDelivery("mine", 1), receiving, image).Start, &wirev1.ReceiveConfig{})
}
