// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"errors"
	"strings"
	"testing"
)

const (
	someSum  = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	sumsLine = someSum + "  archives/00000001-0123abcd.tar.gz.age\n"
)

func TestSums(t *testing.T) {
	for text, count := range map[string]int{
		"":       0,
		sumsLine: 1,
		sumsLine + someSum + "  archives/.00000001-0123abcd.tar.gz.age.lgci\n" + someSum + "  index\n": 3,
		sumsLine + sumsLine:                               -1,
		someSum + "  writer\n":                            -1,
		someSum + "  archives/../index\n":                 -1,
		someSum + "  archives/00000001-0123abcd.tar.gz\n": -1,
		someSum + " *index\n":                             -1,
		someSum[1:] + "  index\n":                         -1,
		someSum + "00  index\n":                           -1,
		"g" + someSum[1:] + "  index\n":                   -1,
		strings.Repeat("x", 1<<20):                        -1,
	} {
		all, err := parseSums([]byte(text))
		if count < 0 && !errors.Is(err, errSums) || count >= 0 && (err != nil || len(all) != count) {
			t.Errorf("%.200q: %d, %v", text, len(all), err)
		}
	}
}

// FuzzSums takes nothing but names that can be objects of archives.
func FuzzSums(f *testing.F) {
	f.Add([]byte(sumsLine))
	f.Add([]byte(someSum + "  index\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		all, err := parseSums(content)
		if err != nil && !errors.Is(err, errSums) {
			t.Error(err)
		}
		for name := range all {
			if !sealedName(Reserved + "/" + name) {
				t.Errorf("%q was taken", name)
			}
		}
	})
}
