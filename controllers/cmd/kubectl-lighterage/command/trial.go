// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/trialreport"
)

func newTrial(p *plugin) *cobra.Command {
	var name string
	output := choice{"html", "svg", "text"}
	return group(&cobra.Command{
		Use:     "trial",
		Short:   "Report CompressionTrials",
		Example: "  kubectl lighterage trial report ledger -n bank -o text",
	}, output.addTo(&cobra.Command{
		Use:   "report NAME",
		Short: "Write what a CompressionTrial measured, predicts and recommends",
		Long: `Write what a CompressionTrial measured, predicts and recommends: as a page in one file (html), as a picture of the
predicted times (svg), or as text. It takes the verb get on compressiontrials.`,
		Example: `  kubectl lighterage trial report ledger -n bank > report.html
  kubectl lighterage trial report ledger -n bank -o svg > report.svg
  kubectl lighterage trial report ledger -n bank -o text`,
		Args: trials.argument(&name), ValidArgsFunction: p.complete(trials),
		RunE: action(func(ctx context.Context) error {
			trial := &v1alpha1.CompressionTrial{}
			if err := p.get(ctx, trials, name, trial); err != nil {
				return err
			}
			if err := trialreport.Check(trial); err != nil {
				return err
			}
			return map[string]func(io.Writer, *v1alpha1.CompressionTrial) error{
				"html": trialreport.HTML, "svg": trialreport.WriteSVG, "text": trialreport.Text,
			}[output.String()](p.Out, trial)
		}),
	}))
}
