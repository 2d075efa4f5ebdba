// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trees makes the trees of files that benchmarks move.
package trees

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/test/corpus"
)

// Demo makes the tree of the demo, of so many MiB.
func Demo(ctx context.Context, root string, mib int) error {
	return harness.Command(ctx, "bash", "-o", "pipefail", "-c",
		fmt.Sprintf("mkdir %[1]s; hack/demo/data.sh %[2]d | tar -x -o -f - -C %[1]s", root, mib))
}

// Small makes so many directories with 1,000 files of 4 KiB of JSON each.
func Small(root string, directories int) error {
	const size, each = 4096, 1000
	kind, _ := corpus.ByName("json")
	data := kind.Generate(size * each)
	for i := range directories {
		if err := Cut(data, size, filepath.Join(root, fmt.Sprintf("%03d", i)), "%04d"); err != nil {
			return err
		}
	}
	return nil
}

// Deep makes 3,000 files whose content is that of the kinds of test/corpus in turn: 1,500 of 1 to 16 KiB in a tree of
// directories eight levels deep, and 1,500 of 16 KiB to 1 MiB beside each other. Sizes are spread evenly on a logarithmic
// scale; the same every time.
func Deep(root string) error {
	const each, deepest, large = 1500, 8, 1 << 20
	random := rand.New(rand.NewPCG(1, 2))
	var kinds [][]byte
	for _, name := range []string{"xml", "json", "records", "csv", "source", "gzip", "random"} {
		kind, _ := corpus.ByName(name)
		kinds = append(kinds, kind.Generate(4*large))
	}
	write := func(directory string, i int, least, most float64) error {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
		size := int(least * math.Pow(most/least, random.Float64()))
		data := kinds[i%len(kinds)]
		start := random.IntN(len(data) - size + 1)
		return os.WriteFile(filepath.Join(directory, fmt.Sprintf("%04d", i)), data[start:start+size], 0o644)
	}
	for i := range each {
		directory := filepath.Join(root, "deep")
		for level := range deepest { // eight files share the directories above them
			directory = filepath.Join(directory, fmt.Sprint(i>>3>>level&1))
		}
		if err := write(directory, i, 1<<10, 16<<10); err != nil {
			return err
		}
		if err := write(filepath.Join(root, "flat"), i, 16<<10, large); err != nil {
			return err
		}
	}
	return nil
}

// Cut writes data to files of a size in a directory.
func Cut(data []byte, size int, directory, format string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	for i := range len(data) / size {
		path := filepath.Join(directory, fmt.Sprintf(format, i))
		if err := os.WriteFile(path, data[i*size:(i+1)*size], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Size is how much there is in a tree.
type Size struct {
	Files, Links, Directories int
	Bytes                     int64
}

// Measure returns the size of a tree.
func Measure(root string) (Size, error) {
	var size Size
	err := filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			size.Directories++
		case entry.Type()&fs.ModeSymlink != 0:
			size.Links++
		default:
			info, err := entry.Info()
			if err != nil {
				return err
			}
			size.Files++
			size.Bytes += info.Size()
		}
		return nil
	})
	if err != nil {
		return Size{}, fmt.Errorf("measure the tree %s: %w", root, err)
	}
	return size, nil
}
