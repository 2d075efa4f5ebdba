// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/filter"
)

// A path that ends with "/" is a directory.
func TestMatch(t *testing.T) {
	tests := map[string]struct {
		include, exclude []string
		yes, no          []string
	}{
		"Nothing":    {nil, nil, []string{".", "a", "a/b/"}, nil},
		"Everything": {[]string{"**"}, nil, []string{".", "a", "a/", "a/b"}, nil},
		"NameAtAnyDepth": {
			nil, []string{"core"}, []string{"a/core2", "score"}, []string{"core", "a/core/", "a/core/b", "a/b/core"},
		},
		"Rooted":           {nil, []string{"/core"}, []string{"a/core"}, []string{"core", "core/x"}},
		"MiddleSlashRoots": {nil, []string{"a/core"}, []string{"b/a/core", "core", "a"}, []string{"a/core", "a/core/x"}},
		"Directory": {
			nil, []string{"tmp/"}, []string{"tmp", "a/tmp"}, []string{"tmp/", "tmp/x", "a/tmp/x", "a/tmp/"},
		},
		"InDirectory": {nil, []string{"tmp/**"}, []string{"tmp/", "tmp", "a/tmp/x"}, []string{"tmp/x", "tmp/x/y"}},
		"Star": {
			nil, []string{"*.log"}, []string{"log", "a.log2"}, []string{".log", "a.log", "b/a.log", "a.log/x"},
		},
		"StarStopsAtSlash": {nil, []string{"/a/*.log"}, []string{"a/b/c.log"}, []string{"a/c.log"}},
		"Question":         {nil, []string{"a?c"}, []string{"ac", "abbc"}, []string{"abc", "aéc", "a\xffc"}},
		"Class":            {nil, []string{"a[0-9x]"}, []string{"ay", "a"}, []string{"a5", "ax"}},
		"NotInClass":       {nil, []string{"a[!0-9]", "b[^0-9]"}, []string{"a5", "b5", "a"}, []string{"ax", "bx", "a!"}},
		"Escapes": {
			nil, []string{`\!a`, `b\*`, `\[c\]`, `#d`}, []string{"a", "bb", "c"}, []string{"!a", "b*", "[c]", "#d"},
		},
		"BracesAreNoMore": {nil, []string{"{a,b}"}, []string{"a", "b"}, []string{"{a,b}"}},
		"LeadingStars":    {nil, []string{"**/a/b"}, []string{"a", "b"}, []string{"a/b", "x/a/b", "x/y/a/b"}},
		"MiddleStars":     {nil, []string{"a/**/b"}, []string{"a", "x/a/b"}, []string{"a/b", "a/x/b", "a/x/y/b", "a/b/c"}},
		"StarsOnlyInDirs": {nil, []string{"a/**/"}, []string{"a/b", "a/"}, []string{"a/b/", "a/b/c"}},
		"StarsInAName":    {nil, []string{"a**b"}, []string{"a/b"}, []string{"ab", "axxb"}},
		"Case":            {nil, []string{"A"}, []string{"a"}, []string{"A"}},
		"NotUTF8":         {nil, []string{"*\xff"}, []string{"a"}, []string{"a\xff"}},
		"TakenBack":       {nil, []string{"*.log", "!keep.log"}, []string{"keep.log", "a/keep.log"}, []string{"a.log"}},
		"Order":           {nil, []string{"!keep.log", "*.log"}, nil, []string{"keep.log"}},
		"ExcludedAgain":   {nil, []string{"*.log", "!a*", "ab*"}, []string{"aa.log"}, []string{"ab.log", "c.log"}},
		"InExcludedDir": {
			nil, []string{"tmp/", "!tmp/keep"}, []string{"tmp/keep", "tmp/keep/x"}, []string{"tmp/", "tmp/x"},
		},
		"BeforeExcludedDir": {nil, []string{"!tmp/keep", "tmp/"}, nil, []string{"tmp/keep", "tmp/x"}},
		// A directory that is taken back is not more than that: what is excluded by itself stays excluded, as in a
		// .gitignore file.
		"DirOnlyTakenBack": {
			nil, []string{"*.log", "!important/"}, []string{"important/", "important/a"}, []string{"important/a.log"},
		},
		"DeeperStays": {nil, []string{"logs", "!x", "tmp/"}, []string{"x"}, []string{"tmp/logs/x", "tmp/x", "logs/"}},
		"DeeperTakenBack": {
			nil, []string{"logs", "tmp/", "!x"}, []string{"tmp/logs/x", "tmp/x/y"}, []string{"tmp/logs/", "tmp/y"},
		},
		"Include": {
			[]string{"data/", "*.csv"}, nil, []string{".", "data/", "data/x", "a.csv", "b/a.csv", "a/data/x"},
			[]string{"data", "b/", "b/a.txt"},
		},
		"IncludeRooted": {
			[]string{"/data/**/*.csv"}, nil, []string{"data/a.csv", "data/x/a.csv"},
			[]string{"data/", "data/x/", "x/data/a.csv"},
		},
		"Both": {[]string{"/data"}, []string{"*.tmp"}, []string{"data/", "data/a"}, []string{"data/a.tmp", "a"}},
		"BothTakenBack": {
			[]string{"/data"},
			[]string{"*", "!*.csv"},
			[]string{"data/a.csv"},
			[]string{"a.csv", "data/", "data/b"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := filter.New(test.include, test.exclude)
			if err != nil {
				t.Fatal(err)
			}
			for want, paths := range map[bool][]string{true: test.yes, false: test.no} {
				for _, p := range paths {
					path, directory := strings.CutSuffix(p, "/")
					if f.Match(path, directory) != want {
						t.Errorf("%q: not %v", p, want)
					}
				}
			}
		})
	}
}

