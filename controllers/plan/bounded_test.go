// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	corev1 "k8s.io/api/core/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// hostile fills every field of a message: texts are long and command a terminal, lists and maps have n elements.
func hostile(message protoreflect.Message, text string, n, depth int) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.IsMap():
			for j := range n {
				key := protoreflect.ValueOfString(fmt.Sprintf("%d%s", j, text)).MapKey()
				message.Mutable(field).Map().Set(
					key, hostileValue(field.MapValue(), message.Mutable(field).Map().NewValue(), text, n, depth),
				)
			}
		case field.IsList():
			for range n {
				list := message.Mutable(field).List()
				list.Append(hostileValue(field, list.NewElement(), text, n, depth))
			}
		case field.ContainingOneof() != nil && field.ContainingOneof().Fields().Get(0) != field:
		default:
			message.Set(field, hostileValue(field, message.NewField(field), text, n, depth))
		}
	}
}

func hostileValue(
	field protoreflect.FieldDescriptor, empty protoreflect.Value, text string, n, depth int,
) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.MessageKind:
		if depth < 6 && field.Message().ParentFile().Package() != "google.protobuf" {
			hostile(empty.Message(), text, n, depth+1)
		}
		return empty
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(text))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1<<64 - 1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1<<32 - 1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1e308)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(4711)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	}
	return empty
}

const maxObject = 64 << 10

func small(t *testing.T, what string, object any) {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > maxObject {
		t.Errorf("%s: %d bytes", what, len(text))
	}
	for _, command := range []string{"\x1b", `\u001b`, "\u202e", "\u009b"} {
		if strings.Contains(string(text), command) {
			t.Errorf("%s: %q is in it", what, command)
		}
	}
}

// An agent's pod that is not ours any more reports the longest and worst it can; ten attempts of that leave an object
// that can be written.
func TestHostileReports(t *testing.T) {
	for name, text := range map[string]string{
		"long": "\x1b[2J\u202e" + strings.Repeat("x", 256<<10), "escapes": strings.Repeat("\u009b", 128<<10), "many": "\x1b",
	} {
		n := 2
		if name == "many" {
			n = 300
		}
		for _, state := range []wirev1.AgentState{
			wirev1.AgentState_AGENT_STATE_OPENING, wirev1.AgentState_AGENT_STATE_TRANSFERRING,
			wirev1.AgentState_AGENT_STATE_MEASURING,
			wirev1.AgentState_AGENT_STATE_WAITING, wirev1.AgentState_AGENT_STATE_FAILED, wirev1.AgentState_AGENT_STATE_SUCCEEDED,
		} {
			report := &wirev1.Report{}
			hostile(report.ProtoReflect(), text, n, 0)
			report.State = state
			what := fmt.Sprintf("%s, %s", name, state)

			transfer, facts := running(1)
			facts.Report = report
			for range 12 { // attempts that end one after the other, each with such a report
				facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
				transfer.Status.Run.NextAttemptTime, transfer.Status.Run.CompletionTime = nil, nil
				transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
				facts.Pod = ended(1, "Error", "")
				transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
			}
			if len(transfer.Status.History) != 10 || transfer.Status.Compression == nil ||
				transfer.Status.Compression.Engine == "" {
				t.Fatalf("%s is not shown: %+v", what, transfer.Status)
			}
			small(t, what+" of a sender", transfer)

			delivery, deliveryFacts := newDelivery("mine", 1), goodDeliveryFacts()
			delivery.Status = plan.DecideDelivery(delivery, deliveryFacts, image).Status
			deliveryFacts.Job, deliveryFacts.Pod = facts.Job, pod(
				corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			)
			deliveryFacts.Report = report
			delivery.Status = plan.DecideDelivery(delivery, deliveryFacts, image).Status
			small(t, what+" of a receiver", delivery)
		}
	}
}
