// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentsecret_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentsecret"
)

func recorded(t *testing.T, content agentsecret.Content) *corev1.ConfigMap {
	t.Helper()
	annotations, err := content.Record()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
}

func TestRecord(t *testing.T) {
	content := agentsecret.Content{
		Config: &wirev1.QueueConfig{Queue: "orders", Revision: "r1"}, Revision: "r1",
		Files: map[string][]byte{"peer-ca.crt": {1, 2, 3}},
	}
	read, known := agentsecret.Recorded(recorded(t, content), &wirev1.QueueConfig{})
	if !known || read.Revision != "r1" || !proto.Equal(read.Config, content.Config) ||
		!bytes.Equal(read.Files["peer-ca.crt"], []byte{1, 2, 3}) {
		t.Errorf("%v: %+v", known, read)
	}
	content.Files["peer-ca.crt"] = make([]byte, 192<<10)
	if large := recorded(t, content); len(large.Annotations) != 0 {
		t.Error("the API server would refuse so large an annotation")
	}
}

func TestNoRecord(t *testing.T) {
	for name, value := range map[string]string{
		"none": "", "no JSON": "{", "of nothing": "{}",
		"of another kind": `{"revision": "r1", "config": {"codings": ["gzip"]}}`, "a list": `[]`,
	} {
		annotations := recorded(t, agentsecret.Content{Config: &wirev1.QueueConfig{}}).Annotations
		for key := range annotations {
			annotations[key] = value
		}
		if _, known := agentsecret.Recorded(
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}, &wirev1.QueueConfig{},
		); known {
			t.Errorf("%s: read something", name)
		}
	}
}
