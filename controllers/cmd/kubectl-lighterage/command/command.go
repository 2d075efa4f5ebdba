// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command holds the commands of the kubectl plugin.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// usageError is a command line that cannot be followed.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// failure is an error of a command whose command line was valid.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// New returns the root of the commands, which use the given streams.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	p := newPlugin(streams)
	root := group(&cobra.Command{
		Use:         "kubectl-lighterage",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl lighterage"},
		Short:       "Join, check and watch clusters, explain Transfers, report costs, use Queues, and verify receipts",
		Long: `Join, check and watch clusters, explain Transfers, report CompressionTrials and costs, use Queues, and verify
receipts.

All commands use your own rights in the cluster of the kubeconfig. Only connect, link and disconnect change Peers, and
only run, suspend, pause and resume, also as buttons of console, change other objects of yours. verify makes
namespaces and deletes them, and prove restarts a node agent.

Exit codes: 0 success, 1 failure, 2 invalid command line, 3 queue get received no message.`,
		Example: `  kubectl lighterage connect --context east --to west
  kubectl lighterage check
  kubectl lighterage status
  kubectl lighterage watch -n bank
  kubectl lighterage console
  kubectl lighterage explain transfer/ledger -n bank
  kubectl lighterage trial report ledger -n bank > report.html
  kubectl lighterage cost -n bank
  kubectl lighterage queue stat orders -n bank`,
		Version: wirev1.Version, SilenceErrors: true, SilenceUsage: true,
	}, newExplain(p), newTrial(p), newCost(p), newQueue(p), newReceipt(p), newConnect(p), newLink(p), newDisconnect(p), newCheck(p),
		newVerify(p), newGather(p), newProve(p), newStatus(p), newWatch(p), newTree(p), newRun(p), newHold(p, suspends),
		newHold(p, pauses), newHold(p, resumes), newLogs(p), newConsole(p), newCompletion(p))
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetVersionTemplate("{{.Version}}\n")
	// Groups are runnable only to reject what is no command of theirs.
	root.SetUsageTemplate(
		strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if not .HasAvailableSubCommands}}", 1),
	)
	root.CompletionOptions.DisableDefaultCmd = true
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if _, err := clientcmd.ParseTimeout(*p.flags.Timeout); err != nil && *p.flags.Timeout != "" {
			return fmt.Errorf("--request-timeout must be a duration such as 30s, not %q", *p.flags.Timeout)
		}
		return nil
	}
	p.flags.AddFlags(root.PersistentFlags())
	root.PersistentFlags().Lookup("request-timeout").DefValue = requestTimeout.String()
	completeFlag(root, "namespace", p.completeNamespace)
	completeFlag(root, "context", p.completeContext)
	return root
}

// group makes a command whose commands do the work.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, arguments []string) error {
		var names []string
		for _, c := range commands {
			names = append(names, c.Name())
		}
		known := fmt.Sprintf("write %s with one of these commands: %s", cmd.CommandPath(), strings.Join(names, ", "))
		if len(arguments) == 0 {
			return errors.New("a command is missing: " + known)
		}
		return fmt.Errorf("unknown command %q: %s", arguments[0], known)
	}
	return cmd
}

// action makes a RunE. Its errors are failures; cobra finds all errors of the command line before it.
func action(run func(context.Context) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := run(cmd.Context()); err != nil {
			return failure{err}
		}
		return nil
	}
}

// Run follows a command line, which does not have the name of the program.
func Run(ctx context.Context, arguments []string, streams genericiooptions.IOStreams) error {
	root := New(streams) //nolint:contextcheck // completions use the context of their command
	root.SetArgs(arguments)
	cmd, err := root.ExecuteContextC(ctx)
	var failed failure
	if err == nil || errors.As(err, &failed) {
		return err
	}
	return usageError{fmt.Errorf("%w; %s --help shows flags and examples", err, cmd.CommandPath())}
}

// ExitCode is the exit code of the program for an error of Run, which is not nil.
func ExitCode(err error) int {
	var wrong usageError
	switch {
	case errors.As(err, &wrong):
		return 2
	case errors.Is(err, errNoMessage):
		return 3
	}
	return 1
}

// choice is a flag with a few values, the first of which is the default. It implements pflag.Value.
type choice []string

// String implements pflag.Value.
func (c *choice) String() string { return (*c)[0] }

// Type implements pflag.Value.
func (c *choice) Type() string {
	values := slices.Sorted(slices.Values(*c))
	return strings.Join(values, "|")
}

// Set implements pflag.Value. It moves the value to the front.
func (c *choice) Set(value string) error {
	i := slices.Index(*c, value)
	if i < 0 {
		return fmt.Errorf("write one of %s", strings.Join(*c, ", "))
	}
	(*c)[0], (*c)[i] = (*c)[i], (*c)[0]
	return nil
}

// addTo adds the flag --output to a command.
func (c *choice) addTo(cmd *cobra.Command) *cobra.Command {
	values := slices.Clone(*c)
	cmd.Flags().VarP(c, "output", "o", "format of the output")
	completeFlag(cmd, "output", cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// write writes an object in the format json or yaml, or has it written as text.
func (c *choice) write(to io.Writer, object any, text func(io.Writer) error) error {
	var err error
	switch c.String() {
	case "json":
		encoder := json.NewEncoder(to)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(object)
	case "yaml":
		var document []byte
		if document, err = yaml.Marshal(object); err == nil {
			_, err = to.Write(document)
		}
	default:
		return text(to)
	}
	if err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}
