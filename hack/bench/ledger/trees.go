// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"os"
	"path/filepath"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/test/corpus"
)

// makeTrees makes a tree of each size, of files of records of a length. The files of a tree are further names of a few,
// which agents move as files of their own, so that the trees take little memory.
func (o *options) makeTrees(record int) (map[int64]string, error) {
	kind, found := corpus.ByName("csv")
	if !found {
		return nil, fmt.Errorf("there is no such data")
	}
	data := kind.Generate(fileSize)
	for i := record - 1; i < len(data); i += record {
		data[i] = '\n'
	}
	file := filepath.Join(o.work, "file")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return nil, err
	}
	defer os.Remove(file)
	trees := map[int64]string{}
	for _, size := range o.sizes {
		tree := filepath.Join(o.work, fmt.Sprintf("%d-%d", record, size))
		if err := os.Mkdir(tree, 0o755); err != nil {
			return nil, err
		}
		for i := range size / fileSize {
			if err := os.Link(file, filepath.Join(tree, fmt.Sprintf("%04d", i))); err != nil {
				return nil, err
			}
		}
		trees[size] = tree
	}
	return trees, nil
}

// settings compress each block with a codec, or none.
func settings(codec string) *wirev1.CompressionSettings {
	s := &wirev1.CompressionSettings{
		Mode: wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS, Codecs: []string{codec},
		Level:     wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
		Objective: wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_BYTES,
	}
	if codec == "none" {
		s.Mode, s.Codecs = wirev1.CompressionMode_COMPRESSION_MODE_NEVER, nil
	}
	return s
}
