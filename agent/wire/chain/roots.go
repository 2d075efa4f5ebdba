// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// maxCandidates bounds the roots of all owners that have the name, and the key identifier, of a chain's issuer.
	maxCandidates = 64
	// maxAlike bounds those of one owner with one name and key identifier, so that no owner takes the place of another.
	// Two are there while a CA's certificate is renewed with the same key.
	maxAlike = 2
)

// ErrUnknownIssuer is returned for a chain that no root can have issued, judged by names and key identifiers.
var ErrUnknownIssuer = errors.New("no known CA has the name and the key identifier of the certificate's issuer")

// Roots are the CA certificates of several owners. They are complete before Owners is called; from then on they are
// safe for concurrent use.
type Roots struct {
	bySubject map[string][]*root
}

type root struct {
	certificate *x509.Certificate
	owners      []string
}

// NewRoots returns none.
func NewRoots() *Roots { return &Roots{bySubject: map[string][]*root{}} }

// Add adds the CA certificates of an owner, some of which others may have as well. Of an owner's certificates with the
// same name and key identifier the first two count.
func (r *Roots) Add(owner string, certificates []*x509.Certificate) {
	for _, certificate := range certificates {
		subject := string(certificate.RawSubject)
		known := r.bySubject[subject]
		if i := slices.IndexFunc(known, func(o *root) bool { return o.certificate.Equal(certificate) }); i < 0 {
			if !full(known, owner, certificate) {
				r.bySubject[subject] = append(known, &root{certificate: certificate, owners: []string{owner}})
			}
		} else if !slices.Contains(known[i].owners, owner) {
			known[i].owners = append(known[i].owners, owner)
		}
	}
}

// full reports whether an owner has as many roots as it may with the name and key identifier of a certificate.
func full(known []*root, owner string, certificate *x509.Certificate) bool {
	alike := 0
	for _, o := range known {
		if slices.Contains(o.owners, owner) && bytes.Equal(o.certificate.SubjectKeyId, certificate.SubjectKeyId) {
			alike++
		}
	}
	return alike >= maxAlike
}

// Owners returns the names of those whose CA verifies the chain, leaf first, sorted; without an error there is at least
// one. The chain's signatures, times and uses are checked, not its names. What it costs depends neither on the number
// of owners nor on what a stranger presents: a chain that no root can have issued is rejected before a signature is
// looked at.
func (r *Roots) Owners(chain []*x509.Certificate, now time.Time, usage x509.ExtKeyUsage) ([]string, error) {
	if len(chain) == 0 {
		return nil, fmt.Errorf("%w: none was presented", ErrUnknownIssuer)
	}
	if err := Check(chain); err != nil {
		return nil, err
	}
	candidates := r.candidates(chain)
	if len(candidates) == 0 {
		return nil, ErrUnknownIssuer
	}
	if len(candidates) > maxCandidates {
		return nil, fmt.Errorf("%w: %d known CAs have the name of its issuer; issue certificates that carry the key "+
			"identifier of their CA",
			ErrExcessive, len(candidates))
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, candidate := range candidates {
		roots.AddCert(candidate.certificate)
	}
	for _, certificate := range chain[1:] {
		intermediates.AddCert(certificate)
	}
	verified, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return nil, err
	}
	var owners []string
	for _, path := range verified {
		last := path[len(path)-1]
		for _, candidate := range candidates {
			if candidate.certificate.Equal(last) {
				owners = append(owners, candidate.owners...)
			}
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners), nil
}

// candidates are the roots that may have issued a certificate of the chain, or are in it. Those whose key identifier
// is the one that the certificate names come alone if there are any.
func (r *Roots) candidates(chain []*x509.Certificate) []*root {
	var exact, possible []*root
	add := func(list []*root, o *root) []*root {
		if slices.Contains(list, o) {
			return list
		}
		return append(list, o)
	}
	for i, certificate := range chain {
		for _, o := range r.bySubject[string(certificate.RawSubject)] {
			if o.certificate.Equal(certificate) {
				exact = add(exact, o)
			}
		}
		for _, o := range r.bySubject[string(certificate.RawIssuer)] {
			named, has := certificate.AuthorityKeyId, o.certificate.SubjectKeyId
			switch {
			case len(named) > 0 && bytes.Equal(named, has):
				exact = add(exact, o)
			case len(has) == 0, len(named) == 0 && i > 0:
				// Leaves name the identifier of their CA's key if it has one. CAs that were made elsewhere may not.
				possible = add(possible, o)
			}
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return possible
}
