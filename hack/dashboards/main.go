// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command dashboards writes the Grafana dashboards as JSON into a directory. What they show is in the files that are
// named after them; what all have in common is in grafana.go.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write leaves the dashboards, and no other JSON, in a directory.
func write(directory string) error {
	stale, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		return fmt.Errorf("look for dashboards: %w", err)
	}
	for _, path := range stale {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove a former dashboard: %w", err)
		}
	}
	grafana, err := newGrafana()
	if err != nil {
		return err
	}
	for _, d := range []dashboard{fleet, transfers, queues, endpoints, nodes, cost} {
		content, err := json.MarshalIndent(grafana.render(d), "", " ")
		if err != nil {
			return fmt.Errorf("encode dashboard %s: %w", d.name, err)
		}
		path := filepath.Join(directory, d.name+".json")
		if err := os.WriteFile(path, append(content, '\n'), 0o644); err != nil { //nolint:gosec // a file of the tree
			return fmt.Errorf("write dashboard %s: %w", d.name, err)
		}
	}
	return nil
}
