// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentsecret

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recordAnnotation on an object that is made with the pods that mount a Secret is what the Secret holds, keys and
// certificates excepted: Secrets cannot be written in part without being read, and when a spec cannot be used any more
// certificates have to be renewed all the same.
const recordAnnotation = "lighterage.dev/agent-configuration"

// maxRecord leaves space for others in the 256 KiB that all annotations of an object may have together.
const maxRecord = 192 << 10

type record struct {
	Revision string            `json:"revision"`
	Config   json.RawMessage   `json:"config"`
	Files    map[string][]byte `json:"files,omitempty"`
}

// Record is an annotation from which Recorded reads the content again, identity and server names excepted. It is empty
// for more than 192 KiB, which take several large CA bundles.
func (c Content) Record() (map[string]string, error) {
	config, err := protojson.Marshal(c.Config)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration of agents: %w", err)
	}
	// What encodes messages puts spaces where it likes; a record is to change with what it says only.
	var compact bytes.Buffer
	if err := json.Compact(&compact, config); err != nil {
		return nil, fmt.Errorf("encoding the configuration of agents: %w", err)
	}
	encoded, err := json.Marshal(record{Revision: c.Revision, Config: compact.Bytes(), Files: c.Files})
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration of agents: %w", err)
	}
	if len(encoded) > maxRecord {
		return nil, nil
	}
	return map[string]string{recordAnnotation: string(encoded)}, nil
}

// Recorded is the content of which an object bears the record, with config filled in; false when it bears none that can
// be read.
func Recorded(object metav1.Object, config proto.Message) (Content, bool) {
	var read record
	if json.Unmarshal([]byte(object.GetAnnotations()[recordAnnotation]), &read) != nil ||
		protojson.Unmarshal(read.Config, config) != nil {
		return Content{}, false
	}
	return Content{Config: config, Revision: read.Revision, Files: read.Files}, true
}
