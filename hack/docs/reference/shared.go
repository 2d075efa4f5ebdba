// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const sharedPageName = "compression-status.md"

// sharedFrom is how many kinds have to have a field of status for it to be on the page that they share.
const sharedFrom = 3

// sharedField is a field of status that several kinds have, of the same type and at the same path.
type sharedField struct {
	field
	schema schema
	kinds  []string
}

// sharedFields finds them, by their paths.
func sharedFields(kinds []*apiextensionsv1.CustomResourceDefinition, a *api) (map[string]sharedField, error) {
	all := map[string]sharedField{}
	for _, kind := range kinds {
		top, err := a.fields(kind.Spec.Names.Kind)
		if err != nil {
			return nil, err
		}
		for _, status := range top {
			if status.name != "status" {
				continue
			}
			fields, err := a.fields(status.goType)
			if err != nil {
				return nil, err
			}
			object := kind.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
			for _, f := range fields {
				path := "status." + f.name
				known, seen := all[path]
				if !(renderer{api: a}).nested(f, object.Properties[f.name]) || seen && known.goType != f.goType {
					continue
				}
				all[path] = sharedField{f, object.Properties[f.name], append(known.kinds, kind.Spec.Names.Kind)}
			}
		}
	}
	maps.DeleteFunc(all, func(_ string, f sharedField) bool { return len(f.kinds) < sharedFrom })
	return all, nil
}

// sharedPage is the page of these fields.
func sharedPage(r renderer) (string, error) {
	var b strings.Builder
	b.WriteString("# Status of compression\n\nSeveral kinds show the same in these fields of `status`.\n\n")
	for _, path := range slices.Sorted(maps.Keys(r.shared)) {
		f := r.shared[path]
		// What is said of the field is on the page of each kind.
		f.schema.Description = ""
		object := element(f.schema)
		object.Description = ""
		f.schema = object
		if err := r.section(&b, path, f.field, f.schema); err != nil {
			return "", err
		}
		var links []string
		for _, kind := range f.kinds {
			links = append(links, fmt.Sprintf("[%s](%s)", kind, pageName(kind)))
		}
		fmt.Fprintf(&b, "In the status of: %s.\n\n", strings.Join(links, ", "))
	}
	return strings.ReplaceAll(b.String(), "### ", "## "), nil
}
