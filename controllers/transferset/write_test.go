// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transferset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lighterage/lighterage/controllers/transfersetplan"
)

// TestWriteGoesOn: what cannot be written keeps nothing else from being written, up to a limit.
func TestWriteGoesOn(t *testing.T) {
	var made []string
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			if o.GetName() < "a20" {
				return apierrors.NewInternalError(errors.New("failed calling webhook"))
			}
			made = append(made, o.GetName())
			return nil
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return apierrors.NewInternalError(errors.New("failed calling webhook"))
		},
	})
	w := transfersetplan.Writes[*corev1.ConfigMap]{Delete: []*corev1.ConfigMap{{}}}
	for i := range 22 {
		w.Create = append(w.Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("a%02d", i)}})
	}
	for most, want := range map[int]struct {
		noted int
		made  []string
	}{
		transfersetplan.MaxRejections: {noted: transfersetplan.MaxRejections},
		math.MaxInt:                   {20, []string{"a20", "a21"}},
	} {
		made = nil
		noted := 0
		err := write(t.Context(), c, w, func(*corev1.ConfigMap, error) error {
			noted++
			return nil
		}, most)
		if !apierrors.IsInternalError(err) { // of the deletion
			t.Errorf("at most %d: %v", most, err)
		}
		if noted != want.noted || !slices.Equal(made, want.made) {
			t.Errorf("at most %d: %d noted, made %q", most, noted, made)
		}
	}
}
