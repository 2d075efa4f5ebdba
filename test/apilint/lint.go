// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package apilint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// finding is one breach of a rule.
type finding struct {
	where   string // Type or Type.Field
	rule    string
	message string
}

func (f finding) String() string { return fmt.Sprintf("%s: %s: %s", f.where, f.rule, f.message) }

// linter holds the types that are checked and what was found.
type linter struct {
	types    map[string]*typeDecl
	inSpec   map[string]bool
	findings []finding
}

// lint checks types and returns what breaks a rule, in the order of the types' names.
func lint(types map[string]*typeDecl) []finding {
	l := &linter{types: types, inSpec: map[string]bool{}}
	for name := range types {
		if strings.HasSuffix(name, "Spec") {
			l.reach(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t := types[name]
		l.checkType(t)
		for _, f := range t.fields {
			l.checkField(t, f)
		}
	}
	return l.findings
}

// reach marks what a user writes: the type and everything in it.
func (l *linter) reach(name string) {
	t, ok := l.types[name]
	if !ok || l.inSpec[name] {
		return
	}
	l.inSpec[name] = true
	for _, f := range t.fields {
		l.reach(strings.TrimLeft(f.typ, "[]*"))
	}
}

func (l *linter) add(where, rule, format string, args ...any) {
	l.findings = append(l.findings, finding{where, rule, fmt.Sprintf(format, args...)})
}

var pascalCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

func (l *linter) checkType(t *typeDecl) {
	if !strings.HasPrefix(t.doc, t.name+" ") {
		l.add(t.name, "docs", "the comment does not start with the type's name")
	}
	if has(t.markers, "kubebuilder:validation:Enum") {
		listed := strings.Split(value(t.markers, "kubebuilder:validation:Enum"), ";")
		for _, c := range t.consts {
			if !slices.Contains(listed, c) {
				l.add(t.name, "enum", "the constant %q is not among the values of the enum", c)
			}
		}
		for _, v := range listed {
			if !pascalCase.MatchString(v) {
				l.add(t.name, "enumcase", "the value %q is not in PascalCase", v)
			}
			if !slices.Contains(t.consts, v) {
				l.add(t.name, "enum", "the value %q has no constant", v)
			}
		}
	}
	if !has(t.markers, "kubebuilder:object:root") || strings.HasSuffix(t.name, "List") {
		return
	}
	status, ok := l.types[t.name+"Status"]
	if !ok || !has(t.markers, "kubebuilder:subresource:status") {
		l.add(t.name, "status", "a kind has a type %sStatus and the marker kubebuilder:subresource:status", t.name)
		return
	}
	first := make([]string, 0, 2)
	for i, f := range status.fields {
		if i < 2 {
			first = append(first, f.goName+" "+f.typ)
		}
	}
	if !slices.Equal(first, []string{"ObservedGeneration int64", "Conditions []metav1.Condition"}) {
		l.add(status.name, "conditions", "a status starts with observedGeneration int64 and conditions []metav1.Condition")
	}
}

var (
	camelCase = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)
	goNumber  = regexp.MustCompile(`^(\[\]|\*)*(u?int(8|16|32|64)?|float(32|64)|byte|rune)$`)
	numbers   = []string{"int32", "int64"}
)

func (l *linter) checkField(t *typeDecl, f field) {
	where := t.name + "." + f.goName
	if isMeta(f) {
		return
	}
	if f.jsonName == "" || !camelCase.MatchString(f.jsonName) {
		l.add(where, "jsontags", "the JSON name %q is not in camelCase", f.jsonName)
	} else if !strings.EqualFold(f.jsonName, f.goName) {
		l.add(where, "jsontags", "the JSON name %q is not that of the field", f.jsonName)
	}
	if !startsWithWord(f.doc, f.jsonName) {
		l.add(where, "docs", "the comment does not start with %q", f.jsonName)
	}
	optional, required := has(f.markers, "optional"), has(f.markers, "required")
	if optional == required {
		l.add(where, "optionalorrequired", "needs one of the markers optional and required")
	}
	if !slices.Contains(f.options, "omitempty") && !slices.Contains(f.options, "omitzero") {
		l.add(where, "omitempty", "needs omitempty or omitzero: what nobody set is not written")
	}
	for _, m := range f.markers {
		if name, _, _ := strings.Cut(m, "="); countMarker(f.markers, name) > 1 && !strings.Contains(name, "XValidation") &&
			!strings.HasPrefix(name, "listMapKey") {
			l.add(where, "uniquemarkers", "the marker %s is given twice", name)
			break
		}
	}
	if has(f.markers, "nullable") {
		l.add(where, "nonullable", "absent says enough; null says it twice")
	}
	if strings.EqualFold(f.jsonName, "phase") {
		l.add(where, "nophase", "programs read conditions")
	}
	if strings.HasSuffix(f.goName, "Timestamp") || strings.HasSuffix(f.goName, "Date") {
		l.add(where, "notimestamp", "names of times end in Time")
	}
	l.checkFieldType(where, t, f)
}

func (l *linter) checkFieldType(where string, t *typeDecl, f field) {
	base := strings.TrimLeft(f.typ, "[]*")
	switch {
	case strings.HasPrefix(f.typ, "map["):
		l.add(where, "nomaps", "lists of named things can be merged and documented; maps cannot")
	case goNumber.MatchString(f.typ) && f.typ != "[]byte" && !slices.Contains(numbers, base):
		l.add(where, "integers", "%s: numbers are int32 or int64; fractions are decimal strings or quantities", f.typ)
	case base == "bool" && l.inSpec[t.name]:
		l.add(where, "nobools", "an enum can grow a third value; a bool cannot")
	case base == "interface{}" || base == "any":
		l.add(where, "notany", "a field has a type")
	}
	if strings.HasPrefix(f.typ, "[]") && f.typ != "[]byte" {
		l.checkList(where, t, f, base)
	}
	if base == "metav1.Condition" && (value(f.markers, "listType") != "map" || value(f.markers, "listMapKey") != "type" ||
		f.jsonName != "conditions") {
		l.add(where, "conditions", "conditions are a list of type map with the key type")
	}
	if !l.inSpec[t.name] {
		return
	}
	named := l.types[base]
	isString := base == "string" || named != nil && named.under == "string"
	markers := f.markers
	if named != nil {
		markers = append(slices.Clone(markers), named.markers...)
	}
	if (isString && !has(
		markers, "kubebuilder:validation:MaxLength", "kubebuilder:validation:items:MaxLength", "kubebuilder:validation:Enum",
	)) ||
		f.typ == "[]byte" && !has(markers, "kubebuilder:validation:MaxLength") {
		l.add(where, "maxlength", "what a user writes has a MaxLength or is an enum")
	}
	if slices.Contains(numbers, base) && (!has(markers, "kubebuilder:validation:Minimum") ||
		!has(markers, "kubebuilder:validation:Maximum")) {
		l.add(where, "numericbounds", "a number that a user writes has a Minimum and a Maximum")
	}
	if has(f.markers, "optional") && named != nil && named.under == "struct" && f.typ == base &&
		!slices.Contains(f.options, "omitzero") {
		l.add(where, "optionalstruct", "an optional struct is a pointer or has omitzero")
	}
	if has(f.markers, "default", "kubebuilder:default") && has(f.markers, "required") {
		l.add(where, "defaults", "a field with a default is optional")
	}
}

func (l *linter) checkList(where string, t *typeDecl, f field, base string) {
	switch value(f.markers, "listType") {
	case "atomic", "set":
	case "map":
		key := value(f.markers, "listMapKey")
		item, ok := l.types[base]
		if ok && !slices.ContainsFunc(item.fields, func(f field) bool {
			return f.jsonName == key && has(f.markers, "required")
		}) {
			l.add(where, "listtype", "the key %q is not a required field of %s", key, base)
		}
	default:
		l.add(where, "listtype", "needs the marker listType: atomic, set or map")
	}
	if l.inSpec[t.name] && !has(f.markers, "kubebuilder:validation:MaxItems") {
		l.add(where, "maxitems", "a list that a user writes has MaxItems")
	}
}

// isMeta is true for what every kind and list of kinds has, and for inlined types, whose fields are checked there.
func isMeta(f field) bool {
	return f.embedded && (strings.HasPrefix(f.typ, "metav1.") || slices.Contains(f.options, "inline")) ||
		f.goName == "Items" && f.jsonName == "items"
}

func startsWithWord(doc, word string) bool {
	rest, ok := strings.CutPrefix(doc, word)
	return ok && word != "" && (rest == "" || strings.ContainsRune(" :,'", rune(rest[0])))
}

func countMarker(markers []string, name string) int {
	n := 0
	for _, m := range markers {
		if got, _, _ := strings.Cut(m, "="); got == name {
			n++
		}
	}
	return n
}
