// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type schema = apiextensionsv1.JSONSchemaProps

// renderer renders the fields of a kind.
type renderer struct {
	api *api
	// shared are fields of status that several kinds have, by their paths, which have a page of their own.
	shared map[string]sharedField
}

// foreignTypes are types of Kubernetes that a page names and links to instead of listing their fields.
var foreignTypes = map[string]string{
	"corev1.SecurityContext":      "securitycontext-v1-core",
	"corev1.ResourceRequirements": "resourcerequirements-v1-core",
	"corev1.Toleration":           "toleration-v1-core",
}

const kubernetesReference = "https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.36/#"

// plainTypes are types of Kubernetes that users write as a string.
var plainTypes = map[string]string{
	"resource.Quantity": "quantity",
	"metav1.Duration":   "duration",
	"metav1.Time":       "time",
}

// top renders spec or status: a table of its plain fields, and a section for each field that is an object.
func (r renderer) top(b *strings.Builder, f field, s schema) error {
	fmt.Fprintf(b, "## %s\n\n", f.name)
	if text := r.comment(f.name, s.Description); text != "" {
		fmt.Fprintf(b, "%s\n\n", strings.ReplaceAll(text, "\n", "\n\n"))
	}
	r.rules(b, f.name, s)
	fields, err := r.api.fields(f.goType)
	if err != nil {
		return err
	}
	var rows [][]string
	var sections strings.Builder
	for _, child := range fields {
		path := f.name + "." + child.name
		property, ok := s.Properties[child.name]
		if !ok {
			return fmt.Errorf("the CRD has no %s; run make generate-api", path)
		}
		isRequired := slices.Contains(s.Required, child.name)
		if !r.nested(child, property) {
			rows = append(rows, r.row(path, child, property, isRequired))
			continue
		}
		summary := r.row(path, child, property, isRequired)
		if r.shared[path].goType == child.goType {
			summary[0] = link(path, sharedPageName+"#"+anchor(path))
			rows = append(rows, summary)
			continue
		}
		summary[0], summary[3] = link(path, "#"+anchor(path)), firstSentence(summary[3])
		rows = append(rows, summary)
		if err := r.section(&sections, path, child, property); err != nil {
			return err
		}
	}
	b.WriteString(fieldTable(f.name, rows) + "\n" + sections.String())
	return nil
}

// section has the fields below an object in a table.
func (r renderer) section(b *strings.Builder, path string, f field, s schema) error {
	var nested [][]string
	if err := r.walk(&nested, path+suffix(s), f, s); err != nil {
		return err
	}
	description, rules := r.describe(path, f, s)
	fmt.Fprintf(b, "### %s\n\n", path)
	if len(description) > 0 {
		fmt.Fprintf(b, "%s\n\n", strings.ReplaceAll(strings.Join(description, "\n"), "\n", "\n\n"))
	}
	if len(rules) > 0 {
		fmt.Fprintf(b, "- %s\n\n", strings.Join(rules, "\n- "))
	}
	b.WriteString(fieldTable(path, nested) + "\n")
	return nil
}

// fieldTable is a table of rows; what is in status has no defaults.
func fieldTable(path string, rows [][]string) string {
	header := []string{"Field", "Type", "Default", "Description"}
	if path == "status" || strings.HasPrefix(path, "status.") {
		header, rows = slices.Delete(header, 2, 3), withoutColumn(rows, 2)
	}
	return table(header, rows)
}

// walk adds a row for each field below an object.
func (r renderer) walk(rows *[][]string, path string, f field, s schema) error {
	object := element(s)
	fields, err := r.api.fields(f.goType)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, child := range fields {
		property, ok := object.Properties[child.name]
		if !ok {
			return fmt.Errorf("the CRD has no %s.%s; run make generate-api", path, child.name)
		}
		childPath := path + "." + child.name
		*rows = append(*rows, r.row(childPath, child, property, slices.Contains(object.Required, child.name)))
		if r.nested(child, property) {
			if err := r.walk(rows, childPath+suffix(property), child, property); err != nil {
				return err
			}
		}
	}
	return nil
}

// nested tells whether the fields of a field are rendered as well.
func (r renderer) nested(f field, s schema) bool {
	_, own := r.api.structs[f.goType]
	return own && f.foreign == "" && len(element(s).Properties) > 0
}

// row is path, type, default and description of a field.
func (r renderer) row(path string, f field, s schema, required bool) []string {
	kind := r.typeOf(f, s)
	if required {
		kind += ", required"
	}
	description, rules := r.describe(path, f, s)
	for _, rule := range rules {
		description = append(description, "Rule: "+rule)
	}
	return []string{code(path), kind, defaultOf(s), strings.Join(description, "\n")}
}

// describe is what there is to say of a field, and its rules. What is in status users do not write: bounds and rules
// are left out there, and so is what values mean, which spec says.
func (r renderer) describe(path string, f field, s schema) (description, rules []string) {
	if text := r.comment(f.name, cmp.Or(s.Description, element(s).Description)); text != "" {
		description = append(description, text)
	}
	if strings.HasPrefix(path, "status.") {
		if names := enumNames(s); len(names) > 0 {
			description = append(description, "One of `"+strings.Join(names, "`, `")+"`.")
		}
		return description, nil
	}
	for _, text := range []string{limitsOf(s), r.enumeration(f, s)} {
		if text != "" {
			description = append(description, text)
		}
	}
	return description, r.rulesOf(s)
}

