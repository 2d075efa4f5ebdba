// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// completionTimeout bounds how long a user who presses TAB waits for the cluster.
const completionTimeout = 5 * time.Second

func newCompletion(p *plugin) *cobra.Command {
	scripts := map[string]func(*cobra.Command, io.Writer) error{
		"bash":       func(root *cobra.Command, to io.Writer) error { return root.GenBashCompletionV2(to, true) },
		"fish":       func(root *cobra.Command, to io.Writer) error { return root.GenFishCompletion(to, true) },
		"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
		"zsh":        (*cobra.Command).GenZshCompletion,
	}
	shells := slices.Sorted(maps.Keys(scripts))
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that has a shell complete commands, flags and names",
		Long: `Print a script that has a shell complete commands, flags and names of objects of the program kubectl-lighterage.

A shell with the script of kubectl completion completes kubectl lighterage as well, if kubectl finds a program
kubectl_complete-lighterage in a directory of $PATH. Make it a symbolic link to kubectl-lighterage.

Names of objects are read from the cluster of the kubeconfig. That takes the verb list on the objects.`,
		Example: `  # kubectl lighterage, in every shell that completes kubectl
  ln -s "$(command -v kubectl-lighterage)" ~/.local/bin/kubectl_complete-lighterage

  # kubectl-lighterage, in this bash
  source <(kubectl lighterage completion bash)`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) != 1 || !slices.Contains(shells, arguments[0]) {
				return fmt.Errorf("name one shell of %s, not %q", strings.Join(shells, ", "), strings.Join(arguments, " "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return action(func(context.Context) error { return scripts[arguments[0]](cmd.Root(), p.Out) })(cmd, nil)
		},
	}
}

// completeFlag registers the values of a flag.
func completeFlag(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err) // the command has no such flag
	}
}

// complete makes the ValidArgsFunction of a command whose argument is an object of the kind.
func (p *plugin) complete(k kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, arguments []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		prefix := ""
		word, _, slash := strings.Cut(typed, "/")
		switch {
		case len(arguments) == 1 && !slash && k.is(arguments[0]) && !k.bare: // KIND NAME
		case len(arguments) > 0 || slash && !k.is(word):
			return nil, cobra.ShellCompDirectiveNoFileComp
		case slash:
			prefix = word + "/"
		case !k.bare:
			prefix = k.words[1] + "/"
		}
		return p.list(cmd.Context(), v1alpha1.GroupVersion.WithKind(k.name+"List"), prefix)
	}
}

func (p *plugin) completeNamespace(
	cmd *cobra.Command, _ []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.list(cmd.Context(), corev1.SchemeGroupVersion.WithKind("NamespaceList"), "")
}

func (p *plugin) completeContext(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := p.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// list returns the names of objects in the namespace of the command, each after a prefix. The shell keeps those that
// begin with what was typed.
func (p *plugin) list(
	ctx context.Context, kind schema.GroupVersionKind, prefix string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	var objects metav1.PartialObjectMetadataList
	objects.SetGroupVersionKind(kind)
	err := p.open()
	if err == nil {
		err = p.cluster.List(ctx, &objects, client.InNamespace(p.namespace)) // ignored for kinds without namespaces
	}
	if err != nil {
		cobra.CompErrorln(err.Error()) // shown when kubectl-lighterage __complete is run by hand
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, object := range objects.Items {
		names = append(names, prefix+object.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
