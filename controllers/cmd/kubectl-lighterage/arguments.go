// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const usage = `Usage: kubectl lighterage explain transfer/NAME [flags]

explain says of a Transfer that runs or has run what was decided about compression, what the decision was made of, and what other
choices would have cost. It says which of the numbers were measured and which are estimates.

It uses your own rights: to get transfers in the namespace, and, without which it says less, to get nodeprofiles and, for a
Transfer within the cluster, deliveries in the destination's namespace.

Flags:
`

// settings are what the command line says.
type settings struct {
	transfer                       string
	namespace, kubeconfig, context string
	output                         string
	version                        bool
}

// parse reads the command line. Of pflag.ErrHelp the usage has been written to help.
func parse(arguments []string, help io.Writer) (settings, error) {
	var s settings
	flags := pflag.NewFlagSet("kubectl lighterage", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVarP(&s.namespace, "namespace", "n", "", "namespace of the Transfer (default: that of the context)")
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "path of a kubeconfig (default: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&s.context, "context", "", "context of the kubeconfig (default: its current one)")
	flags.StringVarP(&s.output, "output", "o", "text", "text or json")
	flags.BoolVar(&s.version, "version", false, "print the version and exit")
	flags.SetOutput(io.Discard) // what is wrong is in the error
	flags.Usage = func() { _, _ = fmt.Fprint(help, usage, flags.FlagUsages()) }
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return s, pflag.ErrHelp
		}
		return s, fmt.Errorf("%w; kubectl lighterage --help lists the flags", err)
	}
	if s.version {
		return s, nil
	}
	if !slices.Contains([]string{"text", "json"}, s.output) {
		return s, fmt.Errorf("--output must be text or json, not %q", s.output)
	}
	var err error
	s.transfer, err = transferOf(flags.Args())
	return s, err
}

// transferOf is the name of the Transfer in explain transfer/NAME, or explain transfer NAME.
func transferOf(arguments []string) (string, error) {
	const form = "write kubectl lighterage explain transfer/NAME"
	if len(arguments) == 0 {
		return "", errors.New("say what to do: " + form)
	}
	if arguments[0] != "explain" {
		return "", fmt.Errorf("unknown command %q: %s", arguments[0], form)
	}
	rest := arguments[1:]
	if len(rest) > 0 {
		rest = append(strings.SplitN(rest[0], "/", 2), rest[1:]...)
	}
	if len(rest) == 0 {
		return "", errors.New("say of which Transfer: " + form)
	}
	kinds := []string{"transfer", "transfers", "transfer.lighterage.dev", "transfers.lighterage.dev"}
	switch {
	case !slices.Contains(kinds, strings.ToLower(rest[0])):
		return "", fmt.Errorf("explain knows of Transfers only, not of %q: %s", rest[0], form)
	case len(rest) < 2 || rest[1] == "" || strings.Contains(rest[1], "/"):
		return "", errors.New("the name of the Transfer is missing: " + form)
	case len(rest) > 2:
		return "", fmt.Errorf("unexpected argument %q: explain takes one Transfer", rest[2])
	}
	return rest[1], nil
}

func version() string { return wirev1.Version }
