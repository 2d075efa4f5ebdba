// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/trialreport"
)

// report writes what a CompressionTrial found.
func report(ctx context.Context, cluster client.Client, key client.ObjectKey, form string, out io.Writer) error {
	trial := &v1alpha1.CompressionTrial{}
	if err := cluster.Get(ctx, key, trial); err != nil {
		return refused(err, "CompressionTrial", "compressiontrials", key)
	}
	if err := trialreport.Check(trial); err != nil {
		return err
	}
	switch form {
	case "svg":
		if _, err := io.WriteString(out, trialreport.SVG(trial)); err != nil {
			return fmt.Errorf("writing the picture: %w", err)
		}
		return nil
	case "text":
		return trialreport.Text(out, trial)
	default:
		return trialreport.HTML(out, trial)
	}
}
