// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import "testing"

func TestSent(t *testing.T) {
	const told = `[{"kind":"tbf","handle":"8001:","root":true,"options":{"rate":12500000,"burst":50000,"lat":50000},` +
		`"bytes":5013724,"packets":3490,"drops":0,"overlimits":12,"requeues":0,"backlog":0,"qlen":0}]`
	if n, err := sent([]byte(told)); n != 5013724 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, told := range []string{"", "[]", `[{"kind":"noqueue","bytes":7}]`} {
		if _, err := sent([]byte(told)); err == nil {
			t.Errorf("%q is no error", told)
		}
	}
}
