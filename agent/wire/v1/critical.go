// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wirev1

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// criticalKey, beside the fields of a configuration, lists those that its agent must know.
const criticalKey = "critical"

// MaxSentConfig is the longest configuration in bytes that the manager sends to an agent. Longer ones come by the file
// alone.
const MaxSentConfig = 256 << 10

// ErrCritical is returned for a configuration with a critical field that this release does not know.
var ErrCritical = errors.New("the configuration has what this release does not know and must not ignore")

// MarshalConfig encodes a configuration for an agent, with a list of the fields that are set and marked as critical.
func MarshalConfig(config proto.Message) ([]byte, error) {
	encoded, err := protojson.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", config.ProtoReflect().Descriptor().Name(), err)
	}
	found := map[string]bool{}
	criticalFields(config.ProtoReflect(), "", found)
	if len(found) == 0 {
		return encoded, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return nil, fmt.Errorf("encoding %s: %w", config.ProtoReflect().Descriptor().Name(), err)
	}
	if fields[criticalKey], err = json.Marshal(slices.Sorted(maps.Keys(found))); err != nil {
		return nil, fmt.Errorf("encoding the critical fields of %s: %w", config.ProtoReflect().Descriptor().Name(), err)
	}
	return json.Marshal(fields)
}

// UnmarshalConfig reads a configuration that a manager of another release may have written. Fields and names of
// enumerations that this release does not know are ignored, and the error matches ErrCritical when one of them is
// critical.
func UnmarshalConfig(encoded []byte, config proto.Message) error {
	var listed struct {
		Critical []string `json:"critical"`
	}
	if err := json.Unmarshal(encoded, &listed); err != nil {
		return fmt.Errorf("decoding the configuration: %w", err)
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(encoded, config); err != nil {
		return fmt.Errorf("decoding the configuration: %w", err)
	}
	for _, path := range listed.Critical {
		if !has(config.ProtoReflect(), strings.Split(path, ".")) {
			return fmt.Errorf("%w: %.100q; upgrade the agent", ErrCritical, path)
		}
	}
	return nil
}

// criticalFields finds those that are set, also in messages within the message.
func criticalFields(m protoreflect.Message, prefix string, found map[string]bool) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		path := prefix + field.JSONName()
		if proto.HasExtension(field.Options(), E_Critical) && proto.GetExtension(field.Options(), E_Critical) == true {
			found[path] = true
		}
		within(field, value, func(inner protoreflect.Message) bool {
			criticalFields(inner, path+".", found)
			return false
		})
		return true
	})
}

// has reports whether a field is set in a message, or in one of the messages of a list.
func has(m protoreflect.Message, path []string) bool {
	field := m.Descriptor().Fields().ByJSONName(path[0])
	if field == nil || !m.Has(field) {
		return false
	}
	return len(path) == 1 || within(field, m.Get(field), func(inner protoreflect.Message) bool {
		return has(inner, path[1:])
	})
}

// within calls check with the messages that a field has, until it returns true.
func within(
	field protoreflect.FieldDescriptor, value protoreflect.Value, check func(protoreflect.Message) bool,
) (checked bool) {
	switch {
	case field.IsMap():
		if field.MapValue().Message() != nil {
			value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				checked = check(v.Message())
				return !checked
			})
		}
	case field.Message() == nil:
	case field.IsList():
		for i := 0; i < value.List().Len() && !checked; i++ {
			checked = check(value.List().Get(i).Message())
		}
	default:
		checked = check(value.Message())
	}
	return checked
}
