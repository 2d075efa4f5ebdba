// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func TestParse(t *testing.T) {
	var out strings.Builder
	s, err := parse([]string{"--drain-timeout=5s", "--max-connections=10", "--peer-max-deliveries", "7", "-v=1"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if s.options.Limits.DrainTimeout != 5*time.Second || s.options.Limits.Connections != 10 ||
		s.options.DeliveriesPerNamespace != 7 || s.verbosity != 1 {
		t.Errorf("settings %+v", s)
	}
	if s.shutdownTimeout <= 5*time.Second {
		t.Errorf("%s to shut down in leaves no time beside draining", s.shutdownTimeout)
	}
	if s.address != ":8443" || s.healthAddress != ":8081" || s.metricsAddress != ":8080" ||
		s.configDirectory != "/etc/lighterage" {
		t.Errorf("defaults %+v", s)
	}
	if out.Len() > 0 {
		t.Errorf("it printed %q", out.String())
	}
}

func TestParsePrints(t *testing.T) {
	for argument, want := range map[string]string{"--version": wirev1.Version + "\n", "--help": "-bind-address"} {
		var out strings.Builder
		if s, err := parse([]string{argument}, &out); s != nil || err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v %v %q", argument, s, err, out.String())
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, arguments := range [][]string{
		{"--unknown"},
		{"word"},
		{"--max-connections=-1"},
		{"--max-connections=many"},
		{"--idle-timeout=-1s"},
	} {
		if s, err := parse(arguments, &strings.Builder{}); s != nil || err == nil {
			t.Errorf("%v: %+v %v", arguments, s, err)
		}
	}
}
