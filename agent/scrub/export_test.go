// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package scrub

import (
	"context"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/tree"
)

// PassOf is what Tree has Run do, with before called in front of each pass.
func PassOf(
	source *tree.Source, form cargo.Form, o *Options, before func(),
) func(context.Context, *Findings, bool) error {
	t := &resting{source: source, form: form, options: o}
	return func(ctx context.Context, f *Findings, first bool) error {
		before()
		return t.pass(ctx, f, first)
	}
}
