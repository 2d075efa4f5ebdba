// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentreport_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentreport"
)

func TestBounded(t *testing.T) {
	if got := agentreport.Bounded((*wirev1.Report)(nil)); got != nil {
		t.Errorf("%v", got)
	}
	fine := &wirev1.Report{
		Detail: "mærsk, 帳簿", Architecture: "s390x",
		Compression: &wirev1.Compression{Engine: "dfltcc", Reasons: map[string]uint64{"HardwareUsed": 7}},
	}
	if got := agentreport.Bounded(fine); !proto.Equal(got, fine) {
		t.Errorf("%v became %v", fine, got)
	}
	long := &wirev1.Report{
		Detail: strings.Repeat("ü", 600), Architecture: strings.Repeat("\n", 500),
		Compression: &wirev1.Compression{Reasons: map[string]uint64{"a\x1b": 1, "HardwareUsed": 2}},
	}
	before := proto.CloneOf(long)
	got := agentreport.Bounded(long)
	if !proto.Equal(before, long) {
		t.Error("the argument was changed")
	}
	for _, text := range []string{got.GetDetail(), got.GetArchitecture()} {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) ||
			!strings.HasSuffix(text, "…") {
			t.Errorf("%q", text)
		}
	}
	if len(got.GetDetail()) > 1024 || len(got.GetArchitecture()) > 256 || len(got.GetCompression().GetReasons()) != 1 {
		t.Errorf("%d, %d, %v", len(got.GetDetail()), len(got.GetArchitecture()), got.GetCompression().GetReasons())
	}
	if exact := strings.Repeat("y", 256); agentreport.Bounded(&wirev1.Report{Architecture: exact}).GetArchitecture() != exact {
		t.Error("what fits exactly was cut")
	}
}
