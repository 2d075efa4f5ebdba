// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lighterage/lighterage/controllers/plan"
)

func TestCheckpointInterval(t *testing.T) {
	for text, want := range map[string]string{
		"": "67108864", "1Mi": "1048576", "16Gi": "17179869184", "1023Ki": "", "17Gi": "", "-1": "",
	} {
		transfer, facts := running(1)
		transfer.Spec.CheckpointInterval = nil
		if text != "" {
			q := resource.MustParse(text)
			transfer.Spec.CheckpointInterval = &q
		}
		if err := plan.ValidateTransfer(transfer.Spec); (err == nil) != (want != "") {
			t.Errorf("%q: %v", text, err)
		}
		if want == "" {
			continue
		}
		transfer.Status.Phase, transfer.Status.Run = "", nil
		start := plan.DecideTransfer(transfer, facts, image).Start
		if start == nil {
			t.Fatal("no attempt begins")
		}
		b, err := start.Config()
		if err != nil {
			t.Fatal(err)
		}
		var config struct{ CheckpointInterval string }
		if err := json.Unmarshal(b, &config); err != nil || config.CheckpointInterval != want {
			t.Errorf("%q becomes %q in %s, %v", text, config.CheckpointInterval, b, err)
		}
	}
}
