// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/table"
)

// applied is an object without what the API server adds.
func applied(object client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", object.GetName(), err)
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	return &unstructured.Unstructured{Object: content}, nil
}

// writeManifests writes a directory for each cluster: the Peer, and the PeerGrants that were asked for.
func (c *connecting) writeManifests(steps [2]link.Step) error {
	for i, step := range steps {
		peer := step.Peer.DeepCopy()
		peer.Labels = nil // Git made it
		// The name of this cluster in the other one is a label of DNS; its context may be anything.
		directory := steps[1-i].Peer.Name
		if err := c.writeManifest(i, directory, "peer-"+peer.Name, peer); err != nil {
			return err
		}
		for _, g := range c.granted[i] {
			grant := g.For(peer.Name)
			if err := c.writeManifest(i, directory, "peergrant-"+grant.Namespace+"."+grant.Name, grant); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *connecting) writeManifest(of int, directory, name string, content client.Object) error {
	object, err := applied(content)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(object.Object)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	cluster := c.sides[of].context
	if c.manifests == "-" {
		_, err := fmt.Fprintf(c.plugin.Out, "---\n# %s\n%s", table.Printable("in cluster "+cluster), text)
		if err != nil {
			return fmt.Errorf("writing the output: %w", err)
		}
		return nil
	}
	directory = filepath.Join(c.manifests, directory)
	if err := os.MkdirAll(directory, 0o755); err != nil { //nolint:gosec // public, and for others to read
		return fmt.Errorf("making the directory: %w", err)
	}
	path := filepath.Join(directory, name+".yaml")
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		c.say("%s unchanged", path)
		return nil
	}
	if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // public, and for others to read
		return fmt.Errorf("writing %s: %w", name, err)
	}
	c.say("%s written, for cluster %s", path, cluster)
	return nil
}
