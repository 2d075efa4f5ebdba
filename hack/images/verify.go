// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// maxDocument bounds what is read of a document of a release before it is verified, in bytes.
const maxDocument = 16 << 20

// source is where images of a release are: a registry or a layout. Names have no registry.
type source interface {
	// resolve returns the digest that a tag stands for.
	resolve(repository, tag string) (v1.Hash, error)
	image(repository, tag string) (v1.Image, error)
}

// verified is what a release was found to consist of.
type verified struct {
	version, commit string
	clean           bool
	// digests by repository.
	digests map[string]v1.Hash
}

// repositories of a release, and the tag of each.
func repositories(version string) map[string]string {
	all := map[string]string{chartRepository: strings.TrimPrefix(version, "v")}
	for _, c := range components {
		all["lighterage/"+c.name] = version
	}
	return all
}

// verifyDirectory verifies what make release wrote: the signature of the checksums, every file, the provenance, and
// every image and chart of the layout. The first thing that is wrong is the error.
func verifyDirectory(dir string, v verifier) (verified, error) {
	listed, err := verifySums(dir, v)
	if err != nil {
		return verified{}, err
	}
	envelope, err := readBounded(filepath.Join(dir, provenanceFile))
	if err != nil {
		return verified{}, fmt.Errorf("reading the provenance: %w", err)
	}
	s, err := openProvenance(envelope, v)
	if err != nil {
		return verified{}, fmt.Errorf("verifying %s: %w", provenanceFile, err)
	}
	for file, sum := range listed {
		switch {
		case strings.HasPrefix(file, layoutDir+"/blobs/sha256/"):
			if path.Base(file) != sum {
				return verified{}, fmt.Errorf("verifying %s: its content has the digest %s", file, sum)
			}
		case file != provenanceFile && !strings.HasPrefix(file, layoutDir+"/") && !s.covers(file, "sha256", sum):
			return verified{}, fmt.Errorf("verifying %s: the provenance does not cover it", file)
		}
	}
	contents, err := openLayout(filepath.Join(dir, layoutDir))
	if err != nil {
		return verified{}, err
	}
	return verifySource(contents, s.version(), v)
}

