// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// pushLayout pushes all of a layout to a registry, in its order. A tag of a version that stands for something else is
// left, and an error.
func pushLayout(contents *layoutSource, to *registrySource) error {
	for i, d := range contents.descriptors {
		full := d.Annotations[refName]
		repository, tag, tagged := strings.Cut(full, ":")
		if before, digest, ok := strings.Cut(full, "@"); ok {
			repository, tag, tagged = before, digest, false
		}
		ref, err := to.reference(repository, tag)
		if err != nil {
			return err
		}
		if tagged && semver.MatchString("v"+strings.TrimPrefix(tag, "v")) {
			if err := free(to, repository, tag, d.Digest); err != nil {
				return err
			}
		}
		say("[%d/%d] pushing %s", i+1, len(contents.descriptors), ref.Name())
		if d.MediaType.IsIndex() {
			var index v1.ImageIndex
			if index, err = contents.index.ImageIndex(d.Digest); err == nil {
				err = remote.WriteIndex(ref, index, to.options...)
			}
		} else {
			var img v1.Image
			if img, err = contents.index.Image(d.Digest); err == nil {
				err = remote.Write(ref, img, to.options...)
			}
		}
		if err != nil {
			return fmt.Errorf("pushing %s: %w", ref.Name(), err)
		}
	}
	return nil
}

// free tells whether a tag may become digest: it is not there, or is that already.
func free(to *registrySource, repository, tag string, digest v1.Hash) error {
	was, err := to.resolve(repository, tag)
	var refused *transport.Error
	switch {
	case errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound:
		return nil
	case err != nil:
		return fmt.Errorf("looking for %s:%s: %w", repository, tag, err)
	case was != digest:
		return fmt.Errorf(
			"the registry has %s:%s as %s, and this release is %s: a version is published once; choose another", repository, tag,
			was, digest,
		)
	}
	return nil
}
