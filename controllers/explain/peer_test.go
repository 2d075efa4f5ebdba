// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// TestPeerThatIsNotDialledBothWays says who dials, through what, and what came of it.
func TestPeerThatIsNotDialledBothWays(t *testing.T) {
	listens := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	listens.Spec.Connection = v1alpha1.PeerListen
	listens.Status.Conditions = conditions.Ready(v1alpha1.ReasonReachable, "it answers")
	listens.Status.Control = &v1alpha1.PeerControlStatus{Connections: 4, Since: at(0)}
	dials := listens.DeepCopy()
	dials.Spec = v1alpha1.PeerSpec{
		Connection: v1alpha1.PeerDial, Endpoint: "gateway.west.example:8443",
		Proxy: &v1alpha1.PeerProxy{URL: "http://proxy.example:3128"},
	}
	dials.Status.Control = &v1alpha1.PeerControlStatus{LastError: "the proxy wants other credentials", LastErrorTime: at(5)}
	for _, test := range []struct {
		peer  *v1alpha1.Peer
		words []string
	}{
		{listens, []string{"the other cluster dials this one", "the other cluster", "4"}},
		{dials, []string{
			"gateway.west.example:8443", "http://proxy.example:3128", "this cluster", "the proxy wants other credentials",
		}},
	} {
		_, text := explainObject(t, test.peer)
		for _, word := range test.words {
			if !strings.Contains(text, word) {
				t.Errorf("%q is not in:\n%s", word, text)
			}
		}
	}
}
