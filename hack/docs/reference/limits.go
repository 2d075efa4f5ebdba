// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"go/constant"
	"slices"
	"strings"
	"text/template"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/lighterage/lighterage/agent/wire/queuevolume"
)

// limitsTemplate lists what is on the page: each number by the name of the constant that has it.
//
//go:embed limits.md.tmpl
var limitsTemplate string

// limitsPage fills in the template. It is an error when a constant or a field that it names is gone.
func limitsPage(ctx context.Context, root string, kinds []*apiextensionsv1.CustomResourceDefinition) (string, error) {
	found, err := newConstants(ctx, root)
	if err != nil {
		return "", err
	}
	constantOf := func(reference string, duration bool) (int64, error) {
		m, err := found.one(reference)
		if err != nil {
			return 0, err
		}
		if m.value == nil || m.duration != duration {
			return 0, fmt.Errorf("%s is %s, which is no constant of that unit", reference, m.text())
		}
		value, exact := constant.Int64Val(constant.ToInt(m.value))
		if !exact {
			return 0, fmt.Errorf("%s is %s, which is no integer", reference, m.text())
		}
		return value, nil
	}
	integer := func(render func(int64) string) func(string) (string, error) {
		return func(reference string) (string, error) {
			value, err := constantOf(reference, false)
			return render(value), err
		}
	}
	functions := template.FuncMap{
		"count": integer(number),
		"bytes": integer(byteCount),
		"duration": func(reference string) (string, error) {
			value, err := constantOf(reference, true)
			return span(time.Duration(value)), err
		},
		"text": func(reference string) (string, error) {
			m, err := found.one(reference)
			if err != nil {
				return "", err
			}
			if m.value == nil || m.value.Kind() != constant.String {
				return "", fmt.Errorf("%s is %s, which is no text", reference, m.text())
			}
			return constant.StringVal(m.value), nil
		},
		"expression": func(reference string) (string, error) {
			values, err := found.find(reference)
			var all []string
			for _, m := range values {
				all = append(all, code(m.text()))
			}
			return strings.Join(all, ", "), err
		},
		"api": func(kind, path string) (string, error) {
			s, err := fieldOf(kinds, kind, path)
			if err != nil {
				return "", err
			}
			text, err := allowed(s, kind+"."+path)
			text, _, _ = strings.Cut(text, ", matches ")
			return fmt.Sprintf("| %s | %s | %s |", link(path, pageName(kind)), cmp.Or(defaultOf(s), "-"), text), err
		},
		"volumeReserve": volumeReserve,
	}
	parsed, err := template.New("limits.md").Funcs(functions).Option("missingkey=error").Parse(limitsTemplate)
	if err != nil {
		return "", fmt.Errorf("parsing limits.md.tmpl: %w", err)
	}
	var b strings.Builder
	if err := parsed.Execute(&b, nil); err != nil {
		return "", fmt.Errorf("filling in limits.md.tmpl: %w", err)
	}
	return b.String(), nil
}

// fieldOf is the schema of a field by its path, with the rules that the object above has for it.
func fieldOf(kinds []*apiextensionsv1.CustomResourceDefinition, kind, path string) (schema, error) {
	for _, k := range kinds {
		if k.Spec.Names.Kind != kind {
			continue
		}
		s := *k.Spec.Versions[0].Schema.OpenAPIV3Schema
		for name := range strings.SplitSeq(strings.ReplaceAll(path, "[]", ""), ".") {
			property, ok := element(s).Properties[name]
			if !ok {
				return schema{}, fmt.Errorf("%s has no field %s any more", kind, path)
			}
			for _, rule := range element(s).XValidations {
				if rule.FieldPath == "."+name {
					property.XValidations = append(slices.Clone(property.XValidations), rule)
				}
			}
			s = property
		}
		return s, nil
	}
	return schema{}, fmt.Errorf("there is no kind %s", kind)
}

// allowed says what values the API server accepts.
func allowed(s schema, name string) (string, error) {
	if text := strings.TrimSuffix(limitsOf(s), "."); text != "" {
		return strings.ToLower(text[:1]) + text[1:], nil
	}
	for _, rule := range s.XValidations {
		// "maxAge must be between 1s and 87600h; write for example 168h"
		_, text, isBound := strings.Cut(rule.Message, " must be ")
		text, _, _ = strings.Cut(text, ";")
		if isBound && strings.ContainsAny(text, "0123456789") {
			return prose(strings.Replace(strings.TrimPrefix(text, "between "), " and ", " to ", 1)), nil
		}
	}
	return "", fmt.Errorf("%s has no bounds any more", name)
}

// volumeReserve is a table of what is kept free of volumes, as the members and the manager reckon it.
func volumeReserve() string {
	const mib, gib = int64(1) << 20, int64(1) << 30
	var rows [][]string
	for _, volume := range []int64{
		queuevolume.Least, queuevolume.LeastOfThree, 256 * mib, gib, 10 * gib, 100 * gib, 1024 * gib,
	} {
		row := []string{byteCount(volume)}
		for _, members := range []int{1, 3} {
			if volume < queuevolume.LeastOfThree && members > 1 {
				row = append(row, "not allowed", "not allowed")
				continue
			}
			row = append(
				row, byteCount(queuevolume.Beside(volume, members)), byteCount(queuevolume.ForMessages(volume, members)),
			)
		}
		rows = append(rows, append(row, byteCount(queuevolume.Short(volume))))
	}
	return table([]string{
		"Volume", "Reserved, 1 replica", "At least for messages", "Reserved, 3 replicas", "At least for messages",
		"Puts are rejected below",
	}, rows)
}

// byteCount is a number of bytes in the largest binary unit that is not more than it, to one decimal.
func byteCount(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"}
	unit, size := 0, int64(1)
	for unit+1 < len(units) && n >= size*1024 && (n%(size*1024) == 0 || n >= 10_000*size) {
		unit, size = unit+1, size*1024
	}
	if n%size == 0 {
		return number(n/size) + " " + units[unit]
	}
	return fmt.Sprintf("%.1f %s", float64(n)/float64(size), units[unit])
}

// span is a duration in the largest unit that it is a whole number of.
func span(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if d >= unit.length && d%unit.length == 0 {
			return fmt.Sprintf("%d %s", d/unit.length, unit.name)
		}
	}
	return d.String()
}
