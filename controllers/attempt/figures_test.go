// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/attempt/attempttest"
)

// profile is of a node that was measured so many minutes after the time of tests.
func profile(model string, minutes int, rate int64) v1alpha1.NodeProfileStatus {
	at := metav1.NewTime(attempttest.Now.Add(time.Duration(minutes) * time.Minute))
	return v1alpha1.NodeProfileStatus{
		Kernel: "6.1.0", CPUModel: model, AgentImage: attempttest.Image.Name, AgentVersion: "1.2.3", MeasuredTime: &at,
		Engines: []v1alpha1.EngineProfile{{
			Name: "go", DecompressBytesPerSecond: 7 * rate, Levels: []v1alpha1.LevelProfile{
				{Level: v1alpha1.CompressionFast, CompressBytesPerSecond: rate, Ratio: "4.00"},
				{Level: v1alpha1.CompressionBalanced, CompressBytesPerSecond: rate, Ratio: "NaN"},
				{Level: v1alpha1.CompressionHigh, CompressBytesPerSecond: 0, Ratio: "5.00"},
			},
		}},
	}
}

// know returns the figures that an agent is told.
func know(t *testing.T, profiles map[string]v1alpha1.NodeProfileStatus) []*wirev1.HostFigures {
	t.Helper()
	config := &wirev1.SendConfig{}
	attempt.New(attempt.Spec{Image: attempttest.Image, Config: config}).Know(profiles)
	return config.GetFigures()
}

// TestKnow: agents are told one set of figures for each kind of machine, the newest, by node agents of their image.
func TestKnow(t *testing.T) {
	other, unmeasured, nameless := profile("c", 0, 1), profile("d", 0, 1), profile("", 0, 1)
	other.AgentImage, unmeasured.MeasuredTime = "registry.example/agent:other", nil
	got := know(t, map[string]v1alpha1.NodeProfileStatus{
		"1": profile("a", 0, 100), "2": profile("b", 5, 200), "3": profile("b", 9, 300), "4": profile("b", 7, 400),
		"5": other, "6": unmeasured, "7": nameless,
	})
	engine := func(rate uint64) []*wirev1.EngineFigures {
		return []*wirev1.EngineFigures{{
			Name: "go", InflateBytesPerSecond: 7 * rate, Levels: []*wirev1.LevelFigure{{
				Level:          wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
				BytesPerSecond: rate, CompressedBytesPerMib: 1 << 18,
			}},
		}}
	}
	want := []*wirev1.HostFigures{
		{Kernel: "6.1.0", CpuModel: "b", Version: "1.2.3", Engines: engine(300)},
		{Kernel: "6.1.0", CpuModel: "a", Version: "1.2.3", Engines: engine(100)},
	}
	if len(got) != 2 || !proto.Equal(got[0], want[0]) || !proto.Equal(got[1], want[1]) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestKnowIsBounded(t *testing.T) {
	profiles := make(map[string]v1alpha1.NodeProfileStatus)
	for i := range 100 {
		profiles[fmt.Sprint(i)] = profile(fmt.Sprintf("model %02d", i), 0, 100)
	}
	profiles["like 99"] = profile("model 99", 0, 100)
	got := know(t, profiles)
	if len(got) != 8 || got[0].GetCpuModel() != "model 99" || got[1].GetCpuModel() != "model 00" {
		t.Errorf("%d kinds of machines: %v", len(got), got)
	}
}

// TestKnowInEveryMode: each configuration that has figures gets them, and no other changes.
func TestKnowInEveryMode(t *testing.T) {
	profiles := map[string]v1alpha1.NodeProfileStatus{"1": profile("a", 0, 100)}
	send, receive := &wirev1.SendConfig{}, &wirev1.ReceiveConfig{}
	handOff := &wirev1.HandOffConfig{Send: &wirev1.SendConfig{}}
	local := &wirev1.LocalConfig{Send: &wirev1.SendConfig{}, Receive: &wirev1.ReceiveConfig{}}
	for _, config := range []proto.Message{send, receive, handOff, local, &wirev1.TrialConfig{}} {
		attempt.New(attempt.Spec{Image: attempttest.Image, Config: config}).Know(profiles)
	}
	for name, figures := range map[string][]*wirev1.HostFigures{
		"send": send.GetFigures(), "receive": receive.GetFigures(), "handoff": handOff.GetSend().GetFigures(),
		"local": local.GetSend().GetFigures(),
	} {
		if len(figures) != 1 {
			t.Errorf("%s: %v", name, figures)
		}
	}
}
