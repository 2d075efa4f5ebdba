// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command images builds the container images of manager, gateway and agent and pushes them to a registry, without a
// container engine. Each image is an OCI index with one image a platform; each platform's image is one layer over
// nothing: a static binary and a passwd file. An SBOM in CycloneDX is attached to each as a referrer. The same source
// gives the same digests.
//
// With the word release it builds all of a release: images, chart, definitions, plugin, SBOMs, provenance, signatures.
// With verify it verifies one, with push it pushes one.
//
// On standard output it prints one line an image: component, reference by tag, digest. What it is doing goes to
// standard error.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

type options struct {
	registry     string
	version      string
	platforms    string
	plainHTTP    bool
	printVersion bool
	model        bool
	clockOffset  time.Duration
}

func main() {
	if len(os.Args) > 1 {
		if command := commands[os.Args[1]]; command != nil {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			err := command(ctx, os.Args[2:])
			stop()
			exit(err)
			return
		}
	}
	var o options
	flag.StringVar(
		&o.registry, "registry", "", "where to push: host[:port][/path]; images are named REGISTRY/lighterage/COMPONENT",
	)
	flag.StringVar(
		&o.version, "version", "",
		"tag of the images and version of the binaries (default: the Git tag of a clean tree, or dev-HASH of the source)",
	)
	flag.StringVar(
		&o.platforms, "platforms", "linux/amd64,linux/s390x",
		"comma-separated platforms: linux/amd64, linux/arm64, linux/s390x",
	)
	flag.BoolVar(
		&o.plainHTTP, "plain-http", false,
		"the registry speaks http; understood by itself for loopback and private addresses",
	)
	flag.BoolVar(&o.printVersion, "print-version", false, "print the version that would be built, and nothing else")
	flag.BoolVar(
		&o.model, "dfltcc-model", false,
		"build, in place of the three, the agent for s390x with the software model of the accelerator, for tests: "+
			modelRepository,
	)
	flag.DurationVar(
		&o.clockOffset, "clock-offset", 0,
		"build programs whose clock is off by this, for tests; the tag ends with it, such as -clock24h0m0s or "+
			"-clockminus24h0m0s",
	)
	flag.Parse()

	exit(run(o))
}

// exit ends the program if there is an error.
func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	version, contentAddressed, err := sourceVersion(ctx, root)
	if err != nil {
		return fmt.Errorf("naming the version: %w", err)
	}
	if o.version == "" {
		o.version = version
	}
	contentAddressed = contentAddressed && o.version == version
	if o.printVersion {
		fmt.Println(o.version)
		return nil
	}
	if o.clockOffset != 0 {
		o.version += "-clock" + strings.Replace(o.clockOffset.String(), "-", "minus", 1)
	}
	platforms, err := parsePlatforms(o.platforms)
	if err != nil {
		return err
	}
	if o.registry == "" {
		return fmt.Errorf("no registry given; write for example make images REGISTRY=registry.example/team")
	}

	p := &publisher{plainHTTP: o.plainHTTP, options: []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithJobs(2),
	}}
	work, err := os.MkdirTemp("", "lighterage-images-")
	if err != nil {
		return fmt.Errorf("making a directory for the binaries: %w", err)
	}
	defer os.RemoveAll(work)

	if o.model {
		return publishModel(ctx, p, o.registry, root, work, o.version)
	}
	toolexec := ""
	if o.clockOffset != 0 {
		if toolexec, err = setClock(ctx, work, o.clockOffset); err != nil {
			return err
		}
	}
	// Each component is built for every platform, and pushed.
	each := len(platforms) + 1
	p.steps = len(components) * each
	for _, c := range components {
		c.toolexec = toolexec
		ref, err := p.reference(o.registry, c.name, o.version)
		if err != nil {
			return err
		}
		if contentAddressed {
			// The tag names the source that it was built from, so what is there is what would be built.
			if digest, ok := p.present(ref, platforms); ok {
				p.step += each - 1
				p.next("%s is at the registry already", ref.Name())
				fmt.Printf("%s %s %s\n", c.name, ref.Name(), digest)
				continue
			}
		}
		digest, err := publish(ctx, p, ref, root, work, c, o.version, platforms)
		if err != nil {
			return err
		}
		fmt.Printf("%s %s %s\n", c.name, ref.Name(), digest)
	}
	return nil
}

// publishModel builds and pushes one image, not an index: a container runtime of another architecture would find
// nothing for itself in it.
func publishModel(ctx context.Context, p *publisher, registry, root, work, version string) error {
	ref, err := p.reference(registry, modelRepository, version)
	if err != nil {
		return err
	}
	say("building %s %s for %s", modelRepository, version, modelPlatform)
	bin, err := build(ctx, root, work, model, version, modelPlatform)
	if err != nil {
		return err
	}
	img, err := newImage(model, version, modelPlatform, bin)
	if err != nil {
		return fmt.Errorf("making the image %s: %w", modelRepository, err)
	}
	say("pushing %s", ref.Name())
	if err := remote.Write(ref, img, p.options...); err != nil {
		return fmt.Errorf("pushing %s: %w", ref.Name(), err)
	}
	digest, err := img.Digest()
	if err != nil {
		return fmt.Errorf("hashing the image %s: %w", modelRepository, err)
	}
	fmt.Printf("%s %s %s\n", modelRepository, ref.Name(), digest)
	return nil
}

// publish builds component c for every platform and pushes its index and SBOMs.
func publish(
	ctx context.Context, p *publisher, ref name.Tag, root, work string, c component, version string,
	platforms []v1.Platform,
) (v1.Hash, error) {
	images := make([]platformImage, 0, len(platforms))
	for _, platform := range platforms {
		p.next("building %s %s for %s", c.name, version, platform)
		bin, err := build(
			ctx, root, filepath.Join(work, strings.ReplaceAll(platform.String(), "/", "-")), c, version, platform,
		)
		if err != nil {
			return v1.Hash{}, err
		}
		img, err := newImage(c, version, platform, bin)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("making the image of %s for %s: %w", c.name, platform, err)
		}
		sbom, err := newSBOM(c, version, bin)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("listing what %s for %s is made of: %w", c.name, platform, err)
		}
		images = append(images, platformImage{platform: platform, image: img, sbom: sbom})
	}
	p.next("pushing %s", ref.Name())
	return p.push(ref, c, version, images)
}

// moduleRoot is the nearest directory, from the working directory upwards, that holds the project's go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module "+modulePath+"\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod of %s here or above; run it from the project's tree", modulePath)
		}
		dir = parent
	}
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "images: "+format+"\n", args...)
}
