// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// cliPage is made of what the programs print themselves. They are run without any environment variable that a default
// comes from.
func cliPage(ctx context.Context, root string) (string, error) {
	var b strings.Builder
	b.WriteString("# Command lines\n\n## kubectl lighterage\n\n" +
		"`make build` writes the plugin to `bin/kubectl-lighterage`. " +
		"In a directory of `$PATH` it is a plugin of kubectl.\n\n")
	plugin := func(arguments ...string) (string, error) {
		return output(ctx, root, "./controllers/cmd/kubectl-lighterage", append(arguments, "--help")...)
	}
	if err := commands(&b, plugin, nil); err != nil {
		return "", err
	}
	b.WriteString("## lighterage-cargo\n\n`make build` writes the program to `bin/lighterage-cargo`. It is static and needs no " +
		"cluster.\n\n")
	cargo := func(arguments ...string) (string, error) {
		return output(ctx, root, "./agent/cmd/lighterage-cargo", append(arguments, "--help")...)
	}
	if err := commands(&b, cargo, nil); err != nil {
		return "", err
	}
	for _, program := range []struct{ name, path, text string }{
		{"manager", "./controllers/cmd/manager", "The manager runs the controllers. The chart sets its flags."},
		{"gateway", "./controllers/cmd/gateway", "Other clusters connect to the gateway. The chart sets its flags."},
		{"agent", "./agent/cmd/agent", "The manager starts agents in pods and writes their configuration."},
	} {
		usage, err := output(ctx, root, program.path, "--help")
		if err != nil {
			return "", err
		}
		introduction, flags, err := parseFlags(usage)
		if err != nil {
			return "", fmt.Errorf("the usage of %s: %w", program.name, err)
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n", program.name, program.text)
		if introduction != "" {
			fmt.Fprintf(&b, "```text\n%s\n```\n\n", introduction)
		}
		var rows [][]string
		for _, f := range flags {
			fallback := ""
			if f.fallback != "" {
				fallback = code(f.fallback)
			}
			rows = append(rows, []string{code("--" + f.name), f.kind, fallback, prose(f.usage)})
		}
		b.WriteString(table([]string{"Flag", "Type", "Default", "Meaning"}, rows) + "\n")
	}
	return b.String(), nil
}

// output runs a program of this module. -trimpath lets copies of the tree share what was compiled.
func output(ctx context.Context, root, program string, arguments ...string) (string, error) {
	arguments = append([]string{"run", "-trimpath", program}, arguments...)
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = root
	command.Env = []string{"CGO_ENABLED=0"}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "CGO_ENABLED", "POD_NAMESPACE", "POD_NAME", "KUBECONFIG":
		default:
			command.Env = append(command.Env, variable)
		}
	}
	printed, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("running go %s: %w: %s", strings.Join(arguments, " "), err, printed)
	}
	return strings.TrimSpace(string(printed)), nil
}

// listedCommand is a command in the usage of one that has others, as cobra prints it.
var listedCommand = regexp.MustCompile(`^  ([a-z][a-z-]*) +\S`)

// commands renders the usage of a command and, below it, of those that it lists. help is cobra's own.
func commands(b *strings.Builder, usage func(...string) (string, error), path []string) error {
	text, err := usage(path...)
	if err != nil {
		return err
	}
	if len(path) > 0 {
		fmt.Fprintf(b, "### %s\n\n", strings.Join(path, " "))
	}
	fmt.Fprintf(b, "```text\n%s\n```\n\n", text)
	for _, name := range subcommands(text) {
		if err := commands(b, usage, append(path[:len(path):len(path)], name)); err != nil {
			return err
		}
	}
	return nil
}

// subcommands are those that a usage lists below a line such as "Available Commands:".
func subcommands(usage string) []string {
	var all []string
	inside := false
	for line := range strings.SplitSeq(usage, "\n") {
		if strings.HasSuffix(line, "Commands:") {
			inside = true
			continue
		}
		if found := listedCommand.FindStringSubmatch(line); inside && found != nil {
			if found[1] != "help" {
				all = append(all, found[1])
			}
			continue
		}
		inside = false
	}
	return all
}

// programFlag is a flag of package flag.
type programFlag struct{ name, kind, fallback, usage string }

var (
	flagLine     = regexp.MustCompile(`^  -(\S+)(?: (\S+))?(?:\t(.*))?$`)
	flagFallback = regexp.MustCompile(`(?s)^(.*) \(default (.*)\)$`)
)

// parseFlags reads what package flag prints, and what comes before it.
func parseFlags(usage string) (introduction string, flags []programFlag, err error) {
	var before []string
	for line := range strings.SplitSeq(strings.TrimRight(usage, "\n"), "\n") {
		if found := flagLine.FindStringSubmatch(line); found != nil {
			kind := found[2]
			if kind == "" {
				kind = "boolean"
			}
			flags = append(flags, programFlag{name: found[1], kind: kind, usage: found[3]})
			continue
		}
		switch {
		case len(flags) == 0:
			before = append(before, line)
		case strings.HasPrefix(line, "    \t"):
			last := &flags[len(flags)-1]
			last.usage = strings.TrimSpace(last.usage + " " + strings.TrimSpace(line))
		default:
			return "", nil, fmt.Errorf("the line %q is no flag", line)
		}
	}
	if len(flags) == 0 {
		return "", nil, fmt.Errorf("there are no flags in %q", usage)
	}
	for i, f := range flags {
		if found := flagFallback.FindStringSubmatch(f.usage); len(found) == 3 && !strings.Contains(found[2], "$") {
			flags[i].usage, flags[i].fallback = found[1], strings.Trim(found[2], `"`)
		}
	}
	introduction = strings.TrimSpace(strings.Join(before, "\n"))
	introduction = strings.TrimSpace(strings.TrimSuffix(introduction, "Flags:"))
	if !strings.Contains(introduction, "\n") {
		introduction = "" // "Usage of manager:"
	}
	return introduction, flags, nil
}
