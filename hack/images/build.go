// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const modulePath = "github.com/lighterage/lighterage"

// component is one binary and the image that carries it.
type component struct {
	name        string
	pkg         string
	description string
	// engines links the compression engines that are written in C.
	engines bool
	// onLinux says that it is built for no other system.
	onLinux bool
	// script prints the environment of the engines; that of hack/engines unless something else is set.
	script string
	// toolexec runs the programs of the toolchain, as go build -toolexec; empty: they run as they are.
	toolexec string
	// annotations of the image, beside those that every image has.
	annotations map[string]string
}

// title is what c is called where it has no registry before it.
func (c component) title() string {
	if c.name == pluginName {
		return c.name
	}
	return "lighterage-" + c.name
}

// modelRepository holds the agent with the software model of the accelerator.
const modelRepository = "agent-dfltcc-model"

// model is the agent for s390x with a software model of the accelerator: for tests, never to be released.
var model = component{
	name: "agent", pkg: "./agent/cmd/agent",
	description: "The data plane of Lighterage with a software model of DFLTCC, for tests", engines: true,
	script: "test/dfltcc/env.sh",
}

var modelPlatform = v1.Platform{OS: "linux", Architecture: "s390x"}

var components = []component{
	{name: "manager", pkg: "./controllers/cmd/manager", description: "The controllers of Lighterage"},
	{
		name: "gateway", pkg: "./controllers/cmd/gateway",
		description: "The port through which other clusters reach this one",
	},
	{name: "agent", pkg: "./agent/cmd/agent", description: "The data plane of Lighterage", engines: true},
}

// binary is what build made.
type binary struct {
	path string
	// libraries are those written in C that are linked in, each NAME@VERSION.
	libraries []string
	// compiler is the first line of what the C compiler says of itself; empty without C.
	compiler string
}

var architectures = []string{"amd64", "arm64", "s390x"}

// parsePlatforms reads a comma-separated list such as linux/amd64,linux/s390x.
func parsePlatforms(list string) ([]v1.Platform, error) {
	var out []v1.Platform
	for s := range strings.SplitSeq(list, ",") {
		osName, arch, ok := strings.Cut(strings.TrimSpace(s), "/")
		if !ok || osName != "linux" || !slices.Contains(architectures, arch) {
			return nil, fmt.Errorf("platform %q is not built; choose among linux/%s", s, strings.Join(architectures, ", linux/"))
		}
		p := v1.Platform{OS: osName, Architecture: arch}
		if slices.ContainsFunc(out, p.Equals) {
			return nil, fmt.Errorf("platform %q is listed twice", s)
		}
		out = append(out, p)
	}
	return out, nil
}

// buildScript takes: output, package, linker flags, what runs the toolchain's programs or nothing, and what prints the
// engines' environment. With the engines in C it asks hack/engines for the libraries and the compiler of the platform,
// all of them, and prints the libraries' names and versions,
// and the compiler's.
const (
	buildScript = `set -euo pipefail
export CGO_ENABLED=0
go build -trimpath -buildvcs=false -toolexec "$4" -ldflags "$3" -o "$1" "$2" >&2`
	buildScriptEngines = `set -euo pipefail
env=$($5)
eval "$env"
go build -trimpath -buildvcs=false -toolexec "$4" -tags "$LIGHTERAGE_TAGS,netgo,osusergo" -ldflags "$3 -linkmode external -extldflags -static" -o "$1" "$2" >&2
echo "$LIGHTERAGE_LIBRARIES"
"${CC:-gcc}" --version`
)

// build makes the static, stripped binary of c for platform in dir.
func build(ctx context.Context, root, dir string, c component, version string, platform v1.Platform) (binary, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return binary{}, fmt.Errorf("making a directory for %s: %w", c.name, err)
	}
	script := buildScript
	if c.engines {
		script = buildScriptEngines
	}
	engines := c.script
	if engines == "" {
		engines = "hack/engines/env.sh --all " + platform.Architecture
	}
	bin := binary{path: filepath.Join(dir, c.name)}
	ldflags := "-s -w -X " + modulePath + "/agent/wire/v1.Version=" + version
	cmd := exec.CommandContext(ctx, "bash", "-c", script, "build", bin.path, c.pkg, ldflags, c.toolexec, engines)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+platform.OS, "GOARCH="+platform.Architecture, "GOFLAGS=")
	cmd.Stderr = os.Stderr
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return binary{}, fmt.Errorf("building %s for %s: %w", c.name, platform, err)
	}
	if c.engines {
		libraries, compiler, _ := strings.Cut(out.String(), "\n")
		bin.libraries = strings.Fields(libraries)
		bin.compiler, _, _ = strings.Cut(compiler, "\n")
	}
	if platform.OS != "linux" {
		return bin, nil
	}
	return bin, checkStatic(bin.path)
}

// checkStatic refuses a binary that needs a dynamic linker: nothing beside it is in its image.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("reading the headers of %s: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s needs a dynamic linker, and its image has none; link it with -extldflags -static", path)
		}
	}
	return nil
}
