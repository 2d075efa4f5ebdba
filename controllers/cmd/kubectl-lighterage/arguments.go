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
       kubectl lighterage trial report NAME [flags]
       kubectl lighterage queue put|get|stat NAME [flags]

explain says of a Transfer that runs or has run what was decided about compression, what the decision was made of, and what other
choices would have cost. It says which of the numbers were measured and which are estimates.

trial report writes what a CompressionTrial has measured, predicts and recommends: as a page that needs nothing else (-o html, unless told
otherwise), as a picture (-o svg) or as text (-o text).

queue puts messages into a Queue, gets them from it and says how it is; kubectl lighterage queue --help tells more.

All use your own rights. explain has to get transfers in the namespace, and, without which it says less, nodeprofiles and, for a
Transfer within the cluster, deliveries in the destination's namespace; trial report has to get compressiontrials.

Flags:
`

// settings are what the command line says.
type settings struct {
	// transfer to explain, or trial to report.
	transfer, trial                string
	namespace, kubeconfig, context string
	output                         string
	version                        bool
	// queue is what to do with a Queue; its verb is empty for the other commands.
	queue queueSettings
}

// usageError is a command line that cannot be followed.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// parse reads the command line. Of pflag.ErrHelp the usage has been written to help.
func parse(arguments []string, help io.Writer) (settings, error) {
	s, err := read(arguments, help)
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		err = usageError{err}
	}
	return s, err
}

func read(arguments []string, help io.Writer) (settings, error) {
	var s settings
	flags := pflag.NewFlagSet("kubectl lighterage", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVarP(&s.namespace, "namespace", "n", "", "namespace of the object (default: that of the context)")
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "path of a kubeconfig (default: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&s.context, "context", "", "context of the kubeconfig (default: its current one)")
	flags.StringVarP(&s.output, "output", "o", "", "explain, queue stat: text (default) or json; trial report: html (default), svg or text; queue get: raw (default) or json")
	flags.BoolVar(&s.version, "version", false, "print the version and exit")
	flags.SetOutput(io.Discard) // what is wrong is in the error
	queueFlags := s.queue.flags()
	common := flags.FlagUsages()
	flags.AddFlagSet(queueFlags)
	flags.Usage = func() {
		if flags.Arg(0) == queueCommand {
			_, _ = fmt.Fprint(help, queueUsage, queueFlags.FlagUsages(), common)
			return
		}
		_, _ = fmt.Fprint(help, usage, common)
	}
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return s, pflag.ErrHelp
		}
		return s, fmt.Errorf("%w; kubectl lighterage --help lists the flags", err)
	}
	if s.version {
		return s, nil
	}
	if flags.Arg(0) == queueCommand {
		return s, s.parseQueue(flags, queueFlags)
	}
	var foreign error
	flags.Visit(func(f *pflag.Flag) {
		if foreign == nil && queueFlags.Lookup(f.Name) != nil {
			foreign = fmt.Errorf("--%s is a flag of kubectl lighterage queue", f.Name)
		}
	})
	if foreign != nil {
		return s, foreign
	}
	if flags.Arg(0) == "trial" {
		if err := s.choose("html", "svg", "text"); err != nil {
			return s, err
		}
		var err error
		s.trial, err = trialOf(flags.Args()[1:])
		return s, err
	}
	if err := s.choose("text", "json"); err != nil {
		return s, err
	}
	var err error
	s.transfer, err = transferOf(flags.Args())
	return s, err
}

// choose checks the form of the output, of which the first is the usual one.
func (s *settings) choose(forms ...string) error {
	if s.output == "" {
		s.output = forms[0]
	}
	if !slices.Contains(forms, s.output) {
		last := len(forms) - 1
		return fmt.Errorf("--output must be %s or %s, not %q", strings.Join(forms[:last], ", "), forms[last], s.output)
	}
	return nil
}

// trialOf is the name of the CompressionTrial in report NAME, or report trial/NAME.
func trialOf(arguments []string) (string, error) {
	const form = "write kubectl lighterage trial report NAME"
	switch {
	case len(arguments) == 0 || arguments[0] != "report":
		return "", errors.New("trial knows the command report: " + form)
	case len(arguments) < 2:
		return "", errors.New("the name of the CompressionTrial is missing: " + form)
	case len(arguments) > 2:
		return "", fmt.Errorf("unexpected argument %q: trial report takes one CompressionTrial", arguments[2])
	}
	name := arguments[1]
	if kind, rest, found := strings.Cut(name, "/"); found {
		kinds := []string{"trial", "compressiontrial", "compressiontrials", "compressiontrial.lighterage.dev", "compressiontrials.lighterage.dev"}
		if !slices.Contains(kinds, strings.ToLower(kind)) {
			return "", fmt.Errorf("trial report knows of CompressionTrials only, not of %q: %s", kind, form)
		}
		name = rest
	}
	if name == "" || strings.Contains(name, "/") {
		return "", errors.New("the name of the CompressionTrial is missing: " + form)
	}
	return name, nil
}

// transferOf is the name of the Transfer in explain transfer/NAME, or explain transfer NAME.
func transferOf(arguments []string) (string, error) {
	const form = "write kubectl lighterage explain transfer/NAME, kubectl lighterage trial report NAME, or kubectl lighterage queue put|get|stat NAME"
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
