// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// atRest tells how files rest at either end, and how they are encrypted there.
func (s *sheet) atRest(t *v1alpha1.Transfer) {
	if form := t.Spec.Destination.Form; form.Compressed() {
		s.section("At rest")
		what := "files rest compressed, as they travelled, each with an index beside it"
		if form.Archived() {
			what = "files rest packed in tar archives below .lighterage/archives, to which the index points"
		}
		s.rowf("form", "%s: %s", form, what)
		if r := t.Spec.Destination.Records; r != nil {
			s.rowf("records", "%s: indexes know their numbers, but of files that are counted as Records", recordsOf(r))
		}
		if e := t.Spec.Destination.Encryption; e != nil {
			s.rowf("encryption", "age, for %d recipients; names as well", len(e.Recipients))
		}
	}
	if form := t.Spec.Source.Form; form.Compressed() {
		s.section("Source at rest")
		s.rowf("form", "%s: %s", form, sourceAtRest(t))
	}
	if e := t.Spec.Source.Encryption; e != nil {
		if !t.Spec.Source.Form.Compressed() {
			s.section("Source at rest")
		}
		s.rowf("decrypted", "with the identities in Secret %s", e.IdentitySecretName)
	}
}

// sourceAtRest tells what becomes of files that rest in the form of the source.
func sourceAtRest(t *v1alpha1.Transfer) string {
	from, to := t.Spec.Source, t.Spec.Destination
	switch {
	case to.Scrub != "" && from.Form.Archived():
		return "archives that the index names are verified where they rest"
	case to.Scrub != "":
		return "files with an index are verified where they rest"
	case from.Form.Archived():
		return "files in archives are inflated where they are read, and sent under their names"
	case from.Form == to.Form:
		return "files with an index are sent as they rest and stay so; nobody inflates them"
	case to.ObjectStore != nil, to.Form.Compressed():
		return "files with an index are inflated where they are read, since destination.form is another one"
	case from.ObjectStore != nil:
		return "objects with an index are restored as the plain files that they are of"
	default:
		return "files with an index are sent as they rest, under their plain names, and inflated at the destination"
	}
}

// recordsOf names records.
func recordsOf(r *v1alpha1.FileRecords) string {
	if r.Format == v1alpha1.RecordFixed {
		return fmt.Sprintf("%s, %d bytes each", r.Format, r.Length)
	}
	return string(r.Format)
}
