// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/overview"
)

const (
	// enterPage has a terminal show a page of its own, without cursor; leavePage goes back to what it showed before.
	enterPage = "\x1b[?1049h\x1b[?25l"
	leavePage = "\x1b[?25h\x1b[?1049l"
	// Frames begin at the top and clear what a former one has left.
	toTop, clearLine, clearRest = "\x1b[H", "\x1b[K", "\x1b[J"
	leastInterval               = 100 * time.Millisecond
)

type watching struct {
	*plugin

	all, ended, once bool
	interval         time.Duration
	output           choice
	names            []reference
	// screen is the size of the terminal; 0 of what is none.
	screen func() (width, height int)

	seen map[string]bool
	log  overview.Log
	// failing is why the last look failed; "" if it did not.
	failing string
	// hidden says which runs are not shown, and why.
	hidden string
}

// watched are the kinds of which there are runs.
var watched = kinds{transfers, trials, deliveries}

// reference names an object of a kind.
type reference struct {
	kind kind
	name string
}

// event is a line of the output as JSON.
type event struct {
	Time time.Time `json:"time"`
	overview.Run
}

func newWatch(p *plugin) *cobra.Command {
	w := &watching{plugin: p, output: choice{"text", "json"}, seen: map[string]bool{}}
	w.screen = func() (int, int) { return screen(p.Out) }
	cmd := w.output.addTo(&cobra.Command{
		Use:   "watch [KIND/NAME]...",
		Short: "Show the progress of runs while they go on",
		Long: `Show the progress of Transfers, of CompressionTrials, and of Deliveries from other clusters, while they run:
percent, rate of uncompressed bytes, time left, cost so far at the prices in force, and what keeps a run from going on.

On a terminal it is a page that is drawn again every --interval. Elsewhere, and with TERM=dumb, a line is written when a
run changes its state, phase or attempt, when it has advanced by 10 percent, and every 30 seconds while it goes on. With
-o json each such line is a JSON object.

Without names it goes on until it is interrupted. With names it ends when all of these runs have ended, and the exit
code is 1 if one failed. It changes nothing.

It takes list on transfers, compressiontrials and deliveries, in the namespace or in the cluster, or get on the objects
that are named. Kinds that you may not list are named.`,
		Example: `  kubectl lighterage watch -n bank
  kubectl lighterage watch --all-namespaces
  kubectl lighterage watch transfer/ledger transfer/archive -n bank -o json`,
		Args: w.arguments,
		ValidArgsFunction: func(
			cmd *cobra.Command, _ []string, typed string,
		) ([]cobra.Completion, cobra.ShellCompDirective) {
			return watched.complete(p)(cmd, nil, typed) // each argument is one more run
		},
		PreRunE: func(*cobra.Command, []string) error { return w.check() }, RunE: action(w.run),
	})
	flags := cmd.Flags()
	flags.BoolVarP(&w.all, "all-namespaces", "A", false, "all namespaces")
	flags.BoolVar(&w.ended, "all", false, "all problems and runs, also those that have ended in watch")
	flags.BoolVar(&w.once, "once", false, "show the present state and end")
	flags.DurationVar(&w.interval, "interval", 2*time.Second, "time between looks at the cluster")
	return cmd
}

// arguments reads names of runs.
func (w *watching) arguments(cmd *cobra.Command, arguments []string) error {
	w.names = nil
	for _, argument := range arguments {
		var named reference
		if err := watched.argument(&named.kind, &named.name)(cmd, []string{argument}); err != nil {
			return err
		}
		w.names = append(w.names, named)
	}
	return nil
}

func (w *watching) check() error {
	switch {
	case w.interval < leastInterval:
		return fmt.Errorf("--interval must be %v or longer", leastInterval)
	case w.all && len(w.names) > 0:
		return errors.New("with names, leave out --all-namespaces: -n chooses the namespace")
	}
	return nil
}

func (w *watching) run(ctx context.Context) (err error) {
	if err := w.open(); err != nil {
		return err
	}
	runs, err := w.look(ctx, nil)
	if err != nil {
		return err
	}
	if w.paged() {
		w.quiet = true
		if err := w.write(enterPage); err != nil {
			return err
		}
		defer func() {
			err = errors.Join(err, w.write(leavePage))
			if err == nil || len(w.names) > 0 {
				width, _ := w.screen()
				err = errors.Join(err, writeLines(w.Out, overview.Frame(runs, width, 0)))
			}
		}()
	}
	for {
		if err := w.show(runs); err != nil {
			return err
		}
		if w.once || len(w.names) > 0 && !slices.ContainsFunc(runs, func(r overview.Run) bool { return !r.Ended() }) {
			return w.result(runs)
		}
		select {
		case <-ctx.Done():
			return w.interrupted(ctx)
		case <-time.After(w.interval):
		}
		newer, err := w.look(ctx, runs)
		switch {
		case ctx.Err() != nil:
			return w.interrupted(ctx)
		case err != nil:
			w.failed(err.Error())
		default:
			w.failed("")
			runs = newer
		}
	}
}

