// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/wire/queuevolume"
)

// TestLeastQueueVolumes: the API server admits the volumes that members can work with, and no smaller ones. A rule of
// the API is text, so it cannot name the constants that members go by.
func TestLeastQueueVolumes(t *testing.T) {
	const mib = 1 << 20
	crd := strings.Join(strings.Fields(read(t, "config/crd/bases/lighterage.dev_queues.yaml")), " ")
	for _, rule := range []string{
		fmt.Sprintf(
			"has(self.engine.external) || quantity(string(self.storage.size)).compareTo(quantity('%dMi')) >= 0",
			queuevolume.Least/mib,
		),
		fmt.Sprintf(
			"self.replicas == 1 || quantity(string(self.storage.size)).compareTo(quantity('%dMi')) >= 0",
			queuevolume.LeastOfThree/mib,
		),
	} {
		// Quotes are doubled in YAML strings with single quotes.
		if !strings.Contains(crd, rule) && !strings.Contains(crd, strings.ReplaceAll(rule, "'", "''")) {
			t.Errorf("the API has no rule %s", rule)
		}
	}
}