// comment renders a comment, which begins with the name of its field more often than not.
func (r renderer) comment(name, text string) string {
	text = prose(text)
	rest, found := strings.CutPrefix(text, name)
	if name != "" && found && (rest == "" || strings.ContainsAny(rest[:1], " :,.'")) {
		return "`" + name + "`" + rest
	}
	return sentence(text)
}

// rules are those of the object as a whole.
func (r renderer) rules(b *strings.Builder, path string, s schema) {
	rules := r.rulesOf(s)
	if len(rules) == 0 || path == "status" {
		return
	}
	fmt.Fprintf(b, "Rules for `%s`, which the API server checks:\n\n", path)
	for _, rule := range rules {
		fmt.Fprintf(b, "- %s\n", rule)
	}
	b.WriteString("\n")
}

// rulesOf are the messages of the CEL rules of a value or its elements.
func (r renderer) rulesOf(s schema) []string {
	var all []string
	for _, each := range []schema{s, element(s)} {
		for _, rule := range each.XValidations {
			text := prose(rule.Message)
			if path, rest, _ := strings.Cut(text, " "); r.api.isField(strings.TrimSuffix(path, ",")) {
				text = strings.Replace("`"+path+"` "+rest, ",` ", "`, ", 1)
			} else {
				text = sentence(text)
			}
			if text != "" && !slices.Contains(all, text+".") {
				all = append(all, text+".")
			}
		}
	}
	return all
}

// element is the schema of the elements of a list or of the values of a map; of anything else it is that itself.
func element(s schema) schema {
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		return element(*s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return element(*s.AdditionalProperties.Schema)
	}
	return s
}

// suffix of a path to elements.
func suffix(s schema) string {
	switch {
	case s.Items != nil:
		return "[]"
	case s.AdditionalProperties != nil:
		return ".KEY"
	}
	return ""
}

func (r renderer) typeOf(f field, s schema) string {
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		return "list of " + r.typeOf(f, *s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map of string to " + r.typeOf(f, *s.AdditionalProperties.Schema)
	case f.foreign == "metav1.Condition":
		return "[condition](conditions.md)"
	}
	if name, ok := plainTypes[f.foreign]; ok {
		return name
	}
	if target, ok := foreignTypes[f.foreign]; ok {
		_, name, _ := strings.Cut(f.foreign, ".")
		return fmt.Sprintf("[%s](%s%s)", name, kubernetesReference, target)
	}
	if s.Format == "byte" {
		return "base64"
	}
	return s.Type
}

// enumNames are the values that are allowed.
func enumNames(s schema) []string {
	var names []string
	for _, raw := range element(s).Enum {
		names = append(names, plainJSON(raw))
	}
	return names
}

// enumeration lists the values that are allowed, with what they mean where the API says so.
func (r renderer) enumeration(f field, s schema) string {
	names := enumNames(s)
	if len(names) == 0 {
		return ""
	}
	var lines []string
	for _, name := range names {
		for _, v := range r.api.values[f.goType] {
			if v.value == name && v.doc != "" {
				lines = append(lines, "`"+name+"`: "+prose(v.doc))
			}
		}
	}
	if len(lines) < len(names) {
		return "One of `" + strings.Join(names, "`, `") + "`."
	}
	return strings.Join(lines, "\n")
}

func defaultOf(s schema) string {
	if s.Default == nil {
		return ""
	}
	text := plainJSON(*s.Default)
	if text == "{}" {
		return ""
	}
	return code(text)
}

// plainJSON is a value of JSON, strings without quotation marks.
func plainJSON(raw apiextensionsv1.JSON) string {
	var text string
	if json.Unmarshal(raw.Raw, &text) == nil {
		return text
	}
	return string(raw.Raw)
}

// limitsOf are the bounds of a value in words.
func limitsOf(s schema) string {
	var all []string
	between := func(least, most *int64, unit string) {
		switch {
		case least != nil && *least > 0 && most != nil && *least == *most:
			all = append(all, fmt.Sprintf("exactly %d %s", *least, unit))
		case least != nil && *least > 0 && most != nil:
			all = append(all, fmt.Sprintf("%d to %s %s", *least, number(*most), unit))
		case most != nil:
			all = append(all, fmt.Sprintf("at most %s %s", number(*most), unit))
		case least != nil && *least > 0:
			all = append(all, fmt.Sprintf("at least %d %s", *least, unit))
		}
	}
	if s.Items != nil {
		between(s.MinItems, s.MaxItems, "elements")
	}
	if s.AdditionalProperties != nil {
		between(s.MinProperties, s.MaxProperties, "entries")
	}
	if e := element(s); len(e.Enum) == 0 {
		switch {
		case e.Minimum != nil && e.Maximum != nil:
			all = append(all, number(int64(*e.Minimum))+" to "+number(int64(*e.Maximum)))
		case e.Minimum != nil:
			all = append(all, "at least "+number(int64(*e.Minimum)))
		case e.Maximum != nil:
			all = append(all, "at most "+number(int64(*e.Maximum)))
		}
		if !e.XIntOrString {
			between(e.MinLength, e.MaxLength, "characters")
		}
		if e.Pattern != "" && !e.XIntOrString {
			all = append(all, "matches "+code(e.Pattern))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return sentence(strings.Join(all, ", ") + ".")
}

// number groups digits by three.
func number(n int64) string {
	if n < 0 {
		return "-" + number(-n)
	}
	if n < 10_000 {
		return fmt.Sprint(n)
	}
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// anchor is that of a heading, as GitHub and MkDocs make it.
func anchor(heading string) string {
	return strings.ToLower(strings.ReplaceAll(heading, ".", ""))
}

// firstSentence of a description, for an overview.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if first, _, found := strings.Cut(text, ". "); found {
		return first + "."
	}
	return text
}
