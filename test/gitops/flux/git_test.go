// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build gitops

package flux_test

import (
	"io/fs"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// repository is a Git repository with a work tree, served by HTTP.
type repository struct {
	t    *testing.T
	tree string
	url  string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t: t, tree: filepath.Join(t.TempDir(), "fleet")}
	if err := os.Mkdir(r.tree, 0o700); err != nil {
		t.Fatal(err)
	}
	r.git("init", "--quiet", "--initial-branch=main")
	server := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(r.git("--exec-path")), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.tree), "GIT_HTTP_EXPORT_ALL=1"},
	})
	t.Cleanup(server.Close)
	r.url = server.URL + "/fleet"
	return r
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	command := exec.CommandContext(r.t.Context(), "git", args...)
	command.Dir = r.tree
	command.Env = append(
		os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=test",
		"GIT_AUTHOR_EMAIL=test@test", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@test",
	)
	out, err := command.Output()
	if err != nil {
		r.t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// write replaces a file of the work tree; without objects it is removed.
func (r *repository) write(path string, objects ...unstructured.Unstructured) {
	r.t.Helper()
	path = filepath.Join(r.tree, path)
	if len(objects) == 0 {
		if err := os.Remove(path); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	var text strings.Builder
	for _, object := range objects {
		document, err := yaml.Marshal(object.Object)
		if err != nil {
			r.t.Fatal(err)
		}
		text.WriteString("---\n" + string(document))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// add adds the files of a directory, which it changes.
func (r *repository) add(directory string, change *strings.Replacer) {
	r.t.Helper()
	if err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path) //nolint:gosec // the test's own
		if err != nil {
			return err
		}
		into := filepath.Join(r.tree, strings.TrimPrefix(path, directory))
		if err := os.MkdirAll(filepath.Dir(into), 0o700); err != nil {
			return err
		}
		return os.WriteFile(into, []byte(change.Replace(string(text))), 0o600)
	}); err != nil {
		r.t.Fatal(err)
	}
}

// objects are those of the work tree for a cluster.
func (r *repository) objects(cluster string) (objects []unstructured.Unstructured) {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(r.tree, "*", cluster, "*.yaml"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // the test's own
		if err != nil {
			r.t.Fatal(err)
		}
		objects = append(objects, parse(r.t, string(text))...)
	}
	return objects
}

// commit commits the work tree and returns the commit.
func (r *repository) commit(message string) string {
	r.t.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message", message)
	return strings.TrimSpace(r.git("rev-parse", "HEAD"))
}

// parse reads the documents of a text.
func parse(t *testing.T, text string) []unstructured.Unstructured {
	t.Helper()
	var objects []unstructured.Unstructured
	for document := range strings.SplitSeq(text, "---\n") {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects
}