func TestEnter(t *testing.T) {
	tests := map[string]struct {
		include, exclude []string
		yes, no          []string
	}{
		"Excluded": {nil, []string{"tmp/"}, []string{".", "a"}, []string{"tmp", "a/tmp", "tmp/x"}},
		"TakenBack": {
			nil, []string{"tmp/", "!tmp/a/keep"}, []string{"tmp", "tmp/a"}, []string{"tmp/b", "a/tmp", "tmp/a/b"},
		},
		"TakenBackItself":   {nil, []string{"tmp", "!tmp/a"}, []string{"tmp", "tmp/a", "tmp/a/b"}, []string{"tmp/b"}},
		"TakenBackBefore":   {nil, []string{"!tmp/a", "tmp"}, nil, []string{"tmp", "tmp/a"}},
		"TakenBackAnywhere": {nil, []string{"tmp", "!*.csv"}, []string{"tmp", "tmp/a/b"}, nil},
		"Include": {
			[]string{"/data/*/x"}, nil, []string{".", "data", "data/a", "data/a/x", "data/a/x/y"}, []string{"b", "data/a/b"},
		},
		"IncludeAnywhere":     {[]string{"*.csv"}, nil, []string{"a", "a/b"}, nil},
		"IncludeDeep":         {[]string{"a/**/b"}, nil, []string{"a", "a/x/y", "a/b/c"}, []string{"b"}},
		"IncludeAndExclude":   {[]string{"/data"}, []string{"data/b"}, []string{"data", "data/a"}, []string{"b", "data/b"}},
		"EverythingByPattern": {[]string{"**"}, nil, []string{".", "a", "a/b"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := filter.New(test.include, test.exclude)
			if err != nil {
				t.Fatal(err)
			}
			for want, paths := range map[bool][]string{true: test.yes, false: test.no} {
				for _, path := range paths {
					if f.Enter(path) != want {
						t.Errorf("%q: not %v", path, want)
					}
				}
			}
		})
	}
}

func TestNilMovesEverything(t *testing.T) {
	var f *filter.Filter
	if !f.Match("a", false) || !f.Match(".", true) || !f.Enter("a") {
		t.Error("something does not move")
	}
}

