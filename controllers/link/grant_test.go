// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestParseGrant(t *testing.T) {
	for text, want := range map[string]string{
		"vault/ledger=bank": "from-west.bank.ledger", "vault=bank": "from-west.bank", "v/a.b=b": "from-west.b.a.b",
		"vault": "from-west.vault", "vault/ledger": "from-west.vault.ledger", "": "", "/ledger": "",
		"=bank": "", "vault=": "", "vault/=bank": "", "vault/a/b=bank": "", "vault=bank=x": "",
		"Vault=bank": "", "vault/ledger=b.c": "", "v/" + strings.Repeat("c", 253) + "=b": "",
	} {
		g, err := ParseGrant(text)
		if (err == nil) != (want != "") {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil {
			continue
		}
		p := g.For("west")
		if p.Name != want || p.Namespace != g.Namespace || len(p.Spec.From) != 1 || p.Spec.From[0].Peer != "west" ||
			p.Spec.To[0].Name != g.Claim || p.Spec.To[0].AllowDelete || p.Spec.To[0].AllowPrivileged {
			t.Errorf("%q: %+v", text, p)
		}
	}
}

// FuzzParseGrant: what is accepted makes a valid name, for the longest name of a Peer too.
func FuzzParseGrant(f *testing.F) {
	f.Add("vault/ledger=bank")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ParseGrant(text)
		if err != nil {
			return
		}
		for _, peer := range []string{"a", strings.Repeat("a", 63)} {
			if problems := validation.IsDNS1123Subdomain(g.For(peer).Name); len(problems) > 0 {
				t.Errorf("%q: %v", text, problems)
			}
		}
	})
}
