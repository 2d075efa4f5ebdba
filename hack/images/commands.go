// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// commands are those that begin with a word; without one, images are built and pushed.
var commands = map[string]func(context.Context, []string) error{
	"release": releaseCommand, "verify": verifyCommand, "push": pushCommand,
}

// releaseCommand builds a release from the tree.
func releaseCommand(ctx context.Context, args []string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	r := &release{root: root, components: components, programs: programs, pluginPlatforms: pluginPlatforms}
	flags := flag.NewFlagSet("images release", flag.ExitOnError)
	flags.StringVar(&r.version, "version", "", "version, such as v1.2.3")
	flags.StringVar(
		&r.registry, "registry", "", "where users will pull from, host[:port][/path]: it becomes a value of the chart",
	)
	flags.StringVar(&r.downloads, "downloads", "", "URL below which the files will be (default: the project's releases)")
	flags.StringVar(&r.out, "out", "", "directory to make (default: dist/VERSION)")
	flags.BoolVar(&r.allowDirty, "allow-dirty", false, "build a tree that differs from its commit; the provenance says so")
	platforms := flags.String("platforms", releasePlatforms, "comma-separated platforms of the images")
	key := flags.String("key", "", "file with the private key to sign with")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.version == "" {
		return errors.New("no version given: write make release VERSION=v1.2.3 KEY=release.key")
	}
	r.downloads = cmp.Or(r.downloads, "https://"+modulePath+"/releases/download/"+r.version)
	r.out = cmp.Or(r.out, filepath.Join(root, "dist", r.version))
	if r.platforms, err = parsePlatforms(*platforms); err != nil {
		return err
	}
	if r.signer, err = readSigner(*key); err != nil {
		return err
	}
	if err := r.build(ctx); err != nil {
		return fmt.Errorf("making the release %s: %w", r.version, err)
	}
	say("wrote %s; verify it with: make release-verify DIR=%s KEY=%s", r.out, r.out, filepath.Join(r.out, publicKeyFile))
	return nil
}

// target is a registry as flags give it.
type target struct {
	registry  string
	plainHTTP bool
}

func (t *target) flags(flags *flag.FlagSet) {
	flags.StringVar(&t.registry, "registry", "", "registry, host[:port][/path]")
	flags.BoolVar(
		&t.plainHTTP, "plain-http", false, "it speaks http; understood by itself for loopback and private addresses",
	)
}

func (t *target) source(ctx context.Context) *registrySource {
	s := &registrySource{registry: t.registry, options: []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithJobs(2),
	}}
	if t.plainHTTP {
		s.names = append(s.names, name.Insecure)
	}
	return s
}

// verifyCommand verifies a release, in a directory or in a registry.
func verifyCommand(ctx context.Context, args []string) error {
	var t target
	flags := flag.NewFlagSet("images verify", flag.ExitOnError)
	t.flags(flags)
	dir := flags.String("dir", "", "directory with a release")
	version := flags.String("version", "", "version in the registry, such as v1.2.3")
	key := flags.String("key", "", "file with the public key")
	if err := flags.Parse(args); err != nil {
		return err
	}
	v, err := readVerifier(*key)
	if err != nil {
		return err
	}
	var found verified
	switch {
	case (*dir == "") == (t.registry == ""):
		return errors.New(
			"say what to verify: make release-verify DIR=dist/v1.2.3 KEY=lighterage.pub, or REGISTRY=registry.example " +
				"VERSION=v1.2.3 KEY=lighterage.pub",
		)
	case *dir != "":
		say("verifying %s", *dir)
		found, err = verifyDirectory(*dir, v)
	default:
		say("verifying %s in %s", *version, t.registry)
		found, err = verifySource(t.source(ctx), *version, v)
	}
	if err != nil {
		return err
	}
	report(found)
	return nil
}

// report prints what was verified, a line for each image and the chart.
func report(found verified) {
	tree := "as committed"
	if !found.clean {
		tree = "with changes that were not committed"
	}
	fmt.Printf("version %s of commit %s, %s\n", found.version, found.commit, tree)
	for _, repository := range slices.Sorted(maps.Keys(found.digests)) {
		fmt.Printf("%s@%s\n", repository, found.digests[repository])
	}
}

// pushCommand verifies a release and pushes its images and chart.
func pushCommand(ctx context.Context, args []string) error {
	var t target
	flags := flag.NewFlagSet("images push", flag.ExitOnError)
	t.flags(flags)
	dir := flags.String("dir", "", "directory with a release")
	key := flags.String("key", "", "file with the public key")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || t.registry == "" {
		return errors.New(
			"say what to push where: make release-push DIR=dist/v1.2.3 REGISTRY=registry.example KEY=lighterage.pub",
		)
	}
	v, err := readVerifier(*key)
	if err != nil {
		return err
	}
	say("verifying %s", *dir)
	if _, err := verifyDirectory(*dir, v); err != nil {
		return err
	}
	contents, err := openLayout(filepath.Join(*dir, layoutDir))
	if err != nil {
		return err
	}
	return pushLayout(contents, t.source(ctx))
}
