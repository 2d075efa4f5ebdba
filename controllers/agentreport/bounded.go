// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentreport

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// What of an agent's report reaches an object, whatever the agent says: an agent's pod may be its namespace's own, and
// an object of more than a megabyte and a half could not be written any more.
const (
	// maxWord bounds in bytes what names something: engines, codecs, reasons, revisions, examples of paths.
	maxWord = 256
	// maxProse bounds in bytes what is said to people, fields named message, detail, problem or silence, and paths.
	maxProse = 1024
	// maxReported bounds lists and maps; of maps those with the first keys are kept.
	maxReported = 128
)

// Bounded returns a report in whose texts nothing commands a terminal, and whose texts, lists and maps have bounded
// lengths. What is within the bounds is returned as it is.
func Bounded[M proto.Message](report M) M {
	if !report.ProtoReflect().IsValid() {
		return report
	}
	bounded := proto.CloneOf(report)
	bound(bounded.ProtoReflect())
	return bounded
}

func bound(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			boundMap(field, value.Map())
		case field.IsList():
			list := value.List()
			list.Truncate(min(list.Len(), maxReported))
			for i := range list.Len() {
				if text, changed := boundValue(field, list.Get(i)); changed {
					list.Set(i, text)
				}
			}
		default:
			if text, changed := boundValue(field, value); changed {
				message.Set(field, text)
			}
		}
		return true
	})
}

func boundMap(field protoreflect.FieldDescriptor, values protoreflect.Map) {
	var keys []protoreflect.MapKey
	values.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	kept := 0
	for _, key := range keys {
		word := field.MapKey().Kind() != protoreflect.StringKind || Plain(key.String(), maxWord) == key.String()
		if kept == maxReported || !word {
			values.Clear(key)
			continue
		}
		kept++
		if text, changed := boundValue(field.MapValue(), values.Get(key)); changed {
			values.Set(key, text)
		}
	}
}

// boundValue is what to put in place of a value; changed is false when it may stay.
func boundValue(field protoreflect.FieldDescriptor, value protoreflect.Value) (_ protoreflect.Value, changed bool) {
	switch field.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		bound(value.Message())
	case protoreflect.StringKind:
		limit := maxWord
		switch field.Name() {
		case "message", "detail", "problem", "silence", "path", "authentication_error":
			limit = maxProse
		}
		text := Plain(value.String(), limit)
		return protoreflect.ValueOfString(text), text != value.String()
	}
	return value, false
}

// Plain returns text as UTF-8 of at most limit bytes, with what is not printed escaped as in Go, and an ellipsis where
// it was cut.
func Plain(text string, limit int) string {
	const ellipsis = "…"
	var b strings.Builder
	fits := 0 // what of b may stay before an ellipsis
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		if b.Len() > limit {
			return b.String()[:fits] + ellipsis
		}
		if b.Len() <= limit-len(ellipsis) {
			fits = b.Len()
		}
	}
	return b.String()
}