// interrupted is how a watch without names ends; with names something is left to wait for.
func (w *watching) interrupted(ctx context.Context) error {
	if len(w.names) == 0 {
		return nil
	}
	return fmt.Errorf("interrupted before all runs ended: %w", ctx.Err())
}

// result is an error if a run that was named has failed.
func (w *watching) result(runs []overview.Run) error {
	failed := 0
	for i := range runs {
		if len(w.names) > 0 && runs[i].State == overview.Failed {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d runs failed", failed, len(runs))
	}
	return nil
}

// failed notes why the last look failed, and says it where there is no page.
func (w *watching) failed(why string) {
	if why == w.failing {
		return
	}
	if w.failing = why; !w.paged() {
		w.say("%s", w.trouble())
	}
}

func (w *watching) trouble() string {
	if w.failing == "" {
		return "The cluster answers again"
	}
	return "Not up to date: " + w.failing
}

// look reads the runs that are to be shown. Of those that are named and were there, one that is gone has failed.
func (w *watching) look(ctx context.Context, before []overview.Run) ([]overview.Run, error) {
	var runs []overview.Run
	for _, n := range w.names {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(n.kind.name))
		key := client.ObjectKey{Namespace: w.namespace, Name: n.name}
		err := w.cluster.Get(ctx, key, object)
		if apierrors.IsNotFound(err) && before != nil {
			runs = append(runs, overview.Run{
				Kind: n.kind.name, Namespace: key.Namespace, Name: key.Name, State: overview.Failed, Phase: "Deleted",
			})
			continue
		}
		if err != nil {
			return nil, n.kind.unread(key, err)
		}
		found, err := runsOf(n.kind.name, []unstructured.Unstructured{*object})
		if err != nil {
			return nil, err
		}
		runs = append(runs, found...)
	}
	if len(w.names) > 0 {
		return runs, nil
	}
	namespace := w.namespace
	if w.all {
		namespace = ""
	}
	hidden := map[string]string{}
	var forbidden error
	for _, k := range watched {
		items, cut, err := w.plugin.all(ctx, k.name, namespace)
		switch {
		case apierrors.IsForbidden(err): // many see their Transfers only
			hidden["you may not list "], forbidden = hidden["you may not list "]+", "+k.words[0], err
			continue
		case err != nil:
			return nil, fmt.Errorf("listing %s: %w", k.words[0], err)
		case cut:
			hidden["there are too many of "] += ", " + k.words[0]
		}
		found, err := runsOf(k.name, items)
		if err != nil {
			return nil, err
		}
		runs = append(runs, slices.DeleteFunc(found, func(r overview.Run) bool {
			shown := w.ended || !r.Idle() || w.seen[r.Key()]
			w.seen[r.Key()] = shown
			return !shown
		})...)
	}
	if strings.Count(hidden["you may not list "], ", ") == len(watched) {
		return nil, fmt.Errorf("listing runs: %w", forbidden)
	}
	w.hide(hidden)
	overview.Sort(runs)
	return runs, nil
}

// hide notes which runs are not shown, by reason, and says it where there is no page.
func (w *watching) hide(kinds map[string]string) {
	var notes []string
	for _, why := range slices.Sorted(maps.Keys(kinds)) {
		notes = append(notes, why+strings.TrimPrefix(kinds[why], ", "))
	}
	text := strings.Join(notes, "; ")
	if text == w.hidden {
		return
	}
	if w.hidden = text; text != "" && !w.paged() {
		w.say("Runs are missing: %s", text)
	}
}

// paged reports whether the output is a page on a terminal.
func (w *watching) paged() bool {
	width, height := w.screen()
	return width > 1 && height > 1 && !w.once && w.output.String() == "text" && os.Getenv("TERM") != "dumb"
}

func (w *watching) show(runs []overview.Run) error {
	if w.paged() {
		width, height := w.screen()
		width-- // a character in the last column may begin another line
		var below []string
		if w.hidden != "" {
			below = append(below, overview.Fit("Runs are missing: "+w.hidden, width))
		}
		if w.failing != "" {
			below = append(below, overview.Fit(w.trouble(), width))
		}
		lines := append(overview.Frame(runs, width, max(height-len(below), 1)), below...)
		return w.write(toTop + strings.Join(lines, clearLine+"\r\n") + clearLine + clearRest)
	}
	now := time.Now().UTC()
	if w.once && w.output.String() == "text" {
		if width, _ := w.screen(); width > 1 {
			return writeLines(w.Out, overview.Frame(runs, width, 0))
		}
	}
	for _, r := range w.log.News(now, runs) {
		line := now.Format(time.RFC3339) + "  " + r.Text()
		if w.output.String() == "json" {
			encoded, err := json.Marshal(event{now.Truncate(time.Second), r})
			if err != nil {
				return fmt.Errorf("writing the output: %w", err)
			}
			line = string(encoded)
		}
		if err := w.write(line + "\n"); err != nil {
			return err
		}
	}
	return nil
}

func (w *watching) write(text string) error {
	if _, err := fmt.Fprint(w.Out, text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}