// verifySums returns what the checksums list, after they were verified and all files compared.
func verifySums(dir string, v verifier) (map[string]string, error) {
	text, err := readBounded(filepath.Join(dir, sumsFile))
	if err != nil {
		return nil, fmt.Errorf("reading the checksums: %w", err)
	}
	signature, err := readBounded(filepath.Join(dir, sumsSignature))
	if err != nil {
		return nil, fmt.Errorf("reading the signature of the checksums: %w", err)
	}
	if err := v.verify(text, signature); err != nil {
		return nil, fmt.Errorf("verifying %s: %w", sumsFile, err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, file, ok := strings.Cut(strings.TrimRight(line, "\n"), "  ")
		if !ok {
			return nil, fmt.Errorf("parsing %s: the line %q is not a checksum and a name", sumsFile, line)
		}
		listed[file] = sum
	}
	found, err := sumTree(dir)
	if err != nil {
		return nil, err
	}
	for file, sum := range listed {
		if found[file] == "" {
			return nil, fmt.Errorf("verifying %s: %s is missing", dir, file)
		}
		if found[file] != sum {
			return nil, fmt.Errorf("verifying %s: %s was changed", dir, file)
		}
		delete(found, file)
	}
	for _, file := range slices.Sorted(maps.Keys(found)) {
		return nil, fmt.Errorf("verifying %s: %s is not part of the release", dir, file)
	}
	return listed, nil
}

// openProvenance verifies the envelope of a provenance.
func openProvenance(text []byte, v verifier) (statement, error) {
	payload, err := v.open(text)
	if err != nil {
		return statement{}, err
	}
	var s statement
	if err := json.Unmarshal(payload, &s); err != nil {
		return statement{}, fmt.Errorf("decoding the statement: %w", err)
	}
	if s.Type != statementType || s.PredicateType != predicateType ||
		s.Predicate.BuildDefinition.BuildType != provenanceType {
		return statement{}, fmt.Errorf(
			"the statement is not a provenance of Lighterage, but %q of %q", s.PredicateType, s.Type,
		)
	}
	return s, nil
}

func (s statement) covers(subject, algorithm, digest string) bool {
	return slices.ContainsFunc(s.Subject, func(r resource) bool {
		return r.Name == subject && r.Digest[algorithm] == digest
	})
}

func (s statement) version() string {
	version, _ := s.Predicate.BuildDefinition.ExternalParameters["version"].(string)
	return version
}

// commit returns the commit and whether the tree was as it is there.
func (s statement) commit() (id string, clean bool) {
	for _, r := range s.Predicate.BuildDefinition.ResolvedDependencies {
		if c := r.Digest["gitCommit"]; c != "" {
			return c, r.Annotations["dirty"] == ""
		}
	}
	return "", false
}

// verifySource verifies the images and the chart of a version.
func verifySource(from source, version string, v verifier) (verified, error) {
	found := verified{version: version, digests: map[string]v1.Hash{}}
	if !semver.MatchString(version) {
		return verified{}, fmt.Errorf("the version %q is not one such as v1.2.3", version)
	}
	tags := repositories(version)
	for _, repository := range slices.Sorted(maps.Keys(tags)) {
		digest, err := from.resolve(repository, tags[repository])
		if err != nil {
			return verified{}, fmt.Errorf("finding %s:%s: %w", repository, tags[repository], err)
		}
		if err := verifySignature(from, repository, digest, v); err != nil {
			return verified{}, fmt.Errorf("verifying the signature of %s:%s: %w", repository, tags[repository], err)
		}
		s, err := verifyAttestation(from, repository, digest, v)
		if err != nil {
			return verified{}, fmt.Errorf("verifying the provenance of %s:%s: %w", repository, tags[repository], err)
		}
		if s.version() != version {
			return verified{}, fmt.Errorf(
				"verifying the provenance of %s:%s: it is of version %q", repository, tags[repository], s.version(),
			)
		}
		found.digests[repository] = digest
		found.commit, found.clean = s.commit()
	}
	return found, nil
}

// verifySignature looks for a signature that the key made of this digest for this repository.
func verifySignature(from source, repository string, digest v1.Hash, v verifier) error {
	img, err := from.image(repository, cosignTag(digest, "sig"))
	if err != nil {
		return fmt.Errorf("finding it: %w", err)
	}
	return eachLayer(img, func(d v1.Descriptor, payload []byte) error {
		signature, err := base64.StdEncoding.DecodeString(d.Annotations[signatureAnnotation])
		if err != nil {
			return errSignature
		}
		if err := v.verify(payload, signature); err != nil {
			return err
		}
		var c claim
		if err := json.Unmarshal(payload, &c); err != nil {
			return fmt.Errorf("decoding the payload: %w", err)
		}
		of := c.Critical.Identity.Reference
		if c.Critical.Type != claimType || c.Critical.Image.Digest != digest.String() ||
			of != repository && !strings.HasSuffix(of, "/"+repository) {
			return fmt.Errorf("it signs %s of %s", c.Critical.Image.Digest, of)
		}
		return nil
	})
}

// verifyAttestation looks for a provenance with this digest.
func verifyAttestation(from source, repository string, digest v1.Hash, v verifier) (statement, error) {
	img, err := from.image(repository, cosignTag(digest, "att"))
	if err != nil {
		return statement{}, fmt.Errorf("finding it: %w", err)
	}
	var s statement
	err = eachLayer(img, func(_ v1.Descriptor, envelope []byte) error {
		var err error
		if s, err = openProvenance(envelope, v); err != nil {
			return err
		}
		if !s.covers(repository, digest.Algorithm, digest.Hex) {
			return fmt.Errorf("it does not cover %s", digest)
		}
		return nil
	})
	return s, err
}

// maxSignatures bounds how many layers of one artifact are looked at: others may add signatures.
const maxSignatures = 16

// eachLayer calls what accepts a layer until one is accepted; it returns why none was.
func eachLayer(img v1.Image, accept func(v1.Descriptor, []byte) error) error {
	manifest, err := img.Manifest()
	if err != nil {
		return fmt.Errorf("reading its manifest: %w", err)
	}
	why := errors.New("it is empty")
	for _, d := range manifest.Layers[:min(len(manifest.Layers), maxSignatures)] {
		layer, err := img.LayerByDigest(d.Digest)
		if err != nil {
			return fmt.Errorf("finding a layer: %w", err)
		}
		content, err := readLayer(layer)
		if err != nil {
			return err
		}
		if why = accept(d, content); why == nil {
			return nil
		}
	}
	return why
}

func readLayer(layer v1.Layer) ([]byte, error) {
	r, err := layer.Compressed()
	if err != nil {
		return nil, fmt.Errorf("opening a layer: %w", err)
	}
	defer r.Close()
	return bounded(r)
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded(f)
}

func bounded(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("reading: %w", err)
	}
	if len(content) > maxDocument {
		return nil, fmt.Errorf("it has more than %d bytes", maxDocument)
	}
	return content, nil
}

// layoutSource is an OCI layout.
type layoutSource struct {
	index       v1.ImageIndex
	descriptors []v1.Descriptor
}

func openLayout(dir string) (*layoutSource, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the OCI layout: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading the index of the OCI layout: %w", err)
	}
	return &layoutSource{index, manifest.Manifests}, nil
}

func (l *layoutSource) resolve(repository, tag string) (v1.Hash, error) {
	for _, d := range l.descriptors {
		if d.Annotations[refName] == repository+":"+tag {
			return d.Digest, nil
		}
	}
	return v1.Hash{}, errors.New("it is not in the OCI layout")
}

func (l *layoutSource) image(repository, tag string) (v1.Image, error) {
	digest, err := l.resolve(repository, tag)
	if err != nil {
		return nil, err
	}
	return l.index.Image(digest)
}

// registrySource is a registry with a path.
type registrySource struct {
	registry string
	names    []name.Option
	options  []remote.Option
}

func (r *registrySource) reference(repository, tag string) (name.Reference, error) {
	separator := ":"
	if strings.Contains(tag, ":") {
		separator = "@"
	}
	ref, err := name.ParseReference(r.registry+"/"+repository+separator+tag, append(r.names, name.StrictValidation)...)
	if err != nil {
		return nil, fmt.Errorf("naming it: %w", err)
	}
	return ref, nil
}

func (r *registrySource) resolve(repository, tag string) (v1.Hash, error) {
	ref, err := r.reference(repository, tag)
	if err != nil {
		return v1.Hash{}, err
	}
	d, err := remote.Get(ref, r.options...)
	if err != nil {
		return v1.Hash{}, err
	}
	return d.Digest, nil
}

func (r *registrySource) image(repository, tag string) (v1.Image, error) {
	ref, err := r.reference(repository, tag)
	if err != nil {
		return nil, err
	}
	return remote.Image(ref, r.options...)
}
