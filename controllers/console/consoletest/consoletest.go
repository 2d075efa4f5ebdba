// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package consoletest has objects of two clusters, east and west, in the states that a console shows, for its tests.
package consoletest

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"text/template"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
)

// Hostile is a text that harms where it is not escaped.
const Hostile = `</td></script><script src=//evil.example></script><img src=x onerror=alert(1)> "' ` + "\x1b[2J\u202e"

//go:embed *.yaml
var files embed.FS

// Objects are those of a cluster, east or west, with times before now.
func Objects(cluster string, now time.Time) ([]explain.Object, error) {
	ago := func(d string) (string, error) {
		length, err := time.ParseDuration(d)
		return now.Add(-length).UTC().Format(time.RFC3339), err
	}
	conditions := func(ready, reconciling, stalled metav1.ConditionStatus) func(reason, message, since string) (string, error) {
		return func(reason, message, since string) (string, error) {
			at, err := ago(since)
			if err != nil {
				return "", err
			}
			var all []map[string]any
			for _, c := range []struct {
				kind   string
				status metav1.ConditionStatus
			}{
				{v1alpha1.ConditionReady, ready}, {v1alpha1.ConditionReconciling, reconciling},
				{v1alpha1.ConditionStalled, stalled},
			} {
				all = append(all, map[string]any{
					"type": c.kind, "status": c.status, "reason": reason, "message": message, "lastTransitionTime": at,
				})
			}
			text, err := json.Marshal(all)
			return string(text), err
		}
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	parsed, err := template.New(cluster+".yaml").Funcs(template.FuncMap{
		"ago": ago, "ready": conditions(yes, no, no), "working": conditions(no, yes, no),
		"stalled": conditions(no, no, yes), "resting": conditions(no, no, no),
		"hostile": func() (string, error) {
			text, err := json.Marshal(Hostile)
			return string(text), err
		},
	}).ParseFS(files, cluster+".yaml")
	if err != nil {
		return nil, fmt.Errorf("parsing the objects of %s: %w", cluster, err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, nil); err != nil {
		return nil, fmt.Errorf("making the objects of %s: %w", cluster, err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	var objects []explain.Object
	for _, document := range bytes.Split(out.Bytes(), []byte("\n---\n")) {
		object, err := decode(scheme, document)
		if err != nil {
			return nil, fmt.Errorf("reading an object of %s: %w\n%s", cluster, err, document)
		}
		object.SetCreationTimestamp(metav1.NewTime(now.Add(-20 * 24 * time.Hour)))
		objects = append(objects, object)
	}
	return objects, nil
}

func decode(scheme *runtime.Scheme, document []byte) (explain.Object, error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return nil, err
	}
	empty, err := scheme.New(schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind))
	if err != nil {
		return nil, err
	}
	object, ok := empty.(explain.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", empty)
	}
	return object, yaml.UnmarshalStrict(document, object)
}
