// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package indextest has a fake cluster find objects as the manager's cache does.
package indextest

import (
	"context"
	"reflect"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lighterage/lighterage/controllers/index"
)

// In adds the fields of package index to what builds a fake cluster, whose scheme must be set: all, or those of some
// kinds.
func In(builder *fake.ClientBuilder, kinds ...client.Object) *fake.ClientBuilder {
	if err := index.Setup(context.Background(), indexer{builder, kinds}); err != nil {
		panic(err)
	}
	return builder
}

type indexer struct {
	builder *fake.ClientBuilder
	kinds   []client.Object
}

// IndexField is of client.FieldIndexer.
func (i indexer) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	same := func(kind client.Object) bool { return reflect.TypeOf(kind) == reflect.TypeOf(object) }
	if len(i.kinds) == 0 || slices.ContainsFunc(i.kinds, same) {
		i.builder.WithIndex(object, field, values)
	}
	return nil
}
