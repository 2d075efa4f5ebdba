// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lighterage/lighterage/test/render"
)

const (
	root     = "../.."
	chartDir = render.ChartDir
)

var (
	helm  = render.Helm
	run   = render.Run
	find  = render.Find
	built = render.Config
)

// template renders the chart with values set as on the command line. Nobody may change the objects.
func template(t *testing.T, set ...string) ([]unstructured.Unstructured, error) {
	t.Helper()
	return render.Chart(set...)
}

// at follows a path of map keys and list indexes through an object.
func at(o any, path ...any) any {
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, _ := o.(map[string]any)
			o = m[key]
		case int:
			l, _ := o.([]any)
			if key >= len(l) {
				return nil
			}
			o = l[key]
		}
	}
	return o
}
