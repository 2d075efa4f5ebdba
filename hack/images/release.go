// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
)

// Files of a release.
const (
	sumsFile         = "SHA256SUMS"
	sumsSignature    = "SHA256SUMS.sig"
	publicKeyFile    = "lighterage.pub"
	provenanceFile   = "lighterage-provenance.intoto.json"
	crdsFile         = "lighterage-crds.yaml"
	krewManifestFile = "lighterage-krew.yaml"
	layoutDir        = "oci"

	pluginName = "kubectl-lighterage"
)

// semver is version 2.0.0 of Semantic Versioning behind a v, without build metadata, which no tag of an image can have.
var semver = regexp.MustCompile(
	`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
		`(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?$`,
)

// programs are in no image: the kubectl plugin, and what reads files that rest compressed.
var programs = []component{
	{name: pluginName, pkg: "./controllers/cmd/kubectl-lighterage", description: "The kubectl plugin of Lighterage"},
	{
		name: "cargo", pkg: "./agent/cmd/lighterage-cargo",
		description: "The program that reads and writes files that rest compressed", onLinux: true,
	},
}

var (
	releasePlatforms = "linux/amd64,linux/arm64,linux/s390x"
	// pluginPlatforms are those of programs.
	pluginPlatforms = []v1.Platform{
		{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}, {OS: "linux", Architecture: "s390x"},
		{OS: "darwin", Architecture: "amd64"}, {OS: "darwin", Architecture: "arm64"},
	}
)

// release is what is built, of what, and what was found out on the way.
type release struct {
	root, out string
	// version begins with v; registry is where users pull from, or empty; downloads is the URL below which the files are.
	version, registry, downloads string
	components, programs         []component
	platforms, pluginPlatforms   []v1.Platform
	allowDirty                   bool
	signer                       signer

	commit    string
	clean     bool
	epoch     time.Time
	changes   []change
	toolchain string
	// libraries and compilers, in C, each once.
	libraries, compilers []string

	files     map[string][]byte
	step, all int
}

// number is the version without the v, as Helm and the changelog have it.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

func (r *release) created() string { return r.epoch.UTC().Format(time.RFC3339) }

func (r *release) archiveOf(program string, p v1.Platform) string {
	return fmt.Sprintf("%s_%s_%s_%s.tar.gz", program, r.version, p.OS, p.Architecture)
}

// next says what is done, and how far the release is.
func (r *release) next(format string, args ...any) {
	r.step++
	say("[%d/%d] %s", r.step, r.all, fmt.Sprintf(format, args...))
}

// check rejects what cannot become a release, before anything is built, and reads the commit.
func (r *release) check(ctx context.Context) error {
	if !semver.MatchString(r.version) {
		return fmt.Errorf(
			"the version %q is not a semantic version such as v1.2.3 or v1.2.3-rc.1: write make release VERSION=v1.2.3",
			r.version,
		)
	}
	if strings.Contains(r.registry, "://") || strings.ContainsAny(r.registry, " @\"'\\\n") {
		return fmt.Errorf("the registry %q is not host[:port][/path]", r.registry)
	}
	r.registry = strings.TrimSuffix(r.registry, "/")
	if _, err := os.Lstat(r.out); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already: remove it, or choose another version", r.out)
	}
	commit, err := r.git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return fmt.Errorf("finding the commit: %w; a release is built from a clone", err)
	}
	r.commit = commit
	changed, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return fmt.Errorf("comparing the tree with its commit: %w", err)
	}
	if r.clean = changed == ""; !r.clean && !r.allowDirty {
		first, _, _ := strings.Cut(changed, "\n")
		return fmt.Errorf(
			"the tree differs from its commit (%s, ...): commit or stash, or set ALLOW_DIRTY=1, which the provenance will say",
			first,
		)
	}
	// A tag that is there must be this commit.
	if tagged, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "refs/tags/"+r.version+"^{commit}"); err == nil &&
		tagged != r.commit {
		return fmt.Errorf("the tag %s is commit %.12s, and this is %.12s: check the tag out", r.version, tagged, r.commit)
	}
	at := os.Getenv("SOURCE_DATE_EPOCH")
	if at == "" {
		if at, err = r.git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return fmt.Errorf("finding the time of the commit: %w", err)
		}
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || seconds < 0 {
		return fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds", at)
	}
	r.epoch = time.Unix(seconds, 0)
	r.changes, err = readChanges(r.root, r.number())
	return err
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", r.root}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// build makes the release in r.out, which appears when it is whole.
func (r *release) build(ctx context.Context) error {
	if err := r.check(ctx); err != nil {
		return err
	}
	// Engines in C come from pinned sources, not from the distribution.
	if err := os.Setenv("LIGHTERAGE_ZLIBNG", "bundled"); err != nil {
		return fmt.Errorf("setting up the build: %w", err)
	}
	r.files, r.toolchain = map[string][]byte{}, runtime.Version()
	r.all = len(r.components)*len(r.platforms) + 3
	for _, c := range r.programs {
		r.all += len(r.platformsOf(c))
	}
	work, err := os.MkdirTemp("", "lighterage-release-")
	if err != nil {
		return fmt.Errorf("making a directory for the binaries: %w", err)
	}
	defer os.RemoveAll(work)

	images, subjects, err := r.buildImages(ctx, work)
	if err != nil {
		return err
	}
	if err := r.buildPrograms(ctx, work); err != nil {
		return err
	}
	r.next("packing the chart, the definitions and the manifest of krew")
	digests := map[string]v1.Hash{}
	for name, s := range images {
		if digests[name], err = s[0].digest(); err != nil {
			return fmt.Errorf("hashing the index of %s: %w", name, err)
		}
	}
	chart, err := r.pack(digests)
	if err != nil {
		return err
	}
	digest, err := chart.digest()
	if err != nil {
		return fmt.Errorf("hashing the chart: %w", err)
	}
	subjects = append(subjects, subject(chart.repository, digest))

	r.next("signing, and writing the provenance")
	contents, err := r.sign(images, chart, subjects)
	if err != nil {
		return err
	}
	r.next("writing %s", r.out)
	return r.write(contents)
}

// buildImages returns the index of each component with what refers to its images.
func (r *release) buildImages(ctx context.Context, work string) (map[string][]stored, []resource, error) {
	images, subjects := map[string][]stored{}, []resource{}
	for _, c := range r.components {
		c.annotations = map[string]string{
			"org.opencontainers.image.revision": r.commit, "org.opencontainers.image.created": r.created(),
		}
		repository := "lighterage/" + c.name
		var built []platformImage
		var referrers []stored
		for _, p := range r.platforms {
			r.next("building %s for %s", c.name, p)
			bin, sbom, err := r.compile(ctx, work, c, p)
			if err != nil {
				return nil, nil, err
			}
			img, err := newImage(c, r.version, p, bin)
			if err != nil {
				return nil, nil, fmt.Errorf("making the image of %s for %s: %w", c.name, p, err)
			}
			i := platformImage{platform: p, image: img, sbom: sbom}
			built = append(built, i)
			referrer, err := newReferrer(i)
			if err != nil {
				return nil, nil, fmt.Errorf("making the bill of materials of %s for %s: %w", c.name, p, err)
			}
			digest, err := img.Digest()
			if err != nil {
				return nil, nil, fmt.Errorf("hashing the image of %s for %s: %w", c.name, p, err)
			}
			subjects = append(subjects, subject(repository, digest))
			of, err := referrer.Digest()
			if err != nil {
				return nil, nil, fmt.Errorf("hashing the bill of materials of %s for %s: %w", c.name, p, err)
			}
			referrers = append(referrers, stored{repository: repository, reference: "@" + of.String(), image: referrer})
		}
		index := stored{repository: repository, reference: ":" + r.version, index: newIndex(c, r.version, built)}
		digest, err := index.digest()
		if err != nil {
			return nil, nil, fmt.Errorf("hashing the index of %s: %w", c.name, err)
		}
		subjects = append(subjects, subject(repository, digest))
		images[c.name] = append([]stored{index}, referrers...)
	}
	return images, subjects, nil
}

func subject(name string, digest v1.Hash) resource {
	return resource{Name: name, Digest: map[string]string{digest.Algorithm: digest.Hex}}
}

// compile builds a program, and the bill of its materials, which becomes a file of the release.
func (r *release) compile(ctx context.Context, work string, c component, p v1.Platform) (binary, []byte, error) {
	bin, err := build(ctx, r.root, filepath.Join(work, p.OS+"-"+p.Architecture), c, r.version, p)
	if err != nil {
		return binary{}, nil, err
	}
	sbom, err := newSBOM(c, r.version, bin)
	if err != nil {
		return binary{}, nil, fmt.Errorf("listing what %s for %s is made of: %w", c.name, p, err)
	}
	r.files[fmt.Sprintf("%s_%s_%s_%s.cdx.json", c.title(), r.version, p.OS, p.Architecture)] = sbom
	for _, library := range bin.libraries {
		if !slices.Contains(r.libraries, library) {
			r.libraries = append(r.libraries, library)
		}
	}
	if bin.compiler != "" && !slices.Contains(r.compilers, bin.compiler) {
		r.compilers = append(r.compilers, bin.compiler)
	}
	return bin, sbom, nil
}

// platformsOf are those that a program is built for.
func (r *release) platformsOf(c component) []v1.Platform {
	return slices.DeleteFunc(slices.Clone(r.pluginPlatforms), func(p v1.Platform) bool {
		return c.onLinux && p.OS != "linux"
	})
}

func (r *release) buildPrograms(ctx context.Context, work string) error {
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return fmt.Errorf("reading the licence: %w", err)
	}
	for _, c := range r.programs {
		for _, p := range r.platformsOf(c) {
			r.next("building %s for %s", c.title(), p)
			bin, _, err := r.compile(ctx, work, c, p)
			if err != nil {
				return err
			}
			program, err := os.ReadFile(bin.path)
			if err != nil {
				return fmt.Errorf("reading %s: %w", c.title(), err)
			}
			packed, err := archive(r.epoch, []archived{
				{name: c.title(), content: program, program: true}, {name: "LICENSE", content: license},
			})
			if err != nil {
				return fmt.Errorf("packing %s for %s: %w", c.title(), p, err)
			}
			r.files[r.archiveOf(c.title(), p)] = packed
		}
	}
	return nil
}

// pack makes what is not compiled.
func (r *release) pack(digests map[string]v1.Hash) (stored, error) {
	key, fingerprint, err := r.signer.verifier().pem()
	if err != nil {
		return stored{}, err
	}
	r.files[publicKeyFile] = key
	chart, err := newChart(r, digests, fingerprint)
	if err != nil {
		return stored{}, err
	}
	r.files["lighterage-"+r.number()+".tgz"] = chart.archive
	if r.files[crdsFile], _, err = readCRDs(r.root); err != nil {
		return stored{}, err
	}
	sums := map[string]string{}
	for name, content := range r.files {
		sums[name] = sum(content)
	}
	if r.files[krewManifestFile], err = krewManifest(r, sums); err != nil {
		return stored{}, err
	}
	return stored{repository: chartRepository, reference: ":" + r.number(), image: chart.image}, nil
}

// sign attests everything that there is by now and returns what the registry gets.
func (r *release) sign(images map[string][]stored, chart stored, subjects []resource) ([]stored, error) {
	for name, content := range r.files {
		subjects = append(subjects, resource{Name: name, Digest: map[string]string{"sha256": sum(content)}})
	}
	slices.Sort(r.libraries)
	slices.Sort(r.compilers)
	provenance, err := r.signer.seal(newProvenance(r, subjects))
	if err != nil {
		return nil, err
	}
	r.files[provenanceFile] = provenance
	var contents []stored
	for _, name := range slices.Sorted(maps.Keys(images)) {
		signed, err := r.signer.signed(r.registry, images[name][0], provenance, images[name][1:]...)
		if err != nil {
			return nil, err
		}
		contents = append(contents, signed...)
	}
	signed, err := r.signer.signed(r.registry, chart, provenance)
	if err != nil {
		return nil, err
	}
	contents = append(contents, signed...)

	hub, err := os.ReadFile(filepath.Join(r.root, "charts", "artifacthub-repo.yml"))
	if err != nil {
		return nil, fmt.Errorf("reading what Artifact Hub is told of the repository: %w", err)
	}
	img, err := newArtifact([]byte("{}"), hubConfig, static.NewLayer(hub, hubLayer), nil)
	if err != nil {
		return nil, fmt.Errorf("making the artifact for Artifact Hub: %w", err)
	}
	return append(contents, stored{repository: chartRepository, reference: ":artifacthub.io", image: img}), nil
}

// write writes files, layout and checksums, and then gives the directory its name.
func (r *release) write(contents []stored) error {
	part := r.out + ".part"
	if err := os.RemoveAll(part); err != nil {
		return fmt.Errorf("removing what an earlier release left: %w", err)
	}
	if err := os.MkdirAll(part, 0o755); err != nil {
		return fmt.Errorf("making the directory of the release: %w", err)
	}
	for name, content := range r.files {
		if err := writeFile(filepath.Join(part, name), content); err != nil {
			return err
		}
	}
	if err := writeLayout(filepath.Join(part, layoutDir), contents); err != nil {
		return err
	}
	sums, err := sumTree(part)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&text, "%s  %s\n", sums[name], name)
	}
	signature, err := r.signer.sign([]byte(text.String()))
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(part, sumsFile), []byte(text.String())); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(part, sumsSignature), signature); err != nil {
		return err
	}
	if err := os.Rename(part, r.out); err != nil {
		return fmt.Errorf("naming the release: %w", err)
	}
	return nil
}

func writeFile(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // it is to be published
		return fmt.Errorf("writing a file of the release: %w", err)
	}
	return nil
}

func sum(content []byte) string {
	h := sha256.Sum256(content)
	return hex.EncodeToString(h[:])
}

// sumTree hashes the files below dir but the checksums and their signature. What is neither file nor directory is an
// error.
func sumTree(dir string) (map[string]string, error) {
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == sumsFile || name == sumsSignature {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a file", name)
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		sums[filepath.ToSlash(name)] = hex.EncodeToString(h.Sum(nil))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("hashing the files of %s: %w", dir, err)
	}
	return sums, nil
}

func platformNames(platforms []v1.Platform) []string {
	var names []string
	for _, p := range platforms {
		names = append(names, p.OS+"/"+p.Architecture)
	}
	return names
}
