// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/table"
)

// fieldOwner is the field manager of what the plugin changes.
const fieldOwner = client.FieldOwner("kubectl-lighterage")

// runnable are the kinds that have runs.
var runnable = kinds{transfers, trials, drills}

func newRun(p *plugin) *cobra.Command {
	var name string
	var of kind
	return &cobra.Command{
		Use:   "run transfer/NAME|trial/NAME|drill/NAME",
		Short: "Start another run of a Transfer, CompressionTrial or Drill",
		Long: `Ask for another run of a Transfer, CompressionTrial or Drill, by the annotation ` + v1alpha1.RunAnnotation + `. It starts as
soon as the present run has ended, at once if none is under way, and not while the Transfer or Drill is suspended.

It takes the verbs get and patch on transfers, compressiontrials or drills.`,
		Example: `  kubectl lighterage run transfer/ledger -n bank
  kubectl lighterage run trial/ledger -n bank
  kubectl lighterage run drill/ledger -n bank`,
		Args: runnable.argument(&of, &name), ValidArgsFunction: runnable.complete(p),
		RunE: action(func(ctx context.Context) error {
			value := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
			found, err := p.change(ctx, of, name, anotherRun(value))
			if err != nil {
				return err
			}
			note := ""
			if suspended, _, _ := unstructured.NestedBool(found.Object, "spec", "suspend"); suspended {
				note = "; it starts when the " + of.name + " is resumed"
			}
			return p.tell("%s %s/%s: run %s is asked for%s", of.name, p.namespace, name, value, note)
		}),
	}
}

// newSuspend is the command suspend, or resume, which takes it back.
func newSuspend(p *plugin, suspend bool) *cobra.Command {
	var name string
	use, done := "suspend", "suspended; an attempt that is under way goes on"
	short, means := "Keep runs and further attempts of a Transfer from starting", "An attempt that is under way goes on."
	if !suspend {
		use, done, short = "resume", "resumed", "Let runs of a Transfer start again"
		means = "Times of the schedule that passed meanwhile are not made up for."
	}
	return &cobra.Command{
		Use: use + " transfer/NAME", Short: short,
		Long: short + `: change spec.suspend.
` + means + `
If the Transfer is kept in Git, change it there as well.

It takes the verbs get and patch on transfers.`,
		Example: `  kubectl lighterage ` + use + ` transfer/ledger -n bank`,
		Args:    transfers.argument(&name), ValidArgsFunction: p.complete(transfers),
		RunE: action(func(ctx context.Context) error {
			_, err := p.change(ctx, transfers, name, suspension(suspend))
			if err != nil {
				return err
			}
			return p.tell("Transfer %s/%s: %s", p.namespace, name, done)
		}),
	}
}

// anotherRun is what asks for another run, which the value names.
func anotherRun(value string) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.RunAnnotation: value}}}
}

// suspension is what suspends a Transfer or resumes it.
func suspension(suspend bool) map[string]any {
	return map[string]any{"spec": map[string]any{"suspend": suspend}}
}

// ofUID makes a patch one of the object with a UID: the API server rejects it for another one of the same name.
func ofUID(patch map[string]any, uid string) map[string]any {
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
	}
	metadata["uid"] = uid
	patch["metadata"] = metadata
	return patch
}

// change merges something into an object that must exist, and returns the object.
func (p *plugin) change(ctx context.Context, k kind, name string, patch any) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(k.name))
	if err := p.get(ctx, k, name, object); err != nil {
		return nil, err
	}
	if object.GetDeletionTimestamp() != nil {
		return nil, fmt.Errorf("%s %s/%s is being deleted", k.name, p.namespace, name)
	}
	if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == transfers.name {
		return nil, fmt.Errorf("%s %s/%s is that of one of several destinations; change Transfer %q, which owns it", k.name,
			p.namespace, name, owner.Name)
	}
	body, err := json.Marshal(patch)
	if err == nil {
		err = p.cluster.Patch(ctx, object, client.RawPatch(types.MergePatchType, body), fieldOwner)
	}
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf(
			"you may not change %s %q in namespace %q; ask for a Role there with the verb patch on %s of %s: %w", k.name, name,
			p.namespace, k.words[0], v1alpha1.GroupVersion.Group, err,
		)
	case err != nil:
		return nil, fmt.Errorf("changing %s %s/%s: %w", k.name, p.namespace, name, err)
	}
	return object, nil
}

// tell writes a line of output.
func (p *plugin) tell(format string, values ...any) error {
	if _, err := fmt.Fprintln(p.Out, table.Printable(fmt.Sprintf(format, values...))); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}
