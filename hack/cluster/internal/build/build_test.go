// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	tests := map[string]struct{ goMod, path, want string }{
		"single": {"module x\n\nrequire k8s.io/kubernetes v1.2.3\n", "k8s.io/kubernetes", "v1.2.3"},
		"block": {
			"require (\n\ta.b/c v0.1.0\n\tk8s.io/kubernetes v1.2.3 // indirect\n)\n", "k8s.io/kubernetes", "v1.2.3",
		},
		"longer one": {
			"require (\n\tk8s.io/kubernetes/x v9.9.9\n\tk8s.io/kubernetes v1.2.3\n)\n", "k8s.io/kubernetes", "v1.2.3",
		},
		"absent": {"module x\n", "k8s.io/kubernetes", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Version([]byte(tt.goMod), tt.path)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("Version = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// Every module pins a version and lists its programs as tools, so that go.sum
// covers what is built.
func TestModulesArePinned(t *testing.T) {
	b := Builder{Source: "../..", Cache: t.TempDir()}
	for _, m := range append(Modules(), SnapshotModule()) {
		dir, version, err := b.Dir(m)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if !strings.HasPrefix(filepath.Base(dir), m.Name+"-"+version+"-") {
			t.Errorf("%s: cache folder %s does not name the version %s", m.Name, dir, version)
		}
		goMod, err := os.ReadFile(filepath.Join(b.Source, m.Name, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.Programs {
			if p.Package == "." {
				sources, err := filepath.Glob(filepath.Join(b.Source, m.Name, "*.go"))
				if err != nil || len(sources) == 0 {
					t.Errorf("%s: the folder has no program (%v)", m.Name, err)
				}
			} else if !slices.Contains(strings.Fields(string(goMod)), p.Package) {
				t.Errorf("%s: go.mod has no tool line for %s", m.Name, p.Package)
			}
		}
	}
}

func TestPackageVersion(t *testing.T) {
	goMod := []byte("require (\n\texample.org/a v1.0.0\n\texample.org/a/v2 v2.0.0\n)\n")
	for pkg, want := range map[string]string{
		"example.org/a/cmd/x": "v1.0.0", "example.org/a/v2/cmd/x": "v2.0.0", "example.org/a/v2": "v2.0.0",
		"example.org/b": "",
	} {
		if got, err := packageVersion(goMod, pkg); got != want || (err != nil) != (want == "") {
			t.Errorf("packageVersion(%s) = %q, %v; want %q", pkg, got, err, want)
		}
	}
}

func TestBuilt(t *testing.T) {
	b := Builder{Source: "../..", Cache: t.TempDir()}
	m := SnapshotModule()
	dir, _, err := b.Dir(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Programs {
		if built, err := b.Built(m); err != nil || built {
			t.Errorf("Built without %s = %v, %v", p.Name, built, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "bin", p.Name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if built, err := b.Built(m); err != nil || !built {
		t.Errorf("Built with all programs = %v, %v", built, err)
	}
}

func TestDirFollowsSource(t *testing.T) {
	source := t.TempDir()
	m := Module{Name: "m", Path: "example.org/m"}
	b := Builder{Source: source, Cache: "/cache"}
	write := func(name, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(source, "m"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(source, "m", name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module x\nrequire example.org/m v1.0.0\n")
	write("go.sum", "one")
	one, _, err := b.Dir(m)
	if err != nil {
		t.Fatal(err)
	}
	write("go.sum", "two")
	two, _, err := b.Dir(m)
	if err != nil {
		t.Fatal(err)
	}
	if one == two {
		t.Errorf("both are %s although go.sum has changed", one)
	}
	write("main.go", "package main\n")
	three, _, err := b.Dir(m)
	if err != nil {
		t.Fatal(err)
	}
	if three == two {
		t.Errorf("both are %s although the program has changed", two)
	}
}

func TestMissing(t *testing.T) {
	tools := []Tool{{"a", "pkg-a"}, {"b", "pkg-b"}, {"c", "pkg-b"}, {"d", "pkg-d"}}
	find := func(name string) (string, error) {
		if name == "a" || name == "d" {
			return "/bin/" + name, nil
		}
		return "", errors.New("not found")
	}
	if got, want := missing(tools, find), []string{"pkg-b"}; !slices.Equal(got, want) {
		t.Errorf("missing = %v, want %v", got, want)
	}
}
