// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package arch_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/lighterage/lighterage"
)

// ban forbids packages under in to depend on anything under what, itself or through other packages of the module.
type ban struct {
	in     []string
	what   []string
	except []string
	// direct bans what the packages name themselves, not what those need in turn.
	direct bool
	reason string
}

const endsReason = "the ends of a Transfer share what they agree about and nothing else: either is read, and " +
	"changed, without the other, which may be of another release"

var bans = []ban{
	{
		in:     []string{"controllers"},
		what:   []string{module + "/agent"},
		except: []string{module + "/agent/wire"},
		reason: "the halves meet in the protobuf contract alone, so that either can be changed, tested and released " +
			"without the other",
	},
	{
		in:     []string{"agent"},
		what:   []string{"k8s.io", "sigs.k8s.io", module + "/api", module + "/controllers"},
		except: []string{module + "/api/messages/v1"},
		reason: "the data plane knows nothing of Kubernetes: it runs and is tested without a cluster, and a flaw in it " +
			"cannot reach the API server",
	},
	{
		in:     []string{"api"},
		what:   []string{module + "/agent", module + "/controllers", "sigs.k8s.io/controller-runtime"},
		reason: "other programs import the types and must not get our code, or a version of controller-runtime, with them",
	},
	{
		in:     []string{"api/messages"},
		what:   []string{"k8s.io", "sigs.k8s.io", module},
		except: []string{module + "/api/messages"},
		reason: "clients of queues get gRPC and protobuf with it, and nothing else",
	},
	{
		in: []string{"agent/codec", "agent/frame", "agent/estimate", "agent/policy", "agent/meter"},
		what: []string{
			"net", "os", "io/fs", "path/filepath", "google.golang.org/grpc", module + "/agent/transport", module + "/agent/tree",
			module + "/agent/journal", module + "/agent/transfer", module + "/agent/control",
		},
		reason: "compressing, framing and deciding are shared by transfers, queues and HTTP, and know nothing of transport " +
			"or files",
	},
	{
		in: []string{
			"agent/compression", "agent/httpagent", "agent/httpproxy", "agent/queue", "agent/queueagent", "agent/serve",
			"agent/trial",
		},
		what:   []string{module + "/agent/transfer"},
		reason: "what serves messages and bodies moves no files: what it shares with Transfers is in packages of its own",
	},
	{
		in:     []string{"agent/transfer/send"},
		what:   []string{module + "/agent/transfer"},
		except: []string{module + "/agent/transfer/protocol"},
		reason: endsReason,
	},
	{
		in:     []string{"agent/transfer/receive"},
		what:   []string{module + "/agent/transfer"},
		except: []string{module + "/agent/transfer/protocol"},
		reason: endsReason,
	},
	{
		in:     []string{"agent/transfer/protocol"},
		what:   []string{module + "/agent/transfer"},
		reason: endsReason,
	},
	{
		in: []string{
			"controllers/agentpod", "controllers/agentreport", "controllers/attempt", "controllers/drillplan",
			"controllers/objectstoreplan", "controllers/plan", "controllers/transfersetplan", "controllers/trialplan",
		},
		what:   []string{"sigs.k8s.io/controller-runtime", "k8s.io/client-go", "net/http", "os"},
		direct: true,
		reason: "planning is a pure function of what was gathered: it reads no cluster, file or network, so every case of " +
			"it is a table test",
	},
	{
		in:     []string{"agent/policy", "agent/estimate"},
		what:   []string{"math/rand", "math/rand/v2", "time"},
		reason: "decisions are pure functions of their arguments: the same block and the same figures give the same decision",
	},
	{
		in:     []string{"agent", "api", "controllers/cmd/manager", "controllers/cmd/gateway"},
		what:   []string{"github.com/parquet-go/parquet-go"},
		reason: "the kubectl plugin alone writes Parquet; the images do without the library",
	},
	{
		in:     []string{"agent", "controllers", "api"},
		what:   []string{module + "/hack", module + "/test", "testing"},
		reason: "what is shipped does not depend on what builds or tests it",
	},
}

