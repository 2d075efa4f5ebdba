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
soon as the present run has ended, at once if none is under way, and not while the Transfer or Drill is suspended or the
Transfer is paused.

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
			suspended, _, _ := unstructured.NestedBool(found.Object, "spec", "suspend")
			paused, _, _ := unstructured.NestedBool(found.Object, "spec", "pause")
			if suspended || paused {
				note = "; it starts when the " + of.name + " is resumed"
			}
			return p.tell("%s %s/%s: run %s is asked for%s", of.name, p.namespace, name, value, note)
		}),
	}
}

// hold is a command that changes whether a Transfer runs.
type hold struct {
	use, short, means string
	// changes names fields, and patch changes them.
	changes string
	patch   map[string]any
	done    string
}

var (
	suspends = hold{
		"suspend", "Keep runs and further attempts of a Transfer from starting", "An attempt that is under way goes on.",
		"spec.suspend", suspension(), "suspended; an attempt that is under way goes on",
	}
	pauses = hold{
		"pause", "Pause a Transfer's run at once",
		"The agents end, and the run stays. When it is resumed, at most one checkpoint interval of each stream is sent again.",
		"spec.pause", pausing(), "paused; its phase is Paused when its pods have ended",
	}
	resumes = hold{
		"resume", "Let a Transfer that is suspended or paused go on",
		"Times of the schedule that passed meanwhile are not made up for.",
		"spec.suspend and spec.pause", resumption(), "resumed",
	}
)

// newHold is the command suspend, pause, or resume, which takes both back.
func newHold(p *plugin, h hold) *cobra.Command {
	var name string
	return &cobra.Command{
		Use: h.use + " transfer/NAME", Short: h.short,
		Long: h.short + `: change ` + h.changes + `.
` + h.means + `
If the Transfer is kept in Git, change it there as well.

It takes the verbs get and patch on transfers.`,
		Example: `  kubectl lighterage ` + h.use + ` transfer/ledger -n bank`,
		Args:    transfers.argument(&name), ValidArgsFunction: p.complete(transfers),
		RunE: action(func(ctx context.Context) error {
			_, err := p.change(ctx, transfers, name, h.patch)
			if err != nil {
				return err
			}
			return p.tell("Transfer %s/%s: %s", p.namespace, name, h.done)
		}),
	}
}

// anotherRun is what asks for another run, which the value names.
func anotherRun(value string) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.RunAnnotation: value}}}
}

// suspension is what suspends a Transfer, pausing what pauses it, and resumption takes both back.
func suspension() map[string]any {
	return map[string]any{"spec": map[string]any{"suspend": true}}
}

func pausing() map[string]any {
	return map[string]any{"spec": map[string]any{"pause": true}}
}

func resumption() map[string]any {
	return map[string]any{"spec": map[string]any{"suspend": false, "pause": false}}
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
