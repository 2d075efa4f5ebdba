// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"
)

func TestConsoleFlags(t *testing.T) {
	for line, says := range map[string]string{
		"--address 0.0.0.0":                        "loopback",
		"--address localhost":                      "loopback",
		"--port 70000":                             "between 0 and 65535",
		"--also " + strings.Repeat("a,", 19) + "a": "20 clusters at most",
		"bank": "",
	} {
		_, _, err := try(t, "", append([]string{"console"}, strings.Fields(line)...)...)
		if err == nil || ExitCode(err) != 2 || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", line, err)
		}
	}
	config := kubeconfig(t, "http://127.0.0.1:1")
	for line, says := range map[string]string{
		"--context east --also east": "leave it out of --also",
		"--context none":             `"none" does not exist`,
		"--also none":                `"none" does not exist`,
	} {
		_, _, err := try(t, "", append([]string{"console", "--kubeconfig", config}, strings.Fields(line)...)...)
		if err == nil || ExitCode(err) != 1 || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