// isTestSupport is true for packages that are test code without being test files, such as the suite that every codec
// runs. As in the standard library their names end in test. They may import testing, and with that ban nothing shipped
// may import them.
func isTestSupport(dir string) bool { return strings.HasSuffix(dir, "test") }

// TestImports walks the imports of every file, whatever build tags it has, and follows them through the module's own
// packages. Imports of other modules count where they are named: what those need is theirs.
func TestImports(t *testing.T) {
	packages := readPackages(t)
	if len(packages) < 5 {
		t.Fatalf("found %d packages: the walk is broken", len(packages))
	}
	for _, b := range bans {
		for dir := range packages {
			if !underAny(dir, b.in) || isTestSupport(dir) {
				continue
			}
			for _, chain := range forbidden(packages, dir, b) {
				t.Errorf("%s\n\tis forbidden: %s", strings.Join(chain, "\n\timports "), b.reason)
			}
		}
	}
}

// TestForbidden shows that the walk finds what it looks for, at first hand and through other packages, and only that.
func TestForbidden(t *testing.T) {
	packages := map[string][]string{
		"controllers/a": {module + "/controllers/b", module + "/agent/wire/v1"},
		"controllers/b": {module + "/agent/codec"},
		"controllers/c": {"fmt", module + "/agent/wire/v1"},
		"agent/wire/v1": {module + "/agent/wire/internal"},
		"agent/x":       {"k8s.io/api/core/v1"},
		"agent/y":       {"k8s.iox/api"},
	}
	for _, c := range []struct {
		dir  string
		ban  ban
		want int
	}{
		{"controllers/a", bans[0], 1},
		{"controllers/b", bans[0], 1},
		{"controllers/c", bans[0], 0},
		{"agent/x", bans[1], 1},
		{"agent/y", bans[1], 0},
	} {
		if got := forbidden(packages, c.dir, c.ban); len(got) != c.want {
			t.Errorf("%s: found %v, want %d", c.dir, got, c.want)
		}
	}
}

// TestCgoOnlyInEngines holds C to the engine packages, and the tests of the accelerator: everything else builds, and is
// tested, without a C compiler.
func TestCgoOnlyInEngines(t *testing.T) {
	engines := []string{"agent/codec/zlibng", "agent/codec/isal", "agent/codec/libzstd"}
	for dir, imports := range readPackages(t) {
		if slices.Contains(imports, "C") && !slices.Contains(engines, dir) && dir != "test/dfltcc" {
			t.Errorf("%s uses cgo; C belongs into an engine package (%s), behind a build tag", dir, strings.Join(engines, ", "))
		}
	}
}

// forbidden lists, for package dir, a chain of imports to each banned one.
func forbidden(packages map[string][]string, dir string, b ban) [][]string {
	var found [][]string
	seen := map[string]bool{}
	var visit func(dir string, chain []string)
	visit = func(dir string, chain []string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		chain = append(slices.Clone(chain), module+"/"+dir)
		for _, imported := range packages[dir] {
			if imported != module+"/"+dir && underAny(imported, b.what) && !underAny(imported, b.except) {
				found = append(found, append(slices.Clone(chain), imported))
				continue
			}
			if own, ok := strings.CutPrefix(imported, module+"/"); ok && !b.direct && !underAny(imported, b.except) {
				visit(own, chain)
			}
		}
	}
	visit(dir, nil)
	return found
}

// readPackages maps each directory of the module, relative to its root, to what its files import, tests left out.
func readPackages(t *testing.T) map[string][]string {
	t.Helper()
	packages := map[string][]string{}
	for _, path := range goFiles(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if _, ok := packages[dir]; !ok {
			packages[dir] = nil
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if !slices.Contains(packages[dir], imported) {
				packages[dir] = append(packages[dir], imported)
			}
		}
	}
	return packages
}

// goFiles lists the Go files of this module, relative to its root.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, ".go") {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func underAny(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}
