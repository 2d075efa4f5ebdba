// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Media types and annotations of Helm, Artifact Hub and cosign.
const (
	helmConfig types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	helmChart  types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	hubConfig  types.MediaType = "application/vnd.cncf.artifacthub.config.v1+yaml"
	hubLayer   types.MediaType = "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml"
	simpleSign types.MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	dsse       types.MediaType = "application/vnd.dsse.envelope.v1+json"

	signatureAnnotation = "dev.cosignproject.cosign/signature"
	predicateAnnotation = "predicateType"
	refName             = "org.opencontainers.image.ref.name"
)

// artifact is an image whose configuration is any document.
type artifact struct {
	config, manifest []byte
	layers           []v1.Layer
}

// newArtifact makes an artifact of one layer.
func newArtifact(
	config []byte, configType types.MediaType, layer v1.Layer, annotations map[string]string,
) (v1.Image, error) {
	digest, size, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, fmt.Errorf("hashing the configuration: %w", err)
	}
	descriptor, err := partial.Descriptor(layer)
	if err != nil {
		return nil, fmt.Errorf("describing the layer: %w", err)
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: configType, Digest: digest, Size: size},
		Layers: []v1.Descriptor{*descriptor}, Annotations: annotations,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	return partial.CompressedToImage(&artifact{config: config, manifest: manifest, layers: []v1.Layer{layer}})
}

func (a *artifact) RawConfigFile() ([]byte, error)      { return a.config, nil }
func (a *artifact) RawManifest() ([]byte, error)        { return a.manifest, nil }
func (a *artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (a *artifact) LayerByDigest(want v1.Hash) (partial.CompressedLayer, error) {
	for _, l := range a.layers {
		if got, err := l.Digest(); err == nil && got == want {
			return l, nil
		}
	}
	return nil, fmt.Errorf("the artifact has no layer %s", want)
}

// claim is the payload of a signature in cosign's format.
type claim struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]string `json:"optional"`
}

const claimType = "cosign container image signature"

// signature is the artifact with the signature of what has a digest in a repository. cosign finds it by its tag.
func (s signer) signature(repository string, digest v1.Hash) (v1.Image, error) {
	var c claim
	c.Critical.Identity.Reference, c.Critical.Image.Digest, c.Critical.Type = repository, digest.String(), claimType
	payload, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding the payload: %w", err)
	}
	signature, err := s.sign(payload)
	if err != nil {
		return nil, err
	}
	return cosignArtifact(payload, simpleSign, map[string]string{
		signatureAnnotation: base64.StdEncoding.EncodeToString(signature),
	})
}

// attestation is the artifact with an envelope, as cosign stores it.
func attestation(envelope []byte) (v1.Image, error) {
	return cosignArtifact(envelope, dsse, map[string]string{signatureAnnotation: "", predicateAnnotation: predicateType})
}

func cosignArtifact(payload []byte, mediaType types.MediaType, annotations map[string]string) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{
		Layer: static.NewLayer(payload, mediaType), MediaType: mediaType, Annotations: annotations,
	})
	if err != nil {
		return nil, fmt.Errorf("adding the payload: %w", err)
	}
	return img, nil
}

// cosignTag is the tag under which cosign looks for what belongs to a digest; kind is sig or att.
func cosignTag(digest v1.Hash, kind string) string {
	return digest.Algorithm + "-" + digest.Hex + "." + kind
}

// stored is something of an OCI layout: an index or else an image.
type stored struct {
	// repository is below the registry; reference is :TAG or @DIGEST.
	repository, reference string
	index                 v1.ImageIndex
	image                 v1.Image
}

func (s stored) digest() (v1.Hash, error) {
	if s.index != nil {
		return s.index.Digest()
	}
	return s.image.Digest()
}

// writeLayout writes an OCI layout in the order in which a registry should get it.
func writeLayout(dir string, contents []stored) error {
	path, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return fmt.Errorf("making the OCI layout: %w", err)
	}
	for _, c := range contents {
		option := layout.WithAnnotations(map[string]string{refName: c.repository + c.reference})
		if c.index != nil {
			err = path.AppendIndex(c.index, option)
		} else {
			err = path.AppendImage(c.image, option)
		}
		if err != nil {
			return fmt.Errorf("writing %s%s: %w", c.repository, c.reference, err)
		}
	}
	return nil
}

// signed is what a registry gets of one image or chart: signature and attestation first, so that whoever finds the tag
// finds them, and what refers to it last.
func (s signer) signed(registry string, c stored, envelope []byte, referrers ...stored) ([]stored, error) {
	digest, err := c.digest()
	if err != nil {
		return nil, fmt.Errorf("hashing %s: %w", c.repository, err)
	}
	name := c.repository
	if registry != "" {
		name = registry + "/" + c.repository
	}
	sig, err := s.signature(name, digest)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", c.repository, err)
	}
	att, err := attestation(envelope)
	if err != nil {
		return nil, fmt.Errorf("attesting %s: %w", c.repository, err)
	}
	return slices.Concat([]stored{
		{repository: c.repository, reference: ":" + cosignTag(digest, "sig"), image: sig},
		{repository: c.repository, reference: ":" + cosignTag(digest, "att"), image: att},
		c,
	}, referrers), nil
}
