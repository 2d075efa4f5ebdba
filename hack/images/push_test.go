// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func newRegistry(t *testing.T) *registrySource {
	t.Helper()
	server := httptest.NewServer(
		registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)),
	)
	t.Cleanup(server.Close)
	return &registrySource{
		registry: strings.TrimPrefix(server.URL, "http://") + "/team",
		options:  []remote.Option{remote.WithContext(t.Context())},
	}
}

func push(t *testing.T, dir string, to *registrySource) error {
	t.Helper()
	contents, err := openLayout(filepath.Join(dir, layoutDir))
	if err != nil {
		t.Fatal(err)
	}
	return pushLayout(contents, to)
}

// checkRegistry pushes a release, verifies it there, and installs from there.
func checkRegistry(t *testing.T, root, dir string, key signer) {
	t.Helper()
	to := newRegistry(t)
	if err := push(t, dir, to); err != nil {
		t.Fatal(err)
	}
	if err := push(t, dir, to); err != nil {
		t.Errorf("pushing it again: %v", err)
	}
	found, err := verifySource(to, testVersion, key.verifier())
	if err != nil {
		t.Fatal(err)
	}
	checkHelm(t, to, dir, found.digests)

	if _, err := verifySource(to, testVersion, newSigner(t).verifier()); err == nil {
		t.Error("images are verified with another key")
	}
	if _, err := verifySource(to, "v1.2.2", key.verifier()); err == nil {
		t.Error("a version that is not there is verified")
	}
	checkSubstitutes(t, to, found, key)

	// Another release of that version.
	writeText(t, filepath.Join(root, components[0].pkg, "main.go"), "package main\n\nfunc main() { println(\"other\") }\n")
	commit(t, root)
	if err := push(t, built(t, root, key), to); err == nil ||
		!strings.Contains(err.Error(), "published once") {
		t.Errorf("a version was replaced: %v", err)
	}
}

// checkSubstitutes: what somebody with the right to push puts in place of what was released is not verified.
func checkSubstitutes(t *testing.T, to *registrySource, found verified, key signer) {
	t.Helper()
	agent, manager := "lighterage/agent", "lighterage/manager"
	copyTag := func(fromRepository, fromTag, toRepository, toTag string) {
		t.Helper()
		from, err := to.reference(fromRepository, fromTag)
		if err != nil {
			t.Fatal(err)
		}
		at, err := to.reference(toRepository, toTag)
		if err != nil {
			t.Fatal(err)
		}
		d, err := remote.Get(from, to.options...)
		if err != nil {
			t.Fatal(err)
		}
		if d.MediaType.IsIndex() {
			var index v1.ImageIndex
			if index, err = d.ImageIndex(); err == nil {
				err = remote.WriteIndex(at, index, to.options...)
			}
		} else {
			var img v1.Image
			if img, err = d.Image(); err == nil {
				err = remote.Write(at, img, to.options...)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rejected := func(what, version string) {
		t.Helper()
		if _, err := verifySource(to, version, key.verifier()); err == nil {
			t.Errorf("%s is verified", what)
		}
	}
	for _, repository := range []string{agent, manager, "lighterage/gateway"} {
		copyTag(repository, testVersion, repository, "v1.2.4")
	}
	copyTag(chartRepository, "1.2.3-rc.1", chartRepository, "1.2.4")
	rejected("a release under another version", "v1.2.4")

	copyTag(agent, testVersion, agent, "kept")
	digest := found.digests[manager]
	copyTag(manager, testVersion, agent, testVersion)
	rejected("an image without signature", testVersion)
	copyTag(manager, cosignTag(digest, "sig"), agent, cosignTag(digest, "sig"))
	copyTag(manager, cosignTag(digest, "att"), agent, cosignTag(digest, "att"))
	rejected("the image of the manager in place of the agent's", testVersion)
	copyTag(agent, "kept", agent, testVersion)

	signature, err := newSigner(t).signature(agent, found.digests[agent])
	if err != nil {
		t.Fatal(err)
	}
	at, err := to.reference(agent, cosignTag(found.digests[agent], "sig"))
	if err != nil {
		t.Fatal(err)
	}
	original, err := remote.Image(at, to.options...)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(at, signature, to.options...); err != nil {
		t.Fatal(err)
	}
	rejected("a signature by another key", testVersion)
	if err := remote.Write(at, original, to.options...); err != nil {
		t.Fatal(err)
	}
	if _, err := verifySource(to, testVersion, key.verifier()); err != nil {
		t.Errorf("what was put back is not verified: %v", err)
	}
}

// checkHelm: Helm pulls the chart that is in the directory, and renders it with images by digest.
func checkHelm(t *testing.T, from *registrySource, dir string, digests map[string]v1.Hash) {
	t.Helper()
	helm := toolProgram(t, "helm")
	chart := "oci://" + from.registry + "/" + chartRepository
	work := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), helm, args...)
		cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+work, "HELM_CONFIG_HOME="+work, "HELM_DATA_HOME="+work)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("helm %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("pull", chart, "--version", "1.2.3-rc.1", "--plain-http", "--destination", work)
	const name = "lighterage-1.2.3-rc.1.tgz"
	if string(contentOf(t, filepath.Join(work, name))) != string(contentOf(t, filepath.Join(dir, name))) {
		t.Error("Helm pulls another chart than that of the release")
	}
	if out := run("show", "chart", chart, "--version", "1.2.3-rc.1", "--plain-http"); !strings.Contains(out, testVersion) {
		t.Errorf("helm show chart: %s", out)
	}
	rendered := run("template", "lighterage", chart+"@"+digests[chartRepository].String(), "--plain-http",
		"--namespace", "lighterage-system")
	for _, c := range components {
		image := "registry.example/team/lighterage/" + c.name + "@" + digests["lighterage/"+c.name].String()
		if !strings.Contains(rendered, image) {
			t.Errorf("the chart installs no %s", image)
		}
	}
	if strings.Contains(rendered, "registry.example/team/lighterage/agent:") {
		t.Error("the chart names an image by its tag")
	}
}

// toolProgram is a program as hack/tools pins it, which Go builds once and keeps in its cache.
func toolProgram(t *testing.T, name string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=hack/tools/"+name+"/go.mod", "-n", name)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(append(os.Environ(), "GOFLAGS=-buildvcs=false -trimpath"), env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("building %s: %v", name, err)
	}
	return strings.TrimSpace(string(out))
}