func TestInvalid(t *testing.T) {
	tests := map[string]struct {
		include, exclude []string
		message          string
	}{
		"Empty": {
			nil, []string{"a", ""}, `exclude pattern 2 (""): it is empty: remove it, or write "**" for everything`,
		},
		"OnlyNot":     {nil, []string{"!"}, "is empty"},
		"OnlySlash":   {[]string{"/"}, nil, "is empty"},
		"OnlySlashes": {[]string{"//"}, nil, "is empty"},
		"TwoSlashes":  {nil, []string{"a//b"}, `write one "/"`},
		"Dots":        {nil, []string{"../a"}, "from the root"},
		"Dot":         {nil, []string{"./a"}, "from the root"},
		"NUL":         {nil, []string{"a\x00"}, "NUL byte"},
		"OpenClass":   {nil, []string{"a[bc"}, `end it with "]"`},
		"EmptyClass":  {nil, []string{"a[]"}, "well formed"},
		"SlashClass":  {nil, []string{"a[b/c]"}, `keep "/" out`},
		"BadRange":    {nil, []string{"[z-a"}, "well formed"},
		"NamedClass":  {nil, []string{"[[:alpha:]]"}, `write a range, such as "[a-zA-Z]"`},
		"Backslash":   {nil, []string{`a\`}, `write "\\"`},
		"NotInclude": {
			[]string{"!a"}, nil, `include pattern 1 ("!a"): an include pattern cannot begin with "!": move it to exclude`,
		},
		"Long": {nil, []string{strings.Repeat("a", filter.MaxPattern+1)}, "longer than 1024 bytes"},
		"Deep": {nil, []string{strings.Repeat("a/", 100) + "b"}, "more than 60 elements"},
		"Many": {make([]string, filter.MaxPatterns+1), nil, "257 include patterns; the limit is 256"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := filter.New(test.include, test.exclude)
			if err == nil || !strings.Contains(err.Error(), test.message) || len(err.Error()) > 500 {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// The slowest patterns that are accepted take no more than the limits say: no pattern is tried more than once for an
// element.
func TestSlowPatterns(t *testing.T) {
	slow := make([]string, filter.MaxPatterns)
	for i := range slow {
		slow[i] = "**/" + strings.Repeat("*a", 20) + "/**/" + strings.Repeat("*a", 20) + "b"
	}
	f, err := filter.New(nil, slow)
	if err != nil {
		t.Fatal(err)
	}
	if path := strings.Repeat(strings.Repeat("a", 100)+"/", 20) + "a"; !f.Match(path, false) {
		t.Errorf("%q matches", path)
	}
}

func FuzzFilter(f *testing.F) {
	for _, seed := range [][3]string{
		{"**", "tmp/**\n!tmp/keep", "tmp/keep"}, {"a/**/b", "[!x]?\\*", "a/c/b"}, {"", "/a/\nb*c", "a/b"}, {"[a-", "", "x"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, include, exclude, path string) {
		lines := func(s string) []string {
			if s == "" {
				return nil
			}
			return strings.Split(s, "\n")
		}
		if len(path) > 4095 {
			return
		}
		flt, err := filter.New(lines(include), lines(exclude))
		if err != nil {
			return
		}
		// What moves is found: every directory on the way is entered.
		for _, directory := range []bool{false, true} {
			if !flt.Match(path, directory) {
				continue
			}
			for i := range len(path) {
				if path[i] == '/' && !flt.Enter(path[:i]) {
					t.Fatalf("%q matches, but %q is not entered", path, path[:i])
				}
			}
		}
		// Without exclude patterns nothing is lost by including more.
		if all, err := filter.New(nil, lines(exclude)); err != nil {
			t.Fatal(err)
		} else if flt.Match(path, false) && !all.Match(path, false) {
			t.Fatalf("%q moves only if less is included", path)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	f, err := filter.New([]string{"**"}, []string{"tmp/**", "*.log", "**/.cache/", "!important.log", "node_modules/"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f.Match("home/user/projects/one/src/main/file-0012.go", false)
	}
}
