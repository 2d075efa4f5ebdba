// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/test/corpus"
)

// makeTrees makes a tree of each size, of files of records of a length. Files of smaller trees are further names of
// those of the largest, so that all trees take the memory of that one. Within a tree no two names are of one file:
// agents move such a file once.
func (o *options) makeTrees(record int) (map[int64]string, error) {
	kind, found := corpus.ByName("csv")
	if !found {
		return nil, fmt.Errorf("there is no such data")
	}
	data := kind.Generate(fileSize)
	for i := record - 1; i < len(data); i += record {
		data[i] = '\n'
	}
	trees := map[int64]string{}
	largest := slices.Max(o.sizes)
	for _, size := range slices.Backward(slices.Sorted(slices.Values(o.sizes))) {
		tree := filepath.Join(o.work, fmt.Sprintf("%d-%d", record, size))
		if err := os.Mkdir(tree, 0o755); err != nil {
			return nil, err
		}
		for i := range size / fileSize {
			name := fmt.Sprintf("%04d", i)
			file := filepath.Join(tree, name)
			var err error
			if size == largest {
				err = os.WriteFile(file, data, 0o644)
			} else {
				err = os.Link(filepath.Join(trees[largest], name), file)
			}
			if err != nil {
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
