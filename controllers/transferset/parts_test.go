// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transferset

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// TestPartMoved: what tenants write on a part besides wakes nothing; what makes it a part, and its state, do.
func TestPartMoved(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.TransferSet)
		moved  bool
	}{
		"a label":     {func(s *v1alpha1.TransferSet) { s.Labels["team"] = "x" }, false},
		"a note":      {func(s *v1alpha1.TransferSet) { s.Annotations["note"] = "x" }, false},
		"bytes":       {func(s *v1alpha1.TransferSet) { s.Status.Bytes = 7 }, false},
		"the digest":  {func(s *v1alpha1.TransferSet) { s.Annotations[v1alpha1.TemplateHashAnnotation] = "x" }, true},
		"no manager":  {func(s *v1alpha1.TransferSet) { delete(s.Labels, agentpod.ManagedByLabel) }, true},
		"another set": {func(s *v1alpha1.TransferSet) { s.Labels[v1alpha1.TransferSetLabel] = "x" }, true},
		"a controller": {func(s *v1alpha1.TransferSet) {
			s.OwnerReferences = []metav1.OwnerReference{{Controller: new(true)}}
		}, true},
		"the spec": {func(s *v1alpha1.TransferSet) { s.Generation++ }, true},
		"members": {func(s *v1alpha1.TransferSet) {
			s.Status.Members = &v1alpha1.TransferSetMembers{Selected: 1}
		}, true},
	} {
		before := &v1alpha1.TransferSet{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{
				v1alpha1.TransferSetLabel: "move", agentpod.ManagedByLabel: agentpod.ManagedBy,
			},
			Annotations: map[string]string{v1alpha1.TemplateHashAnnotation: "digest"},
		}}
		after := before.DeepCopy()
		c.change(after)
		if moved := partMoved().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); moved != c.moved {
			t.Errorf("%s: %v", name, moved)
		}
	}
}
