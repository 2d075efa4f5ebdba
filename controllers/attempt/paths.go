// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/policy"
)

// CheckSource is the problem with the claim that an agent is to read; nil if there is none.
func CheckSource(namespace, name string, claim *corev1.PersistentVolumeClaim) *agentpod.Problem {
	if claim == nil {
		return &agentpod.Problem{Reason: v1alpha1.ReasonSourceNotFound, Message: fmt.Sprintf(
			"there is no PersistentVolumeClaim %q in namespace %q; create it there (claims of the own namespace are read, and "+
				"no others)",
			name, namespace)}
	}
	if claim.DeletionTimestamp != nil {
		return &agentpod.Problem{
			Reason: v1alpha1.ReasonSourceNotFound, Message: fmt.Sprintf("PersistentVolumeClaim %q is being deleted", name),
		}
	}
	return nil
}

const maxPathBytes = 4096

// RelativePath is a path of the API as agents want it: RelativePath to the volume, "." for its root.
func RelativePath(p string) string {
	cleaned := strings.TrimPrefix(path.Clean("/"+p), "/")
	if cleaned == "" {
		return "."
	}
	return cleaned
}

// ValidatePath checks again what the API server checks of a path. The error is a *policy.InvalidError.
func ValidatePath(field, p string) error {
	switch {
	case p == "":
		return nil
	case len(p) > maxPathBytes:
		return &policy.InvalidError{Field: field, Fix: fmt.Sprintf("must be at most %d bytes long", maxPathBytes)}
	case !strings.HasPrefix(p, "/"):
		return &policy.InvalidError{
			Field: field, Fix: fmt.Sprintf("must be absolute, from the root of the volume, not %q; write for example /data", p),
		}
	case strings.ContainsRune(p, 0):
		return &policy.InvalidError{Field: field, Fix: "must not contain a NUL"}
	}
	if elements := strings.Split(p, "/"); slices.Contains(elements, "..") || slices.Contains(elements, ".") {
		return &policy.InvalidError{Field: field, Fix: "must not contain . or .. elements; name the directory itself"}
	}
	return nil
}

// MaxPatterns of spec.include and of spec.exclude. Whether a pattern is well formed the agent says, which reads it.
const MaxPatterns = 128
