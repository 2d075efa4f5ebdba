// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wirev1

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// newer are messages of a later release: a configuration with a limit and rules, of which some fields are critical.
func newer(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	critical := &descriptorpb.FieldOptions{}
	proto.SetExtension(critical, E_Critical, true)
	field := func(
		name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, options *descriptorpb.FieldOptions,
	) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: &name, Number: &number, Type: &kind, Options: options,
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
	}
	text, message := descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	rules := field("rules", 3, message, nil)
	rules.TypeName, rules.Label = proto.String(".later.Rule"), descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("later.proto"), Package: proto.String("later"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("Config"), Field: []*descriptorpb.FieldDescriptorProto{
				field("revision", 1, text, nil), field("only_from", 2, text, critical), rules,
			}},
			{
				Name:  proto.String("Rule"),
				Field: []*descriptorpb.FieldDescriptorProto{field("name", 1, text, nil), field("deny", 2, text, critical)},
			},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().ByName("Config")
}

func TestConfigOfALaterRelease(t *testing.T) {
	descriptor := newer(t)
	set := func(m *dynamicpb.Message, name protoreflect.Name, value string) {
		m.Set(m.Descriptor().Fields().ByName(name), protoreflect.ValueOfString(value))
	}
	rule := func(m *dynamicpb.Message, name protoreflect.Name) {
		list := m.Mutable(m.Descriptor().Fields().ByName("rules")).List()
		inner := list.NewElement().Message()
		inner.Set(inner.Descriptor().Fields().ByName(name), protoreflect.ValueOfString("x"))
		list.Append(protoreflect.ValueOfMessage(inner))
	}
	for name, c := range map[string]struct {
		change   func(*dynamicpb.Message)
		critical string
	}{
		"nothing critical":     {func(m *dynamicpb.Message) { rule(m, "name") }, ""},
		"critical":             {func(m *dynamicpb.Message) { set(m, "only_from", "bank") }, "onlyFrom"},
		"critical in one rule": {func(m *dynamicpb.Message) { rule(m, "name"); rule(m, "deny") }, "rules.deny"},
	} {
		t.Run(name, func(t *testing.T) {
			later := dynamicpb.NewMessage(descriptor)
			set(later, "revision", "r7")
			c.change(later)
			encoded, err := MarshalConfig(later)
			if err != nil {
				t.Fatal(err)
			}
			again := dynamicpb.NewMessage(descriptor)
			if err := UnmarshalConfig(encoded, again); err != nil || !proto.Equal(again, later) {
				t.Errorf("an agent of the same release reads %v, %v", again, err)
			}
			old := &QueueConfig{}
			err = UnmarshalConfig(encoded, old)
			if errors.Is(err, ErrCritical) != (c.critical != "") || err != nil && !strings.Contains(err.Error(), c.critical) {
				t.Errorf("an agent of an earlier release: %v", err)
			}
			if old.GetRevision() != "r7" {
				t.Errorf("an agent of an earlier release reads %v", old)
			}
		})
	}
}

func TestUnmarshalConfig(t *testing.T) {
	for text, c := range map[string]struct{ ok, critical bool }{
		`{"revision": "r1"}`:                                                                    {ok: true},
		`{"revision": "r1", "later": {"a": [1]}}`:                                               {ok: true},
		`{"compression": {"mode": "COMPRESSION_MODE_LATER"}}`:                                   {ok: true},
		`{"compression": {"mode": "COMPRESSION_MODE_AUTO"}, "critical": ["compression.mode"]}`:  {ok: true},
		`{"compression": {"mode": "COMPRESSION_MODE_LATER"}, "critical": ["compression.mode"]}`: {critical: true},
		`{"members": [{"name": "a"}], "critical": ["members.name"]}`:                            {ok: true},
		`{"revision": "r1", "critical": ["later"]}`:                                             {critical: true},
		`{"revision": "r1", "critical": ["revision.later"]}`:                                    {critical: true},
		`{"revision": "r1", "critical": [""]}`:                                                  {critical: true},
		`{"revision": "r1", "critical": "revision"}`:                                            {},
		`{"revision": 1}`: {},
		`[]`:              {},
		``:                {},
	} {
		err := UnmarshalConfig([]byte(text), &QueueConfig{})
		if (err == nil) != c.ok || errors.Is(err, ErrCritical) != c.critical {
			t.Errorf("%s: %v", text, err)
		}
	}
}
