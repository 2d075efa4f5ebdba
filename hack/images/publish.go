// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const sbomMediaType types.MediaType = "application/vnd.cyclonedx+json"

// publisher pushes to a registry. Layers that are there already are not sent again.
type publisher struct {
	plainHTTP bool
	options   []remote.Option
	// step of steps is what is done now.
	step, steps int
}

// next says what is done, and how far all of it is.
func (p *publisher) next(format string, args ...any) {
	p.step++
	say("[%d/%d] %s", p.step, max(p.step, p.steps), fmt.Sprintf(format, args...))
}

func (p *publisher) reference(registry, component, version string) (name.Tag, error) {
	opts := []name.Option{name.StrictValidation}
	if p.plainHTTP {
		opts = append(opts, name.Insecure)
	}
	s := fmt.Sprintf("%s/lighterage/%s:%s", strings.TrimSuffix(registry, "/"), component, version)
	tag, err := name.NewTag(s, opts...)
	if err == nil && strings.Contains(registry, "://") {
		err = fmt.Errorf("the registry %q has a scheme", registry)
	}
	if err != nil {
		return name.Tag{}, fmt.Errorf(
			"naming the image: %w; give a registry as host[:port][/path] and a version that can be a tag", err,
		)
	}
	return tag, nil
}

// present tells whether the registry holds ref for all of platforms. A registry that cannot say is one that holds
// nothing: the push that follows reports what is wrong with it.
func (p *publisher) present(ref name.Tag, platforms []v1.Platform) (v1.Hash, bool) {
	index, err := remote.Index(ref, p.options...)
	if err != nil {
		return v1.Hash{}, false
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return v1.Hash{}, false
	}
	for _, want := range platforms {
		if !slices.ContainsFunc(manifest.Manifests, func(d v1.Descriptor) bool {
			return d.Platform != nil && d.Platform.Equals(want)
		}) {
			return v1.Hash{}, false
		}
	}
	digest, err := index.Digest()
	return digest, err == nil
}

// push writes the images, then the index under its tag, then the bills of materials that refer to the images.
func (p *publisher) push(ref name.Tag, c component, version string, images []platformImage) (v1.Hash, error) {
	index := newIndex(c, version, images)
	if err := remote.WriteIndex(ref, index, p.options...); err != nil {
		return v1.Hash{}, fmt.Errorf("pushing %s: %w", ref.Name(), err)
	}
	for _, i := range images {
		referrer, err := newReferrer(i)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("making the bill of materials of %s for %s: %w", c.name, i.platform, err)
		}
		digest, err := referrer.Digest()
		if err != nil {
			return v1.Hash{}, fmt.Errorf("hashing the bill of materials of %s for %s: %w", c.name, i.platform, err)
		}
		if err := remote.Write(ref.Context().Digest(digest.String()), referrer, p.options...); err != nil {
			return v1.Hash{}, fmt.Errorf("pushing the bill of materials of %s for %s: %w", c.name, i.platform, err)
		}
	}
	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, fmt.Errorf("hashing the index of %s: %w", c.name, err)
	}
	return digest, nil
}

// newReferrer is the artifact that holds the bill of materials and whose subject is the image.
func newReferrer(i platformImage) (v1.Image, error) {
	subject, err := partial.Descriptor(i.image)
	if err != nil {
		return nil, fmt.Errorf("describing the image: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), sbomMediaType)
	artifact, err := mutate.AppendLayers(base, static.NewLayer(i.sbom, sbomMediaType))
	if err != nil {
		return nil, fmt.Errorf("adding the document: %w", err)
	}
	return mutate.Subject(artifact, *subject).(v1.Image), nil
}
