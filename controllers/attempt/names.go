// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// suffix is a run's identifier and the attempt's number.
var suffix = regexp.MustCompile(`^-[a-z2-7]{5}-[1-9][0-9]*$`)

// Name is the name of the Job of an attempt of a Transfer or CompressionTrial.
func Name(transfer, run string, number int32) string {
	return fmt.Sprintf("%s-%s-%d", prefix(transfer), run, number)
}

func prefix(transfer string) string {
	if len(transfer) > 40 {
		transfer = strings.TrimRight(transfer[:40], "-.")
	}
	return transfer
}

// IsName reports whether a Job's name can be that of an attempt of the Transfer or Delivery of that name.
func IsName(owner, name string) bool {
	if name == owner {
		return true // a Delivery is of one attempt and gives it its own name
	}
	rest, ok := strings.CutPrefix(name, prefix(owner))
	return ok && suffix.MatchString(rest)
}

// SecretName is the name of the Secret that is made for a Job of the owner's. The API server chooses UIDs, so
// nobody can have an object whose attempts' Secrets have the name of a Secret that is there: the manager, which may
// not read Secrets, can overwrite and delete what has this name. It is at most 11 characters longer than the Job's.
func SecretName(job string, owner metav1.Object) string {
	uid := sha256.Sum256([]byte(owner.GetUID()))
	return job + "-" + hex.EncodeToString(uid[:5])
}

// StagedName is the name of the snapshot and of the claim that a run of a Transfer reads in place of its source. For
// the reason that SecretName has, nobody can have them before.
func StagedName(run string, transfer metav1.Object) string {
	return SecretName(prefix(transfer.GetName())+"-"+run, transfer)
}
